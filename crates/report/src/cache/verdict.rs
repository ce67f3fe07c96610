//! The findings of a curve (a server, or a server under one setting) as sentences.

use measure::{Estimate, Interval};

use crate::cache::Run;
use crate::cache::cells::Spread;
use crate::cache::findings::{Comparison, CurveFindings, Highlight};
use crate::cache::sweep_axis::SweepAxis;
use crate::units::{self, Quantity};

/// The sentences on one curve.
pub(crate) fn sentences(run: &Run, curve: &CurveFindings) -> Vec<String> {
    let mut sentences = Vec::new();
    match curve.axis {
        SweepAxis::Rate => {
            sentences.push(capacity(run, curve));
            sentences.extend(busy_generator(curve));
            sentences.push(knee(curve));
        }
        SweepAxis::Setting(_) => sentences.extend(capacities(curve)),
    }
    sentences.extend(tail(curve));
    sentences.extend(cost(curve));
    sentences.extend(limited(curve));
    sentences.extend(lost_connections(curve));
    sentences.extend(stolen(curve));
    sentences
}

/// Busy share of the generator from which on it, rather than the server, may limit a capacity.
const BUSY: f64 = 0.9;

/// What the brackets of [`sentences`] mean.
pub(crate) const BRACKETS: &str = "Brackets give the 95 % interval, computed from the ranks of the trials. With too few trials \
     for that, they give the range of all trials, and parentheses give its confidence.";

/// Whether an interval has the 95 % that [`BRACKETS`] promises; few trials give less.
pub(crate) fn has_full_confidence(estimate: &Estimate) -> bool {
    estimate.samples >= 2 && estimate.interval.confidence >= 0.949
}

/// `241 k/s [236, 247]`.
pub(crate) fn estimated(estimate: &Estimate, quantity: Quantity) -> String {
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
    if has_full_confidence(estimate) {
        format!("{value} {range}")
    } else {
        format!("{value} {range} ({:.0}\u{a0}%)", confidence * 100.0)
    }
}

fn capacity(run: &Run, curve: &CurveFindings) -> String {
    let server = &curve.name;
    let Some(capacity) = &curve.capacity else {
        let achieved = curve
            .cells
            .iter()
            .filter_map(|cell| cell.spread(|measured| Some(measured.achieved_rps)))
            .map(|achieved| achieved.median)
            .reduce(f64::max);
        let why = if run.plan.capacity_trials == 0 {
            "not part of the plan"
        } else {
            "not measured"
        };
        return match achieved {
            Some(rate) => format!(
                "The capacity of {server} was {why}; its highest achieved rate in the sweep is {} \
                 (median of a cell).",
                units::rate(rate)
            ),
            None => format!("No trial of {server} was measured."),
        };
    };
    let limited = capacity.limited as u64;
    let trials = units::plural(capacity.rps.samples as u64, "trial");
    let rate = estimated(&capacity.rps, Quantity::Rate);
    if capacity.at_least {
        return format!(
            "The capacity of {server} is at least {rate} (median of {trials} in closed loop): the \
             generator was the limit in {} of them, so the capacity itself is not known.",
            units::count(limited),
        );
    }
    let ratio = curve.capacity_ratio.as_ref().zip(curve.baseline);
    let mut comparison = ratio.map_or_else(String::new, |(times, baseline)| {
        let times = estimated(times, Quantity::Factor);
        format!(", {times} times {baseline}'s")
    });
    let change = curve.capacity_change.as_ref();
    let reference = run.plan.reference().and_then(|at| run.plan.condition(at));
    if let Some((times, reference)) = change.zip(reference) {
        let times = estimated(times, Quantity::Factor);
        comparison.push_str(&format!(", {times} times its own with {reference}"));
    }
    let excluded = match limited {
        0 => String::new(),
        count => format!(
            "; {} excluded as generator-limited",
            units::plural(count, "trial")
        ),
    };
    format!(
        "The capacity of {server} is {rate} (median of {trials} in closed loop{excluded})\
         {comparison}."
    )
}

/// The capacity under each setting. None: the plan has no capacity trials.
fn capacities(curve: &CurveFindings) -> Option<String> {
    let capacities: Vec<String> = curve
        .highlights
        .iter()
        .filter_map(|highlight| {
            let capacity = highlight.capacity.as_ref()?;
            let bound = if capacity.at_least { "at least " } else { "" };
            let rate = estimated(&capacity.rps, Quantity::Rate);
            Some(format!("{bound}{rate} {}", highlight.place))
        })
        .collect();
    if !capacities.is_empty() {
        return Some(format!(
            "The capacity of {} is {}.",
            curve.name,
            units::listed(&capacities)
        ));
    }
    let is_empty = curve.cells.iter().all(|cell| cell.measured.is_empty());
    is_empty.then(|| format!("No trial of {} was measured.", curve.name))
}

/// A busy generator may limit the capacity: the server alone may have a higher one.
fn busy_generator(curve: &CurveFindings) -> Option<String> {
    let busy = curve.generator_busy?;
    let more = if busy >= BUSY {
        ": the server's own capacity may be higher"
    } else {
        ""
    };
    Some(format!(
        "The generator was busy {} of the time in the capacity trials{more}.",
        units::share(busy)
    ))
}

fn knee(curve: &CurveFindings) -> String {
    let Some(knee) = curve.knee else {
        return no_knee(curve);
    };
    let plateau = units::duration(knee.plateau_ns);
    let level = curve
        .level_of(knee.level)
        .map(|level| format!("load level {level}, "));
    let at = format!(
        "{}{} offered",
        level.unwrap_or_default(),
        units::rate(knee.level)
    );
    let within = format!(
        "Its p99 stays within {} times its plateau of {plateau} up to {at}",
        units::plain(knee.limit_ns / knee.plateau_ns),
    );
    let unknown = match knee.unknown_above {
        1 => "one level".to_owned(),
        count => units::plural(count as u64, "level"),
    };
    match (knee.leaves_at, knee.unknown_above) {
        (Some(_), 0) => format!("{within}: the knee."),
        (Some(leaves_at), _) => format!(
            "{within} and exceeds that at {}: the knee lies between, where the generator was the \
             limit at {unknown}.",
            units::rate(leaves_at)
        ),
        (None, 0) => format!("{within}, the highest rate offered: the knee is there or beyond."),
        (None, _) => format!(
            "{within}, the highest level that the generator did not limit: at {unknown} above it \
             the generator was the limit, so the knee is there or beyond, and not known."
        ),
    }
}

/// Why there is no knee.
fn no_knee(curve: &CurveFindings) -> String {
    let measured = || {
        let cells = curve.cells.iter();
        cells.filter(|cell| !cell.measured.is_empty())
    };
    let limited = measured().filter(|cell| cell.mostly_limited()).count() as u64;
    let levels = units::plural(measured().count() as u64, "level");
    if limited == 0 {
        return format!("There are too few points for a knee: {levels} measured.");
    }
    format!(
        "There are too few points for a knee: the generator was the limit in most trials of {} of \
         {levels}.",
        units::count(limited)
    )
}

fn tail(curve: &CurveFindings) -> Option<String> {
    let (mut tails, mut unknown) = (Vec::new(), Vec::new());
    for highlight in curve
        .highlights
        .iter()
        .filter(|highlight| highlight.measured > 0)
    {
        let Some(p99) = highlight.p99_ns.as_ref() else {
            unknown.extend(hidden(highlight));
            continue;
        };
        let bound = units::lower_bound(highlight.p99_is_lower_bound);
        let comparison = compared(highlight, |comparison| comparison.p99.as_ref());
        tails.push(format!(
            "{bound}{} {}{}",
            estimated(p99, Quantity::Duration),
            highlight.place,
            comparison.map(|it| format!(" ({it})")).unwrap_or_default()
        ));
    }
    if !unknown.is_empty() {
        tails.push(format!("not known {}", units::listed(&unknown)));
    }
    (!tails.is_empty()).then(|| format!("Its p99 response time is {}.", units::listed(&tails)))
}

/// `0.94 [0.89, 1.01] times memcached's, 1.20 [1.1, 1.3] times its own with depth 1`.
fn compared(highlight: &Highlight, ratio: fn(&Comparison) -> Option<&Estimate>) -> Option<String> {
    let times: Vec<String> = highlight
        .comparison
        .iter()
        .filter_map(|comparison| {
            let times = estimated(ratio(comparison)?, Quantity::Factor);
            Some(format!("{times} times {}", comparison.baseline))
        })
        .collect();
    (!times.is_empty()).then(|| times.join(", "))
}

/// Why a p99 is not known: `at load level 0.9 (the generator was the limit in all 15 trials)`.
fn hidden(highlight: &Highlight) -> Option<String> {
    let trials = match highlight.limited {
        0 => return None,
        all if all == highlight.measured => format!("all {}", units::plural(all, "trial")),
        some => format!(
            "{} of {}",
            units::count(some),
            units::plural(highlight.measured, "trial")
        ),
    };
    Some(format!(
        "{} (the generator was the limit in {trials})",
        highlight.place
    ))
}

/// CPU time per request: at every setting or, of a curve over rates, at the highest of them.
fn cost(curve: &CurveFindings) -> Option<String> {
    let known: Vec<&Highlight> = curve
        .highlights
        .iter()
        .filter(|highlight| highlight.cpu_ns.is_some())
        .collect();
    let told = match curve.axis {
        SweepAxis::Rate => known.get(known.len().checked_sub(1)?..)?,
        SweepAxis::Setting(_) => known.as_slice(),
    };
    let costs: Vec<String> = told
        .iter()
        .filter_map(|highlight| {
            let cpu = estimated(highlight.cpu_ns.as_ref()?, Quantity::Duration);
            let parts = highlight.cpu_parts_ns.map(|(user, system)| {
                format!(
                    " ({} user, {} system)",
                    units::duration(user),
                    units::duration(system)
                )
            });
            let comparison = compared(highlight, |comparison| comparison.cpu.as_ref());
            Some(format!(
                "{cpu} of CPU time {}{}{}",
                highlight.place,
                parts.unwrap_or_default(),
                comparison.map(|it| format!(": {it}")).unwrap_or_default(),
            ))
        })
        .collect();
    let limited = match told.iter().any(|highlight| highlight.limited > 0) {
        true => {
            "; generator-limited trials count here, because they do not affect the server's CPU \
             time"
        }
        false => "",
    };
    (!costs.is_empty())
        .then(|| format!("A request costs the server {}{limited}.", costs.join("; ")))
}

fn limited(curve: &CurveFindings) -> Option<String> {
    let cells = || curve.cells.iter();
    let limited: u64 = cells().map(|cell| u64::from(cell.limited())).sum();
    let measured: u64 = cells().map(|cell| cell.measured.len() as u64).sum();
    (limited > 0).then(|| {
        format!(
            "{} of {} in the sweep are generator-limited; they count towards CPU time per request, \
             but not towards tail and knee.",
            units::count(limited),
            units::plural(measured, "trial")
        )
    })
}

fn lost_connections(curve: &CurveFindings) -> Option<String> {
    let (trials, lost) = curve.lost_connections;
    (lost > 0).then(|| {
        format!(
            "{} lost, in {}.",
            units::plural(lost, "connection"),
            units::plural(trials, "trial")
        )
    })
}

/// Steal time: processor time that the hypervisor gave to others.
fn stolen(curve: &CurveFindings) -> Option<String> {
    let (server, load) = curve.stolen?;
    let most = |spread: Spread| {
        format!(
            "{} (at most {})",
            units::share(spread.median),
            units::share(spread.max)
        )
    };
    Some(format!(
        "Steal time: {} on the server's processors and {} on the generator's, median of all trials.",
        most(server),
        most(load)
    ))
}
