//! What was found of a server, in plain words.

use measure::{Estimate, Interval};

use crate::cells::Spread;
use crate::findings::{AtLevel, Standing};
use crate::run::Run;
use crate::words::{self, Quantity};

/// The sentences on one server.
pub(crate) fn sentences(run: &Run, standing: &Standing) -> Vec<String> {
    let mut sentences = vec![capacity(run, standing)];
    sentences.extend(busy_generator(standing));
    sentences.push(knee(standing));
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
    let server = &standing.server.name;
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
    let against = standing.ratio.as_ref().and_then(|ratio| {
        Some(format!(
            ", {} times what {} does",
            estimated(ratio.capacity.as_ref()?, Quantity::Factor),
            ratio.to
        ))
    });
    let excluded = match limited {
        0 => String::new(),
        count => format!(
            "; {} limited by the generator left out",
            words::plural(count, "trial")
        ),
    };
    format!(
        "{server} answers {rate} under infinite demand, median of {trials}{excluded}{}.",
        against.unwrap_or_default(),
    )
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
    let ratio = standing.ratio.as_ref();
    let levels = [
        (
            standing.half.as_ref(),
            ratio.and_then(|ratio| ratio.p99_half.as_ref()),
        ),
        (
            standing.nearly_full.as_ref(),
            ratio.and_then(|ratio| ratio.p99_nearly_full.as_ref()),
        ),
    ];
    let (mut tails, mut unknown) = (Vec::new(), Vec::new());
    for (at, against) in levels {
        let Some(at) = at.filter(|at| at.measured > 0) else {
            continue;
        };
        let level = words::level(at.level);
        let Some(p99) = at.p99_ns.as_ref() else {
            unknown.extend(hidden(at));
            continue;
        };
        let bound = words::lower_bound(at.p99_is_lower_bound);
        let against = against.zip(ratio).map(|(times, ratio)| {
            format!(
                " ({} times {}'s there)",
                estimated(times, Quantity::Factor),
                ratio.to
            )
        });
        tails.push(format!(
            "{bound}{} at load level {level}{}",
            estimated(p99, Quantity::Duration),
            against.unwrap_or_default()
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

/// Why a tail is not known: `at 0.9 (in all 15 trials the generator was the limit)`.
fn hidden(at: &AtLevel) -> Option<String> {
    let trials = match at.limited {
        0 => return None,
        all if all == at.measured => format!("all {}", words::plural(all, "trial")),
        some => format!(
            "{} of {}",
            words::count(some),
            words::plural(at.measured, "trial")
        ),
    };
    let level = words::level(at.level);
    Some(format!(
        "at {level} (in {trials} the generator was the limit)"
    ))
}

fn cost(standing: &Standing) -> Option<String> {
    let (at, times) = [
        (
            &standing.nearly_full,
            standing.ratio.as_ref().map(|ratio| &ratio.cpu_nearly_full),
        ),
        (
            &standing.half,
            standing.ratio.as_ref().map(|ratio| &ratio.cpu_half),
        ),
    ]
    .into_iter()
    .find_map(|(at, times)| {
        let at = at.as_ref()?;
        at.cpu_ns.as_ref()?;
        Some((at, times.and_then(Option::as_ref)))
    })?;
    let cpu = estimated(at.cpu_ns.as_ref()?, Quantity::Duration);
    let parts = at.cpu_parts_ns.map(|(user, system)| {
        format!(
            " ({} user, {} system)",
            words::duration(user),
            words::duration(system)
        )
    });
    let against = times.zip(standing.ratio.as_ref()).map(|(times, ratio)| {
        format!(
            ": {} times {}'s",
            estimated(times, Quantity::Factor),
            ratio.to
        )
    });
    Some(format!(
        "A request costs it {cpu} of processor time at load level {}{}{}{}.",
        words::level(at.level),
        parts.unwrap_or_default(),
        against.unwrap_or_default(),
        if at.limited > 0 {
            "; trials that the generator limited count here, for the server's processor time is \
             its own"
        } else {
            ""
        },
    ))
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
