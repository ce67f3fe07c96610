//! The lines of the table, each a question to the instrument whose answer is known.

use anyhow::Context;
use load::{Rate, Recorded, units::show_duration};
use workload::{Law, Purpose, Stream, Superposition};

use super::bench::{Trial, load_of, percentile, trial};
use super::law::{Arrival, Service, p99_of_queue_ns};
use super::server::Truth;
use super::{Line, Setting};

/// The most that a reported response time may exceed the true one at the 99th percentile.
const DIFFERENCE_NS_MAX: i64 = 30_000;
/// How far a percentile of the stall may be off.
const STALL_NS_MAX: u64 = 10_000_000;
/// Chance that a line on chance is out of bound though all is well.
const ALPHA: f64 = 0.002;
/// Trials of each arm of a comparison.
const REPEATS: usize = 12;
/// The share of a trial's requests that the machine may have held up.
const LEFT_OUT_MAX: f64 = 0.05;
/// Trials of a line that is judged by one of them.
const TRIALS: u64 = 7;

/// The questions, each with what it is called.
pub const QUESTIONS: [(&str, Question); 5] = [
    ("requests", requests),
    ("queue", queue),
    ("stall-open", stall_open),
    ("stall-closed", stall_closed),
    ("comparison", comparison),
];

/// Makes the trials of one question.
pub type Question = fn(&Setting) -> anyhow::Result<Vec<Line>>;

/// Makes the trials of every question, or of the one called `only`, and returns the table.
/// `on_line` is told of each line as it comes.
///
/// # Errors
/// A trial cannot be made.
pub fn all(
    setting: &Setting,
    only: Option<&str>,
    mut on_line: impl FnMut(&Line),
) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (name, question) in QUESTIONS {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        for line in question(setting)? {
            on_line(&line);
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Per request: reported less true.
///
/// Every law is at about half load. A request that comes while the server receives or sends
/// another is stamped late, and what it waited is missing from its residence: that is an error of
/// the truth, a few microseconds against the instrument. At a lower rate it is rarer, but the
/// kernel's part of the way, which counts against the instrument too, is longer by as much: its
/// code and the sockets are no longer in the caches.
fn requests(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let seconds = if setting.short { 1.0 } else { 5.0 };
    let laws = [
        ("fixed", Service::Fixed(50_000.0)),
        ("exponential", Service::Exponential(60_000.0)),
        (
            "bimodal",
            Service::Bimodal {
                short_ns: 40_000.0,
                long_ns: 400_000.0,
                long_share: 0.05,
            },
        ),
    ];
    let mut lines = Vec::new();
    for (case, law) in laws {
        let config = load_of(Rate::PerSecond(8000.0), seconds);
        lines.push(difference(case, &quietest_first(setting, law, &config)?));
    }
    Ok(lines)
}

/// Several trials of the same, each with a seed of its own, the one first in which the generator
/// was the least late: the machine takes a processor away for milliseconds now and then, which is
/// not the instrument's error, and the instrument's own lateness, which knows nothing of the answer
/// looked for, says when.
fn quietest_first(
    setting: &Setting,
    law: Service,
    config: &load::Config,
) -> anyhow::Result<Vec<Trial>> {
    let count = if setting.short { 1 } else { TRIALS };
    let seeded = |seed| load::Config {
        seed,
        ..config.clone()
    };
    let trials = (1..=count).map(|seed| trial(setting, law, &seeded(seed)));
    let mut trials = trials.collect::<anyhow::Result<Vec<Trial>>>()?;
    trials.sort_by_key(Trial::lateness_p99_ns);
    Ok(trials)
}

/// What the machine took from the generator is no error of the instrument: requests that should
/// have left in an interruption are left out, and shown beside.
fn difference(case: &str, trials: &[Trial]) -> Line {
    let show = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
    let of_all: Vec<Vec<i64>> = trials.iter().map(|t| t.differences_ns(|_| true)).collect();
    let worst = of_all.iter().map(|trial| percentile(trial, 99.0)).max();
    let all = of_all.first().map_or(&[][..], Vec::as_slice);
    let kept = trials
        .first()
        .map(|t| t.differences_ns(|of| !of.interrupted));
    let kept = kept.unwrap_or_default();
    let left_out = 1.0 - kept.len() as f64 / all.len().max(1) as f64;
    let [p1, p50, p90, p99] = [1.0, 50.0, 90.0, 99.0].map(|at| percentile(&kept, at));
    Line {
        case: format!("{case}, open, {}", of_trials(kept.len(), trials.len())),
        figure: "reported − true, µs at p1 / p50 / p90 / p99; left out; p99 of all (worst)",
        found: format!(
            "{} / {} / {} / {}; {:.1} %; {} ({})",
            show(p1),
            show(p50),
            show(p90),
            show(p99),
            left_out * 100.0,
            show(percentile(all, 99.0)),
            show(worst.unwrap_or_default())
        ),
        bound: format!("p99 ≤ {}", show(DIFFERENCE_NS_MAX)),
        within: !kept.is_empty() && left_out <= LEFT_OUT_MAX && p1 >= 0 && p99 <= DIFFERENCE_NS_MAX,
    }
}

fn of_trials(requests: usize, trials: usize) -> String {
    format!("{requests} requests, least late of {trials}")
}

/// M/M/1: the response time is exponential with rate μ − λ.
///
/// What the machine took from the server is no part of its law, and what it took from the
/// generator none of the queue: requests held up there, or that should have left in an
/// interruption here, are left out. Those behind them are not, and waited for them: the bound is
/// reckoned from the arrivals as they were.
fn queue(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let seconds = if setting.short { 3.0 } else { 16.0 };
    let (rate_rps, mean_ns) = (4000.0, 125_000.0);
    let law = Service::Exponential(mean_ns);
    let config = load_of(Rate::PerSecond(rate_rps), seconds);
    let mut trials = quietest_first(setting, law, &config)?;
    let count = trials.len();
    let trial = trials.first_mut().context("no trial")?;
    // In the order of their service.
    trial
        .requests
        .sort_unstable_by_key(|(_, truth)| truth.due_ns);
    let arrival = |(seen, truth): &(Recorded, Truth)| {
        let held_up_ns = truth.left_ns - truth.due_ns;
        Arrival {
            intended_ns: seen.intended_ns,
            arrived_ns: truth.arrived_ns,
            counts: !seen.interrupted && held_up_ns <= DIFFERENCE_NS_MAX.cast_unsigned(),
        }
    };
    let arrivals: Vec<Arrival> = trial.requests.iter().map(arrival).collect();
    let response_ns = |(seen, _): &(Recorded, Truth)| seen.answered_ns - seen.intended_ns;
    let mut all_ns: Vec<u64> = trial.requests.iter().map(response_ns).collect();
    let kept = all_ns.iter().zip(&arrivals).filter(|(_, of)| of.counts);
    let mut kept_ns: Vec<u64> = kept.map(|(&ns, _)| ns).collect();
    let left_out = 1.0 - kept_ns.len() as f64 / all_ns.len().max(1) as f64;
    kept_ns.sort_unstable();
    all_ns.sort_unstable();
    let p99 = percentile(&kept_ns, 99.0);
    // And the summary says of all of them what they are, as closely as its histogram can.
    let all_p99 = percentile(&all_ns, 99.0);
    let is_told = reported(trial, 99.0).abs_diff(all_p99) <= all_p99 / 500;
    let mut stream = Stream::new(1, Purpose::Other, 2);
    let (low, high) =
        p99_of_queue_ns(&arrivals, mean_ns, ALPHA, &mut stream).context("no request kept")?;
    let high = high + DIFFERENCE_NS_MAX as f64;
    let theory_ns = 100.0_f64.ln() / (1e9 / mean_ns - rate_rps) * 1e9;
    let line = Line {
        case: format!(
            "exponential, open, Poisson at half load, {}",
            of_trials(kept_ns.len(), count)
        ),
        figure: "p99 = ln 100 / (μ − λ); held up (left out)",
        found: format!(
            "{} of {}; {:.1} %",
            show_duration(p99),
            show_duration(theory_ns as u64),
            left_out * 100.0
        ),
        bound: format!(
            "{} to {}",
            show_duration(low as u64),
            show_duration(high as u64)
        ),
        within: is_told && left_out <= LEFT_OUT_MAX && (low..=high).contains(&(p99 as f64)),
    };
    Ok(vec![line])
}

/// How long a stall lasts; it comes once in ten times that.
fn stall_ns(setting: &Setting) -> f64 {
    if setting.short { 0.2e9 } else { 1e9 }
}

fn stall(setting: &Setting) -> Service {
    let lasting_ns = stall_ns(setting);
    Service::Stall {
        service_ns: 5_000.0,
        every_ns: 10.0 * lasting_ns,
        lasting_ns,
    }
}

/// A tenth of the requests is delayed, evenly from nothing to the whole stall.
fn stall_open(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let mut config = load_of(Rate::PerSecond(500.0), 20.0 * stall_ns(setting) / 1e9);
    config.arrivals = Law::Fixed(1.0);
    config.superposition = Superposition::Single;
    // Far too few to hold what a stall keeps waiting: most of it waits at the generator.
    (config.connections, config.depth) = (16, 4);
    let trial = trial(setting, stall(setting), &config)?;
    let line = |figure, quantile, share: f64| {
        let found = reported(&trial, quantile);
        let expected_ns = (stall_ns(setting) * share) as u64;
        Line {
            case: format!("stall of {}, open", show_duration(stall_ns(setting) as u64)),
            figure,
            found: show_duration(found),
            bound: format!(
                "{} ± {}",
                show_duration(expected_ns),
                show_duration(STALL_NS_MAX)
            ),
            within: found.abs_diff(expected_ns) <= STALL_NS_MAX,
        }
    };
    Ok(vec![
        line("p95 from intended time", 95.0, 0.5),
        line("p99 from intended time", 99.0, 0.9),
    ])
}

/// Each connection has one request outstanding when the stall comes, and sends no other.
fn stall_closed(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let mut config = load_of(Rate::Max, 10.0 * stall_ns(setting) / 1e9);
    (config.connections, config.depth) = (16, 1);
    config.warmup_ns = (stall_ns(setting) * 0.5) as u64;
    let trial = trial(setting, stall(setting), &config)?;
    let slow = trial.slower_than((stall_ns(setting) * 0.5) as u64);
    let connections = config.connections as usize;
    Ok(vec![Line {
        case: format!(
            "stall of {}, closed",
            show_duration(stall_ns(setting) as u64)
        ),
        figure: "slow requests, one for each connection",
        found: format!("{slow} of {}", trial.requests.len()),
        bound: format!("= {connections}"),
        within: slow == connections,
    }])
}

/// A against A, and A against what is 3 % slower, in turns.
fn comparison(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let seconds = if setting.short { 0.1 } else { 0.3 };
    let service_ns = 500_000.0;
    let arms = [service_ns, service_ns, service_ns * 1.03];
    let mut medians = [const { Vec::new() }; 3];
    for repeat in 0..REPEATS {
        // Each arm takes each place in the round equally often.
        for turn in 0..arms.len() {
            let arm = (turn + repeat) % arms.len();
            let mut config = load_of(Rate::PerSecond(1000.0), seconds);
            config.arrivals = Law::Fixed(1.0);
            config.superposition = Superposition::Single;
            config.seed = repeat as u64 + 1;
            config.warmup_ns = 50_000_000;
            let trial = trial(setting, Service::Fixed(arms[arm]), &config)?;
            medians[arm].push(reported(&trial, 50.0) as f64);
        }
    }
    let against = |arm: usize| {
        let pairs: Vec<_> = medians[arm]
            .iter()
            .copied()
            .zip(medians[0].iter().copied())
            .collect();
        measure::paired_ratio(&pairs, 1.0 - ALPHA)
    };
    let line = |case: &str, figure, arm, bound: &str, fits: fn(measure::Interval) -> bool| {
        let estimate = against(arm);
        let found = match &estimate {
            Some(estimate) => {
                let change = |ratio: f64| (ratio - 1.0) * 100.0;
                let interval = estimate.interval;
                format!(
                    "{:+.2} % to {:+.2} %",
                    change(interval.low),
                    change(interval.high)
                )
            }
            None => "no interval".to_owned(),
        };
        Line {
            case: format!("{case}, {REPEATS} pairs of trials"),
            figure,
            found,
            bound: bound.to_owned(),
            within: estimate.is_some_and(|estimate| fits(estimate.interval)),
        }
    };
    let same = line("A against A", "change of the median", 1, "holds 0", |i| {
        i.contains(1.0)
    });
    let slower = line(
        "A against A + 3 %",
        "change of the median",
        2,
        "above 0, holds 3 ± 0.5 %",
        |i| i.low > 1.0 && i.high > 1.025 && i.low < 1.035,
    );
    Ok(vec![same, slower])
}

/// A percentile of the response time as the generator's summary says it.
fn reported(trial: &Trial, percentile: f64) -> u64 {
    let response = trial
        .summary
        .response
        .iter()
        .flat_map(|response| &response.percentiles);
    response
        .copied()
        .find(|&(at, _)| at == percentile)
        .map_or(0, |(_, value_ns)| value_ns)
}
