//! What was found of a server, or of a server under one setting, in plain words.

use measure::{Estimate, Interval};

use crate::across::Across;
use crate::cells::Spread;
use crate::findings::{Against, Spot, Standing};
use crate::run::Run;
use crate::words::{self, Quantity};

/// The sentences on one curve.
pub(crate) fn sentences(run: &Run, standing: &Standing) -> Vec<String> {
    let mut sentences = Vec::new();
    match standing.across {
        Across::Rate => {
            sentences.push(capacity(run, standing));
            sentences.extend(busy_generator(standing));
            sentences.push(knee(standing));
        }
        Across::Setting(_) => sentences.extend(capacities(standing)),
    }
    sentences.extend(tail(standing));
    sentences.extend(cost(standing));
    sentences.extend(limited(standing));
    sentences.extend(lost_connections(standing));
    sentences.extend(stolen(standing));
    sentences
}

/// Share of the time from which on a busy generator may be what limits the pair.
const BUSY: f64 = 0.9;

/// How the brackets of [`sentences`] are to be read.
pub(crate) const BRACKETS: &str = "Brackets hold the 95 % interval, from the ranks of the trials; where there are too few trials \
     for that, all of them, and in parentheses the confidence that gives.";

/// `241 k/s [236, 247]`.
fn estimated(estimate: &Estimate, quantity: Quantity) -> String {
    let value = quantity.words(estimate.value);
    if estimate.samples < 2 {
        return format!("{value} (one trial)");
    }
    let Interval {
        low,
        high,
        confidence,
    } = estimate.interval;
    let range = quantity.range(estimate.value, low, high);
    if confidence < 0.949 {
        format!("{value} {range} ({:.0}\u{a0}%)", confidence * 100.0)
    } else {
        format!("{value} {range}")
    }
}

fn capacity(run: &Run, standing: &Standing) -> String {
    let server = &standing.name;
    let Some(capacity) = &standing.capacity else {
        let achieved = standing
            .cells
            .iter()
            .filter_map(|cell| cell.spread(|measured| Some(measured.achieved_rps)))
            .map(|achieved| achieved.median)
            .reduce(f64::max);
        let why = if run.plan.capacity_trials == 0 {
            "not asked for"
        } else {
            "not measured"
        };
        return match achieved {
            Some(rate) => format!(
                "The capacity of {server} was {why}; the most it achieved in the sweep is {}, \
                 median of a cell.",
                words::rate(rate)
            ),
            None => format!("Nothing of {server} was measured."),
        };
    };
    let limited = capacity.limited as u64;
    let trials = words::plural(capacity.rps.samples as u64, "trial");
    let rate = estimated(&capacity.rps, Quantity::Rate);
    if capacity.at_least {
        return format!(
            "{server} answers at least {rate} under infinite demand, median of {trials}: in {} of \
             them the load generator was the limit, so its capacity is not known.",
            words::count(limited),
        );
    }
    let ratio = standing.capacity_ratio.as_ref().zip(standing.beside);
    let mut against = ratio.map_or_else(String::new, |(times, beside)| {
        let times = estimated(times, Quantity::Factor);
        format!(", {times} times what {beside} does")
    });
    let change = standing.capacity_change.as_ref();
    let reference = run.plan.reference().and_then(|at| run.plan.condition(at));
    if let Some((times, reference)) = change.zip(reference) {
        let times = estimated(times, Quantity::Factor);
        against.push_str(&format!(", {times} times its own with {reference}"));
    }
    let excluded = match limited {
        0 => String::new(),
        count => format!(
            "; {} limited by the generator left out",
            words::plural(count, "trial")
        ),
    };
    format!("{server} answers {rate} under infinite demand, median of {trials}{excluded}{against}.",)
}

/// What it answers under infinite demand in one setting after the other. None: it was not asked.
fn capacities(standing: &Standing) -> Option<String> {
    let capacities: Vec<String> = standing
        .spots
        .iter()
        .filter_map(|spot| {
            let capacity = spot.capacity.as_ref()?;
            let bound = if capacity.at_least { "at least " } else { "" };
            let rate = estimated(&capacity.rps, Quantity::Rate);
            Some(format!("{bound}{rate} {}", spot.place))
        })
        .collect();
    if !capacities.is_empty() {
        return Some(format!(
            "{} answers {} under infinite demand.",
            standing.name,
            words::listed(&capacities)
        ));
    }
    let is_empty = standing.cells.iter().all(|cell| cell.measured.is_empty());
    is_empty.then(|| format!("Nothing of {} was measured.", standing.name))
}

/// Where the generator had little left, a capacity may be the pair's rather than the server's.
fn busy_generator(standing: &Standing) -> Option<String> {
    let busy = standing.generator_busy?;
    let more = if busy >= BUSY {
        ": the server alone may do more"
    } else {
        ""
    };
    Some(format!(
        "The generator was busy {} of the time at capacity{more}.",
        words::share(busy)
    ))
}

fn knee(standing: &Standing) -> String {
    let Some(knee) = standing.knee else {
        return no_knee(standing);
    };
    let plateau = words::duration(knee.plateau_ns);
    let level = standing
        .level_of(knee.level)
        .map(|level| format!("load level {level}, "));
    let at = format!(
        "{}{} offered",
        level.unwrap_or_default(),
        words::rate(knee.level)
    );
    let within = format!(
        "Its 99th percentile stays within {} times its plateau of {plateau} up to {at}",
        words::plain_tick(knee.limit_ns / knee.plateau_ns),
    );
    let unknown = match knee.unknown_above {
        1 => "one level".to_owned(),
        count => words::plural(count as u64, "level"),
    };
    match (knee.leaves_at, knee.unknown_above) {
        (Some(_), 0) => format!("{within}: its knee."),
        (Some(leaves_at), _) => format!(
            "{within}, and has left it at {}: its knee lies between, where the generator was the \
             limit at {unknown}.",
            words::rate(leaves_at)
        ),
        (None, 0) => format!("{within}, the most that was offered: its knee is there or beyond."),
        (None, _) => format!(
            "{within}, the highest level the generator did not limit: at {unknown} above it the \
             generator was the limit, so its knee is there or beyond, and not known."
        ),
    }
}

/// Why there is no knee.
fn no_knee(standing: &Standing) -> String {
    let measured = || {
        let cells = standing.cells.iter();
        cells.filter(|cell| !cell.measured.is_empty())
    };
    let limited = measured().filter(|cell| cell.mostly_limited()).count() as u64;
    let levels = words::plural(measured().count() as u64, "level");
    if limited == 0 {
        return format!("There are too few points to find a knee: {levels} measured.");
    }
    format!(
        "There are too few points to find a knee: the load generator was the limit in most trials \
         of {} of {levels}.",
        words::count(limited)
    )
}

fn tail(standing: &Standing) -> Option<String> {
    let (mut tails, mut unknown) = (Vec::new(), Vec::new());
    for spot in standing.spots.iter().filter(|spot| spot.measured > 0) {
        let Some(p99) = spot.p99_ns.as_ref() else {
            unknown.extend(hidden(spot));
            continue;
        };
        let bound = words::lower_bound(spot.p99_is_lower_bound);
        let against = compared(spot, |against| against.p99.as_ref());
        tails.push(format!(
            "{bound}{} {}{}",
            estimated(p99, Quantity::Duration),
            spot.place,
            against.map(|it| format!(" ({it})")).unwrap_or_default()
        ));
    }
    if !unknown.is_empty() {
        tails.push(format!("not known {}", words::listed(&unknown)));
    }
    (!tails.is_empty()).then(|| {
        format!(
            "The 99th percentile of its response time is {}.",
            words::listed(&tails)
        )
    })
}

/// `0.94 [0.89, 1.01] times memcached's there, 1.20 [1.1, 1.3] times its own with depth 1`.
fn compared(spot: &Spot, ratio: fn(&Against) -> Option<&Estimate>) -> Option<String> {
    let times: Vec<String> = spot
        .against
        .iter()
        .filter_map(|against| {
            let times = estimated(ratio(against)?, Quantity::Factor);
            Some(format!("{times} times {}", against.whose))
        })
        .collect();
    (!times.is_empty()).then(|| times.join(", "))
}

/// Why a tail is not known: `at load level 0.9 (in all 15 trials the generator was the limit)`.
fn hidden(spot: &Spot) -> Option<String> {
    let trials = match spot.limited {
        0 => return None,
        all if all == spot.measured => format!("all {}", words::plural(all, "trial")),
        some => format!(
            "{} of {}",
            words::count(some),
            words::plural(spot.measured, "trial")
        ),
    };
    Some(format!(
        "{} (in {trials} the generator was the limit)",
        spot.place
    ))
}

/// At every setting; along a curve of rates, where most is asked.
fn cost(standing: &Standing) -> Option<String> {
    let known: Vec<&Spot> = standing
        .spots
        .iter()
        .filter(|spot| spot.cpu_ns.is_some())
        .collect();
    let told = match standing.across {
        Across::Rate => known.get(known.len().checked_sub(1)?..)?,
        Across::Setting(_) => known.as_slice(),
    };
    let costs: Vec<String> = told
        .iter()
        .filter_map(|spot| {
            let cpu = estimated(spot.cpu_ns.as_ref()?, Quantity::Duration);
            let parts = spot.cpu_parts_ns.map(|(user, system)| {
                format!(
                    " ({} user, {} system)",
                    words::duration(user),
                    words::duration(system)
                )
            });
            let against = compared(spot, |against| against.cpu.as_ref());
            Some(format!(
                "{cpu} of processor time {}{}{}",
                spot.place,
                parts.unwrap_or_default(),
                against.map(|it| format!(": {it}")).unwrap_or_default(),
            ))
        })
        .collect();
    let limited = match told.iter().any(|spot| spot.limited > 0) {
        true => {
            "; trials that the generator limited count here, for the server's processor time is \
             its own"
        }
        false => "",
    };
    (!costs.is_empty()).then(|| format!("A request costs it {}{limited}.", costs.join("; ")))
}

fn limited(standing: &Standing) -> Option<String> {
    let cells = || standing.cells.iter();
    let limited: u64 = cells().map(|cell| u64::from(cell.limited())).sum();
    let measured: u64 = cells().map(|cell| cell.measured.len() as u64).sum();
    (limited > 0).then(|| {
        format!(
            "In {} of {} of its sweep the load generator was the limit; they count for what a \
             request costs, and for no tail and no knee.",
            words::count(limited),
            words::plural(measured, "trial")
        )
    })
}

fn lost_connections(standing: &Standing) -> Option<String> {
    let (trials, lost) = standing.lost_connections;
    (lost > 0).then(|| {
        format!(
            "{} lost, in {}.",
            words::plural(lost, "connection"),
            words::plural(trials, "trial")
        )
    })
}

/// The host's noise.
fn stolen(standing: &Standing) -> Option<String> {
    let (server, load) = standing.stolen?;
    let most = |spread: Spread| {
        format!(
            "{} (at most {})",
            words::share(spread.median),
            words::share(spread.max)
        )
    };
    Some(format!(
        "The host took {} of the time of the server's processors and {} of the generator's, median \
         of all trials.",
        most(server),
        most(load)
    ))
}
