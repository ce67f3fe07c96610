//! What was found of a server, in plain words.

use crate::findings::{AtLevel, Capacity, Standing};
use crate::run::Run;
use crate::statistics::Estimate;
use crate::words;

/// The sentences on one server.
pub(crate) fn sentences(run: &Run, standing: &Standing) -> Vec<String> {
    let mut sentences = vec![capacity(run, standing)];
    sentences.push(knee(standing));
    sentences.extend(tail(standing));
    sentences.extend(cost(standing));
    sentences.extend(limited(standing));
    sentences
}

/// `241 k/s (95 % interval 236 k/s to 247 k/s)`.
fn with_interval(estimate: &Estimate, words: fn(f64) -> String) -> String {
    let value = words(estimate.value);
    match estimate.interval {
        None => format!("{value} (too few trials for an interval)"),
        Some((low, high)) => format!("{value} (95 % interval {} to {})", words(low), words(high)),
    }
}

fn capacity(run: &Run, standing: &Standing) -> String {
    let server = &standing.server.name;
    match standing.capacity {
        Capacity::NotMeasured if run.plan.capacity_trials == 0 => {
            let highest = standing
                .cells
                .iter()
                .filter_map(|cell| cell.spread(|measured| Some(measured.achieved_rps)))
                .map(|achieved| achieved.median)
                .reduce(f64::max);
            match highest {
                Some(rate) => format!(
                    "The capacity of {server} was not asked for; the most it achieved in this \
                     sweep is {} (median of a cell).",
                    words::rate(rate)
                ),
                None => format!("Nothing of {server} was measured."),
            }
        }
        Capacity::NotMeasured => format!("The capacity of {server} could not be measured."),
        Capacity::GeneratorLimited { trials } => format!(
            "The capacity of {server} is not known: the load generator was the limit in {}.",
            if trials == 1 {
                "the only trial".to_owned()
            } else {
                format!("all {trials} trials")
            },
        ),
        Capacity::Measured { rate_rps, trials } => {
            let compared = standing.ratio.as_ref().and_then(|ratio| {
                let times = ratio.capacity.as_ref()?;
                Some(format!(
                    ", {} of {}",
                    with_interval(times, words::ratio),
                    ratio.to
                ))
            });
            format!(
                "{server} answers {} under infinite demand, median of {}{}.",
                with_interval(&rate_rps, words::rate),
                words::plural(trials as u64, "trial"),
                compared.unwrap_or_default(),
            )
        }
    }
}

fn knee(standing: &Standing) -> String {
    let Some(knee) = standing.knee else {
        return "Its tail shows no plateau in this sweep, so it has no knee.".to_owned();
    };
    let rate = words::rate(knee.offered_rps);
    let at = match knee.level {
        Some(level) => format!("load level {level} ({rate} offered)"),
        None => format!("{rate} offered"),
    };
    if knee.is_last {
        format!(
            "Its tail stays on its plateau up to {at}, the highest measured: the knee is there or beyond."
        )
    } else {
        format!("Its tail stays on its plateau up to {at}: the knee.")
    }
}

fn tail(standing: &Standing) -> Option<String> {
    let part = |at: &Option<AtLevel>| {
        let at = at.as_ref()?;
        let p99 = with_interval(at.p99_ns.as_ref()?, words::duration);
        Some(format!("{p99} at load level {}", at.level))
    };
    let parts: Vec<String> = [&standing.half, &standing.nearly_full]
        .into_iter()
        .filter_map(part)
        .collect();
    let compared = standing.ratio.as_ref().and_then(|ratio| {
        let parts: Vec<String> = [
            (&ratio.p99_half, &standing.half),
            (&ratio.p99_nearly_full, &standing.nearly_full),
        ]
        .into_iter()
        .filter_map(|(times, at)| {
            let level = at.as_ref()?.level;
            Some(format!(
                "{} at {level}",
                with_interval(times.as_ref()?, words::ratio)
            ))
        })
        .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "; of {} at the same levels: {}",
                ratio.to,
                words::listed(&parts)
            )
        })
    });
    (!parts.is_empty()).then(|| {
        format!(
            "The 99th percentile of its response time is {}{}.",
            words::listed(&parts),
            compared.unwrap_or_default()
        )
    })
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
    let cpu = with_interval(at.cpu_ns.as_ref()?, words::duration);
    let parts = at.cpu_parts_ns.map(|(user, system)| {
        format!(
            ", {} of it user and {} system",
            words::duration(user),
            words::duration(system)
        )
    });
    let compared = times
        .zip(standing.ratio.as_ref())
        .map(|(times, ratio)| format!("; {} of {}", with_interval(times, words::ratio), ratio.to));
    Some(format!(
        "A request costs it {cpu} of processor time at load level {}{}{}.",
        at.level,
        parts.unwrap_or_default(),
        compared.unwrap_or_default(),
    ))
}

fn limited(standing: &Standing) -> Option<String> {
    let limited: u64 = standing
        .cells
        .iter()
        .map(|cell| u64::from(cell.limited()))
        .sum();
    (limited > 0).then(|| {
        format!(
            "In {} of its sweep the load generator was the limit; they are not counted here.",
            words::plural(limited, "trial")
        )
    })
}
