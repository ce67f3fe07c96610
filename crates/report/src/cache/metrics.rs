//! The definitions of the metrics of a cache trial.

use crate::record::Better::{self, Higher, Lower, Neither};
use crate::record::names::{OFFERED_RPS, RATE};
use crate::record::{Metric, Unit};

/// The metrics of which a trial has one for each percentile: prefix and title.
pub(super) const DISTRIBUTIONS: [(&str, &str); 3] = [
    ("response", "response time"),
    ("service", "service time"),
    ("slip", "slip"),
];

/// The points of a distribution: suffix of the metric, and words.
pub(super) const PERCENTILES: [(&str, &str); 8] = [
    ("mean", "mean"),
    ("min", "minimum"),
    ("p50", "median"),
    ("p90", "90th percentile"),
    ("p95", "95th percentile"),
    ("p99", "99th percentile"),
    ("p999", "99.9th percentile"),
    ("max", "maximum"),
];

/// The other metrics: name, title, unit, which way is better.
const OTHERS: [(&str, &str, &str, Better); 26] = [
    (
        "server_cpu_ns_per_request",
        "processor time of the server per request",
        "ns",
        Lower,
    ),
    (
        "server_wakes_per_request",
        "voluntary context switches of the server per request",
        "count",
        Lower,
    ),
    (
        "energy_per_request_uj",
        "energy of packages and memory per request",
        "µJ",
        Lower,
    ),
    (
        "server_user_ns",
        "processor time of the server, user",
        "ns",
        Neither,
    ),
    (
        "server_system_ns",
        "processor time of the server, system",
        "ns",
        Neither,
    ),
    (
        "server_resident_bytes",
        "resident memory of the server",
        "B",
        Lower,
    ),
    (
        "server_voluntary_switches",
        "voluntary context switches",
        "count",
        Neither,
    ),
    (
        "server_involuntary_switches",
        "involuntary context switches",
        "count",
        Neither,
    ),
    (
        "burst_mean",
        "connections served per wake-up",
        "per wake-up",
        Neither,
    ),
    ("hit_rate", "hit rate", "share", Neither),
    (
        "resident_share",
        "records resident after the prefill",
        "share",
        Neither,
    ),
    ("duration_ns", "measured interval", "ns", Neither),
    ("intended", "requests intended", "count", Neither),
    ("answered", "requests answered", "count", Neither),
    ("censored", "requests censored", "count", Neither),
    ("errors", "error replies", "count", Lower),
    ("lost_connections", "connections lost", "count", Lower),
    (
        "saturating_rps",
        "replies to saturating connections",
        "/s",
        Neither,
    ),
    (
        "lateness_p99_ns",
        "generator's lateness, 99th percentile",
        "ns",
        Neither,
    ),
    (
        "generator_cpu",
        "processor time of the generator, share of one processor",
        "share",
        Neither,
    ),
    ("generator_busy", "generator busy", "share", Neither),
    (
        "outstanding_mean",
        "outstanding requests, counted",
        "count",
        Neither,
    ),
    (
        "outstanding_unread",
        "replies arrived but unread, at most",
        "count",
        Neither,
    ),
    (
        "outstanding_expected",
        "outstanding requests, by time stamps",
        "count",
        Neither,
    ),
    (
        "server_stolen_share",
        "steal time, server's processors",
        "share",
        Neither,
    ),
    (
        "load_stolen_share",
        "steal time, generator's processors",
        "share",
        Neither,
    ),
];

/// Why a latency may be a lower bound.
const BOUNDED: &str = "requests that were never answered may lie above this percentile";

/// How a latency is judged.
const JUDGED: &str = "left out of comparisons if the generator was the limit: its lateness exceeded \
    50 µs at the 99th percentile; a lower bound if unanswered requests may lie above";

/// The definitions of the metrics of a cache trial.
#[must_use]
pub fn metrics() -> Vec<Metric> {
    let mut metrics = vec![
        Metric {
            axis_title: Some("offered rate (requests/s)".to_owned()),
            phrase: Some("at {} offered".to_owned()),
            planned: Some(RATE.to_owned()),
            ..Metric::new(OFFERED_RPS, "offered rate", Unit::per_second(), Neither)
        },
        Metric {
            axis_title: Some("achieved rate (requests/s)".to_owned()),
            judged: Some("left out of comparisons if the generator was the limit".to_owned()),
            ..Metric::new("achieved_rps", "achieved rate", Unit::per_second(), Higher)
        },
    ];
    for (prefix, title) in DISTRIBUTIONS {
        for (suffix, words) in PERCENTILES {
            let name = format!("{prefix}_{suffix}_ns");
            let title = format!("{title}, {words}");
            let better = if prefix == "slip" { Neither } else { Lower };
            metrics.push(Metric {
                judged: Some(JUDGED.to_owned()),
                bounded: (prefix == "response").then(|| BOUNDED.to_owned()),
                ..Metric::new(&name, &title, Unit::nanoseconds(), better)
            });
        }
        let (name, title) = (format!("{prefix}_count"), format!("{title}, samples"));
        metrics.push(Metric::new(&name, &title, Unit::count(), Neither));
    }
    let others = OTHERS.map(|(name, title, unit, better)| {
        Metric::new(name, title, Unit::from(unit.to_owned()), better)
    });
    metrics.extend(others);
    metrics
}
