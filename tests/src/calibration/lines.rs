//! The lines of the table, each a question to the instrument whose answer is known.

use anyhow::Context;
use load::summary::LatencyDistribution;
use load::{CarrierKind, Rate, Recorded};
use units::show_duration;
use workload::{Distribution, Purpose, RandomStream, Superposition};

use super::bench::{Trial, load_of, percentile, trial, trial_by_agents};
use super::law::{Arrival, Service, p99_of_queue_ns};
use super::server::Truth;
use super::{Line, Setting, search};

/// The most that a reported response time may exceed the true one at the 99th percentile.
pub(super) const DIFFERENCE_NS_MAX: i64 = 30_000;
/// The same where each request has its own connection, which takes three more ways through the
/// kernel and a turn of the server to establish.
const CONNECTING_NS_MAX: i64 = 150_000;
/// How far a percentile of the stall may be off.
const STALL_NS_MAX: u64 = 10_000_000;
/// Chance that a line on chance is out of bound though all is well.
const ALPHA: f64 = 0.002;
/// Trials of each arm of a comparison.
const REPEATS: usize = 12;
/// Trials of a line that is judged by the median of them.
const TRIALS: u64 = 7;

/// The questions, each with what it is called.
pub const QUESTIONS: [(&str, Question); 8] = [
    ("requests", requests),
    ("carriers", carriers),
    ("agents", agents),
    ("queue", queue),
    ("stall-open", stall_open),
    ("stall-closed", stall_closed),
    ("comparison", comparison),
    ("search", search::question),
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
        let trials = seeded(setting, law, &config)?;
        lines.push(difference(case, trials.iter(), DIFFERENCE_NS_MAX));
    }
    Ok(lines)
}

/// Per request, as above, over the other carriers. A connection for each request is established
/// between its send and its arrival, which is part of its service time and not of the server's.
fn carriers(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let seconds = if setting.short { 1.0 } else { 5.0 };
    let mut lines = Vec::new();
    for (case, carrier, bound_ns) in [
        ("exponential over UDP", CarrierKind::Udp, DIFFERENCE_NS_MAX),
        (
            "exponential, a connection each",
            CarrierKind::OneShot,
            CONNECTING_NS_MAX,
        ),
    ] {
        let mut config = load_of(Rate::PerSecond(2000.0), seconds);
        config.carrier = carrier;
        (config.connections, config.depth) = (64, 1);
        config.value_len_max = 1000;
        let trials = seeded(setting, Service::Exponential(100_000.0), &config)?;
        lines.push(difference(case, trials.iter(), bound_ns));
    }
    Ok(lines)
}

/// Several trials of the same, each with a seed of its own. A line of them is judged by the trial
/// with the median of its figure over all requests: none is chosen, and none left out.
fn seeded(setting: &Setting, law: Service, config: &load::Config) -> anyhow::Result<Vec<Trial>> {
    let count = if setting.short { 1 } else { TRIALS };
    let seeded = |seed| load::Config {
        seed,
        ..config.clone()
    };
    let trials = (1..=count).map(|seed| trial(setting, law, &seeded(seed)));
    trials.collect()
}

/// The item in the middle by `key`; of an even number the greater of two.
fn median_by<T, K: Ord>(mut items: Vec<T>, key: impl Fn(&T) -> K) -> Option<T> {
    let middle = items.len() / 2;
    items.sort_by_key(key);
    items.into_iter().nth(middle)
}

/// Reported less true response times of a trial, nanoseconds, ascending.
struct Differences {
    all: Vec<i64>,
    /// Without the requests that should have left in an interruption: what the machine took from
    /// the generator is no error of the instrument, so this tells where a large difference is from.
    /// Nothing is judged by it.
    uninterrupted: Vec<i64>,
}

impl Differences {
    fn p99(&self) -> i64 {
        percentile(&self.all, 99.0)
    }
}

fn difference<'a>(case: &str, trials: impl Iterator<Item = &'a Trial>, bound_ns: i64) -> Line {
    let of = |trial: &Trial| Differences {
        all: trial.differences_ns(|_| true),
        uninterrupted: trial.differences_ns(|of| !of.interrupted),
    };
    difference_line(case, trials.map(of).collect(), bound_ns)
}

/// Judged by all requests of the median trial.
fn difference_line(case: &str, trials: Vec<Differences>, bound_ns: i64) -> Line {
    let show = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
    let count = trials.len();
    let p99s = || trials.iter().map(Differences::p99);
    let ends = [p99s().min(), p99s().max()].map(|end| show(end.unwrap_or_default()));
    let median = median_by(trials, Differences::p99);
    let (all, uninterrupted) =
        median.map_or_else(Default::default, |it| (it.all, it.uninterrupted));
    let [p1, p50, p90, p99] = [1.0, 50.0, 90.0, 99.0].map(|at| percentile(&all, at));
    Line {
        case: format!("{case}, open, {}", of_trials(all.len(), count)),
        figure: "reported − true, µs at p1 / p50 / p90 / p99; trials; p99 uninterrupted",
        found: format!(
            "{} / {} / {} / {}; {} to {}; {} ({} left out)",
            show(p1),
            show(p50),
            show(p90),
            show(p99),
            ends[0],
            ends[1],
            show(percentile(&uninterrupted, 99.0)),
            share(uninterrupted.len(), all.len())
        ),
        bound: format!("p99 ≤ {}", show(bound_ns)),
        within: !all.is_empty() && p1 >= 0 && p99 <= bound_ns,
    }
}

/// What is left out where so many of all are kept.
fn share(kept: usize, all: usize) -> String {
    let left_out = 1.0 - kept as f64 / all.max(1) as f64;
    format!("{:.1} %", left_out * 100.0)
}

fn of_trials(requests: usize, trials: usize) -> String {
    format!("{requests} requests, median of {trials}")
}

/// Per percentile: reported less true, of a load that two agents offer.
///
/// What the coordinator reports is merged histograms, so percentiles are compared and not requests.
/// Both are of the same requests, and none is reported faster than it was: no percentile may be
/// reported below the true one.
///
/// Both agents are on the generator's processor. They sleep between requests, because two that poll
/// would take turns there. A thread that sleeps sends late, by the time a wake-up takes, and that
/// is in the response time. So the service time is judged, which begins at the actual send, and the
/// response time stands beside it.
fn agents(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let seconds = if setting.short { 1.0 } else { 5.0 };
    let count = if setting.short { 1 } else { TRIALS };
    let law = Service::Exponential(60_000.0);
    let trials = (1..=count).map(|seed| {
        let mut config = load_of(Rate::PerSecond(4000.0), seconds);
        (config.seed, config.spin) = (seed, false);
        let trial = trial_by_agents(setting, law, &config, 2)?;
        let response = trial
            .summary
            .response
            .as_ref()
            .context("no response time")?;
        let beyond = |distribution| {
            [50.0, 90.0, 99.0].map(|at| {
                let true_ns = percentile(&trial.residences_ns, at);
                reported_of(distribution, at).cast_signed() - true_ns.cast_signed()
            })
        };
        let requests = trial.residences_ns.len();
        Ok((beyond(response), beyond(&trial.summary.service), requests))
    });
    let trials = trials.collect::<anyhow::Result<Vec<_>>>()?;
    let p99s = || trials.iter().map(|(_, [.., p99], _)| *p99);
    let show = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
    let ends = [p99s().min(), p99s().max()].map(|end| show(end.unwrap_or_default()));
    let show_all = |ns: [i64; 3]| ns.map(show).join(" / ");
    let median = median_by(trials.clone(), |(_, [.., p99], _)| *p99);
    let (response, service, requests) = median.context("no trial")?;
    let [.., p99] = service;
    let is_slower = |ns: &i64| *ns >= 0;
    Ok(vec![Line {
        case: format!(
            "exponential, open, by two agents, {}",
            of_trials(requests, trials.len())
        ),
        figure: "reported service − true, µs at p50 / p90 / p99; trials; response − true",
        found: format!(
            "{}; {} to {}; {}",
            show_all(service),
            ends[0],
            ends[1],
            show_all(response)
        ),
        bound: format!("p99 ≤ {}", show(DIFFERENCE_NS_MAX)),
        within: response.iter().chain(&service).all(is_slower) && p99 <= DIFFERENCE_NS_MAX,
    }])
}

/// M/M/1: the response time is exponential with rate μ − λ.
///
/// The bound is computed from the recorded arrival times: what the machine took from the generator
/// makes a burst, and those behind it wait for it. Beside the figure of all requests, by which is
/// judged, stands that without the requests that should have left in an interruption here, or whose
/// answer the machine kept from leaving the server: it tells where a difference is from.
fn queue(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let seconds = if setting.short { 3.0 } else { 16.0 };
    let (rate_rps, mean_ns) = (4000.0, 125_000.0);
    let law = Service::Exponential(mean_ns);
    let config = load_of(Rate::PerSecond(rate_rps), seconds);
    let trials = seeded(setting, law, &config)?;
    let count = trials.len();
    let p99 = |trial: &Trial| percentile(&responses_ns(trial, |_, _| true), 99.0);
    let (least, most) = (trials.iter().map(p99).min(), trials.iter().map(p99).max());
    let mut trial = median_by(trials, p99).context("no trial")?;
    // In the order of their service.
    trial
        .requests
        .sort_unstable_by_key(|(_, truth)| truth.due_ns);
    let arrival = |(seen, truth): &(Recorded, Truth)| Arrival {
        intended_ns: seen.intended_ns,
        arrived_ns: truth.arrived_ns,
        counts: true,
    };
    let arrivals: Vec<Arrival> = trial.requests.iter().map(arrival).collect();
    let all_ns = responses_ns(&trial, |_, _| true);
    let undisturbed_ns = responses_ns(&trial, |seen, truth| {
        let held_up_ns = truth.left_ns - truth.due_ns;
        !seen.interrupted && held_up_ns <= DIFFERENCE_NS_MAX.cast_unsigned()
    });
    let p99 = percentile(&all_ns, 99.0);
    // And the summary says of them what they are, as closely as its histogram can.
    let is_told = reported(&trial, 99.0).abs_diff(p99) <= p99 / 500;
    let mut stream = RandomStream::new(1, Purpose::Other, 2);
    let (low, high) =
        p99_of_queue_ns(&arrivals, mean_ns, ALPHA, &mut stream).context("no request")?;
    let high = high + DIFFERENCE_NS_MAX as f64;
    let theory_ns = 100.0_f64.ln() / (1e9 / mean_ns - rate_rps) * 1e9;
    let line = Line {
        case: format!(
            "exponential, open, Poisson at half load, {}",
            of_trials(all_ns.len(), count)
        ),
        figure: "p99 = ln 100 / (μ − λ); trials; p99 undisturbed",
        found: format!(
            "{} of {}; {} to {}; {} ({} left out)",
            show_duration(p99),
            show_duration(theory_ns as u64),
            show_duration(least.unwrap_or_default()),
            show_duration(most.unwrap_or_default()),
            show_duration(percentile(&undisturbed_ns, 99.0)),
            share(undisturbed_ns.len(), all_ns.len())
        ),
        bound: format!(
            "{} to {}",
            show_duration(low as u64),
            show_duration(high as u64)
        ),
        within: is_told && (low..=high).contains(&(p99 as f64)),
    };
    Ok(vec![line])
}

/// Response times of the requests that `counts`, ascending.
fn responses_ns(trial: &Trial, counts: impl Fn(&Recorded, &Truth) -> bool) -> Vec<u64> {
    let requests = trial.requests.iter();
    let counted = requests.filter(|(seen, truth)| counts(seen, truth));
    let mut all: Vec<u64> = counted
        .map(|(seen, _)| seen.answered_ns - seen.intended_ns)
        .collect();
    all.sort_unstable();
    all
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
    config.arrivals = Distribution::Fixed(1.0);
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
            config.arrivals = Distribution::Fixed(1.0);
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
    let response = trial.summary.response.as_ref();
    response.map_or(0, |response| reported_of(response, percentile))
}

fn reported_of(distribution: &LatencyDistribution, percentile: f64) -> u64 {
    let percentiles = distribution.percentiles.iter();
    percentiles
        .copied()
        .find(|&(at, _)| at == percentile)
        .map_or(0, |(_, value_ns)| value_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial of a hundred requests, the slowest of which was off by so much; without those that
    /// were interrupted by 5 µs.
    fn off_by(worst_ns: i64) -> Differences {
        let mut all = vec![5_000; 98];
        all.extend([worst_ns; 2]);
        Differences {
            all,
            uninterrupted: vec![5_000; 98],
        }
    }

    #[test]
    fn a_line_is_judged_by_all_requests_of_the_median_trial() {
        let line =
            |worst: [i64; 3]| difference_line("x", worst.map(off_by).into(), DIFFERENCE_NS_MAX);
        let out = line([6_000, 31_000, 90_000]);
        assert!(
            !out.within,
            "the undisturbed, and the best trial, would pass"
        );
        assert_eq!(
            out.found,
            "5.0 / 5.0 / 5.0 / 31.0; 6.0 to 90.0; 5.0 (2.0 % left out)"
        );
        assert!(
            line([90_000, 30_000, 6_000]).within,
            "one trial of three is not the median"
        );
        assert!(!difference_line("x", Vec::new(), DIFFERENCE_NS_MAX).within);
    }
}
