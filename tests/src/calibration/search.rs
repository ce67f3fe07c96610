//! The search for the sustained throughput against a server whose knee is analytic.

use load::search::{SearchConfig, SearchResult};
use load::{Config, Rate, Target};
use measure::{Histogram, Verdict};
use units::{show_duration, show_rate};

use super::bench::{Server, load_of};
use super::law::Service;
use super::lines::DIFFERENCE_NS_MAX;
use super::server::Truth;
use super::{Line, Setting};

/// Mean service time: the server's capacity μ is 8000 requests/s.
const MEAN_SERVICE_NS: f64 = 125_000.0;
/// The rate λ at which the response time has the objective as its 99th percentile.
const SUSTAINED_RPS: f64 = 4_000.0;
/// Not a half or a quarter of the truth: the doubling rates must not meet it.
const START_RPS: f64 = 1_500.0;

/// How far the estimate may be from the range that the interval must meet, as a share of the rate.
const ESTIMATE_TOLERANCE: f64 = 0.1;

/// M/M/1: the 99th percentile of the response time is ln 100 ÷ (μ − λ). With that at λ = μ ÷ 2 as
/// the objective, the search must answer λ. At most 40 trials of 1.1 s: less than a minute.
///
/// The server of the trials is slower than that of the theory for two reasons, so the interval must
/// meet a range below λ ([`lowest_rps`]), and the estimate must be within a tenth of it:
///
/// - A reported time is up to 30 µs above the true one (the first lines of the table).
/// - The machine stops the server now and then, for milliseconds. The server's log says how many
///   requests left more than 30 µs after they were due by the law.
/// - The machine stops the generator too. A response time counts from the intended time, so it
///   includes the delay of a request that was sent late. Each valid trial's summary says how many
///   requests the generator itself sent or read more than 30 µs late.
///
/// One stop may delay a request twice, so the sum of the two shares is an upper bound.
///
/// An interval without an upper end claims nothing about higher rates, so it meets the range if its
/// lower end is below λ.
pub(super) fn question(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let service_rps = 1e9 / MEAN_SERVICE_NS;
    let limit_ns = 100_f64.ln() / (service_rps - SUSTAINED_RPS) * 1e9;
    let objective = format!("p99={}ns", limit_ns as u64).parse()?;
    let config = load_of(Rate::PerSecond(START_RPS), 1.0);
    let (searched, truths) = searched(setting, config, &SearchConfig::new(vec![objective]))?;
    let held_up = truths
        .iter()
        .filter(|it| it.left_ns > it.due_ns + DIFFERENCE_NS_MAX as u64)
        .count() as f64
        / truths.len().max(1) as f64;
    let late = late_share(&searched);
    let lowest_rps = lowest_rps(limit_ns, held_up + late);
    let sustained = &searched.sustained;
    let (low_rps, high_rps) = (sustained.low_rps, sustained.high_rps);
    let show = |rate: Option<f64>| rate.map_or_else(|| "none".to_owned(), show_rate);
    let near = lowest_rps * (1.0 - ESTIMATE_TOLERANCE)..=SUSTAINED_RPS * (1.0 + ESTIMATE_TOLERANCE);
    let within = low_rps.is_some_and(|low| low <= SUSTAINED_RPS)
        && high_rps.is_none_or(|high| high >= lowest_rps)
        && sustained.estimate_rps.is_some_and(|it| near.contains(&it));
    Ok(vec![Line {
        case: format!(
            "exponential, search, {} trials, {} of them invalid, {:.2} % held up, {:.2} % late",
            sustained.trials,
            sustained.invalid,
            held_up * 100.0,
            late * 100.0
        ),
        figure: "sustained throughput at p99 ≤ ln 100 / (μ − λ), interval at 95 %",
        found: format!(
            "{}; {} to {}",
            show(sustained.estimate_rps),
            show(low_rps),
            show(high_rps)
        ),
        bound: format!(
            "meets {} to {}, for p99 ≤ {}",
            show_rate(lowest_rps),
            show_rate(SUSTAINED_RPS),
            show_duration(limit_ns as u64)
        ),
        within,
    }])
}

/// The share of the answered requests of all valid trials that the generator delayed by more than
/// 30 µs.
fn late_share(searched: &SearchResult) -> f64 {
    let valid = searched
        .trials
        .iter()
        .filter(|it| matches!(it.verdict, Verdict::Kept | Verdict::Broken));
    let histograms = valid
        .filter_map(|it| Histogram::from_base64(&it.summary.as_ref()?.lateness.as_ref()?.hdr).ok());
    let counts = histograms.map(|it| (it.len() - it.count_to(DIFFERENCE_NS_MAX as u64), it.len()));
    let (late, all) = counts.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    late as f64 / all.max(1) as f64
}

/// The lowest rate at which the reported 99th percentile may reach the objective, if the machine
/// delayed the given share of requests; 0 where that share alone may decide the percentile.
///
/// P(reported > limit) ≤ P(by the law > limit − 90 µs) + share delayed: of the 90 µs, a third is
/// the instrument's, and two thirds are the delays at the server and at the generator that are
/// too short to be counted. The law's part is exp(−(μ − λ) × time), so λ follows from setting the
/// sum to 1 %.
fn lowest_rps(limit_ns: f64, delayed: f64) -> f64 {
    let left = 0.01 - delayed;
    if left <= 0.0 {
        return 0.0;
    }
    let time_s = (limit_ns - 3.0 * DIFFERENCE_NS_MAX as f64) / 1e9;
    (1e9 / MEAN_SERVICE_NS + left.ln() / time_s).max(0.0)
}

/// Searches a server whose service time is exponential with a mean of 125 µs. Returns the result
/// and the server's log of all trials.
///
/// # Errors
/// The server cannot be started, or the search cannot begin.
pub fn searched(
    setting: &Setting,
    mut config: Config,
    search: &SearchConfig,
) -> anyhow::Result<(SearchResult, Vec<Truth>)> {
    let mut server = Server::start(setting, Service::Exponential(MEAN_SERVICE_NS), 1)?;
    config.targets = vec![Target::Tcp(([127, 0, 0, 1], server.port).into())];
    config.cpus = setting.load_cpu.into_iter().collect();
    config.warmup_ns = 100_000_000;
    // Above capacity the backlog is not waited for.
    config.grace_ns = 50_000_000;
    let searched = load::search(&config, search, |_| ())?;
    Ok((searched, server.stop()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_begins_lower_the_more_requests_are_delayed() {
        let limit_ns = 100_f64.ln() / 4_000.0 * 1e9;
        let of = |delayed| lowest_rps(limit_ns, delayed).round();
        assert_eq!((of(0.0), of(0.005), of(0.01)), (3661.0, 3008.0, 0.0));
    }
}
