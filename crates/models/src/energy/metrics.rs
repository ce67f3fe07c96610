//! The metrics of the model of energy.

use measure::Histogram;
use power::model::Simulated;
use report::record::Better;

/// The metrics: name, title, unit, which is better. A saving has `saved_j`, a peak and a day their
/// own below; a point has all others, and `energy_kept_j` only if it keeps the objective.
#[rustfmt::skip]
pub(super) const METRICS: [(&str, &str, &str, Better); 26] = {
    use Better::{Higher, Lower, Neither};
    [
        ("energy_j", "energy of 30 s", "J", Lower),
        ("energy_kept_j", "energy of 30 s with p99 below 500 µs", "J", Lower),
        ("energy_per_request_uj", "energy a request", "µJ", Lower),
        ("power_w", "power", "W", Lower),
        ("response_mean_ns", "response time, mean", "ns", Lower),
        ("response_p50_ns", "response time, median", "ns", Lower),
        ("response_p90_ns", "response time, 90th percentile", "ns", Lower),
        ("response_p99_ns", "response time, 99th percentile", "ns", Lower),
        ("achieved_rps", "achieved rate", "/s", Higher),
        ("work_share", "cores that work", "share", Neither),
        ("exit_share", "cores that leave a C-state", "share", Lower),
        ("halt_share", "cores halted", "share", Neither),
        ("deep_share", "cores in a deep state", "share", Higher),
        ("poll_share", "cores that poll an empty queue", "share", Lower),
        ("interrupts_per_second", "interrupts", "/s", Lower),
        ("packets_per_interrupt", "packets that wait at an interrupt, mean", "count", Neither),
        ("idle_mean_ns", "idle interval, mean", "ns", Higher),
        ("idle_p50_ns", "idle interval, median", "ns", Higher),
        ("idle_p90_ns", "idle interval, 90th percentile", "ns", Higher),
        ("saved_j", "energy saved in 30 s", "J", Higher),
        ("peak_rps", "peak", "/s", Higher),
        ("kept_rps", "highest rate with p99 below 500 µs", "/s", Higher),
        ("last_rps", "last rate offered", "/s", Neither),
        ("day_energy_kj", "energy of a day", "kJ", Lower),
        ("broken_share", "one-second windows with p99 of 500 µs or more", "share", Lower),
        ("broken_searching_share", "such windows of searches", "share", Lower),
    ]
};

pub(super) fn of_point(found: &Simulated, power_w: f64, run_s: f64) -> Vec<(&'static str, f64)> {
    let percentile = |of: &Histogram, p| of.percentile(p) as f64;
    let mut metrics = vec![
        ("energy_j", power_w * run_s),
        (
            "energy_per_request_uj",
            power_w / found.achieved_rps.max(1.0) * 1e6,
        ),
        ("power_w", power_w),
        ("response_mean_ns", found.latency.mean()),
        ("response_p50_ns", percentile(&found.latency, 50.0)),
        ("response_p90_ns", percentile(&found.latency, 90.0)),
        ("response_p99_ns", percentile(&found.latency, 99.0)),
        ("achieved_rps", found.achieved_rps),
        ("work_share", found.work_share),
        ("exit_share", found.exit_share),
        ("halt_share", found.halt_share),
        ("deep_share", found.deep_share),
        ("poll_share", found.poll_share),
        ("interrupts_per_second", found.wakes_per_second),
    ];
    if found.wakes_per_second > 0.0 {
        metrics.extend([
            ("packets_per_interrupt", found.batch_mean),
            ("idle_mean_ns", found.idle.mean()),
            ("idle_p50_ns", percentile(&found.idle, 50.0)),
            ("idle_p90_ns", percentile(&found.idle, 90.0)),
        ]);
    }
    metrics
}
