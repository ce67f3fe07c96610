//! The search for the sustained throughput against a server whose knee is analytic.

use load::search::{SearchConfig, SearchResult};
use load::units::{show_duration, show_rate};
use load::{Config, Rate, Target};

use super::bench::{Server, load_of};
use super::law::Service;
use super::lines::DIFFERENCE_NS_MAX;
use super::{Line, Setting};

/// Mean service time: the server's capacity μ is 8000 requests/s.
const MEAN_SERVICE_NS: f64 = 125_000.0;
/// The rate λ at which the response time has the objective as its 99th percentile.
const SUSTAINED_RPS: f64 = 4_000.0;
/// Not a half or a quarter of the truth: the doubling rates must not meet it.
const START_RPS: f64 = 1_500.0;

/// M/M/1: the 99th percentile of the response time is ln 100 ÷ (μ − λ). With that at λ = μ ÷ 2 as
/// the objective, the search must answer λ.
///
/// A reported time is up to 30 µs above the true one (the first lines of the table). So the rate at
/// which the *reported* percentile reaches the objective is somewhat lower, and the interval must
/// meet the range from that rate to λ. At most 40 trials of 1.1 s: less than a minute.
pub(super) fn question(setting: &Setting) -> anyhow::Result<Vec<Line>> {
    let service_rps = 1e9 / MEAN_SERVICE_NS;
    let p99_ns = |rate_rps: f64| 100_f64.ln() / (service_rps - rate_rps) * 1e9;
    let limit_ns = p99_ns(SUSTAINED_RPS);
    let lowest_rps = service_rps - 100_f64.ln() / (limit_ns - DIFFERENCE_NS_MAX as f64) * 1e9;
    let objective = format!("p99={}ns", limit_ns as u64).parse()?;
    let config = load_of(Rate::PerSecond(START_RPS), 1.0);
    let searched = searched(setting, config, &SearchConfig::new(vec![objective]))?;
    let sustained = &searched.sustained;
    let (low_rps, high_rps) = (sustained.low_rps, sustained.high_rps);
    let show = |rate: Option<f64>| rate.map_or_else(|| "none".to_owned(), show_rate);
    let within = low_rps.is_some_and(|low| low <= SUSTAINED_RPS)
        && high_rps.is_some_and(|high| high >= lowest_rps);
    Ok(vec![Line {
        case: format!(
            "exponential, search, {} trials, {} of them invalid",
            sustained.trials, sustained.invalid
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

/// Searches a server whose service time is exponential with a mean of 125 µs.
///
/// # Errors
/// The server cannot be started, or the search cannot begin.
pub fn searched(
    setting: &Setting,
    mut config: Config,
    search: &SearchConfig,
) -> anyhow::Result<SearchResult> {
    let server = Server::start(setting, Service::Exponential(MEAN_SERVICE_NS), 1)?;
    config.targets = vec![Target::Tcp(([127, 0, 0, 1], server.port).into())];
    config.cpus = setting.load_cpu.into_iter().collect();
    config.warmup_ns = 100_000_000;
    // Above capacity the backlog is not waited for.
    config.grace_ns = 50_000_000;
    Ok(load::search(&config, search, |_| ())?)
}
