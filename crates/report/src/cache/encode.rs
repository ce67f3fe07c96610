//! Converts between records of cache trials and [`Measurement`].

use std::collections::BTreeMap;

use super::folder::{Bursts, Cost, LowerBounds, Measurement, Quantiles, Stolen};
use super::metrics::{DISTRIBUTIONS, PERCENTILES};
use crate::record::{Flag, Measured};

/// Why the latencies of a trial do not count.
pub const GENERATOR_LIMITED: &str = "generator-limited";

/// The name of the offered rate, which is a resolved setting of each trial.
pub const OFFERED_RPS: &str = "offered_rps";

/// A measurement as metrics. The name of each is that of its definition in [`super::metrics()`].
#[must_use]
pub fn encode(measurement: &Measurement) -> Measured {
    let mut measured = Measured::default();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            measured.metrics.insert(name.to_owned(), value);
        }
    };
    let count = |count: u64| Some(count as f64);
    let m = measurement;
    put("duration_ns", count(m.duration_ns));
    put("intended", count(m.intended));
    put("answered", count(m.answered));
    put("censored", count(m.censored));
    put("errors", count(m.errors));
    put("achieved_rps", Some(m.achieved_rps));
    put("hit_rate", m.hit_rate);
    put("resident_share", m.resident);
    put("lateness_p99_ns", m.lateness_p99_ns.and_then(count));
    put("generator_cpu", Some(m.generator_cpu));
    put("generator_busy", m.generator_busy);
    put("lost_connections", m.lost_connections.and_then(count));
    put("outstanding_mean", Some(m.outstanding_mean));
    put("outstanding_unread", Some(m.outstanding_unread));
    put("outstanding_expected", Some(m.outstanding_expected));
    put("saturating_rps", m.saturating_rps);
    put("burst_mean", m.bursts.as_ref().map(|bursts| bursts.mean));
    put("server_stolen_share", m.stolen.map(|stolen| stolen.server));
    put("load_stolen_share", m.stolen.map(|stolen| stolen.load));
    if let Some(cost) = m.cost {
        put("server_user_ns", count(cost.user_ns));
        put("server_system_ns", count(cost.system_ns));
        put("server_cpu_ns_per_request", Some(cost.cpu_ns_per_request));
        put("server_resident_bytes", count(cost.resident_bytes));
        let switches = cost.voluntary_switches.and_then(count);
        put("server_voluntary_switches", switches);
        put(
            "server_wakes_per_request",
            switches.and_then(|it| cost.per_request(it)),
        );
        let switches = cost.involuntary_switches.and_then(count);
        put("server_involuntary_switches", switches);
    }
    let distributions = [m.response, Some(m.service), m.slip];
    for ((prefix, _), quantiles) in DISTRIBUTIONS.into_iter().zip(distributions) {
        let Some(q) = quantiles else { continue };
        put(&format!("{prefix}_count"), count(q.count));
        put(&format!("{prefix}_mean_ns"), Some(q.mean));
        let points = [
            ("min", q.min),
            ("p50", q.p50),
            ("p90", q.p90),
            ("p95", q.p95),
            ("p99", q.p99),
            ("p999", q.p999),
            ("max", q.max),
        ];
        for (suffix, value) in points {
            put(&format!("{prefix}_{suffix}_ns"), count(value));
        }
    }
    if let Some(bursts) = &m.bursts {
        let counts = bursts.counts.iter().map(|&count| count as f64).collect();
        measured.series.insert("bursts".to_owned(), counts);
    }
    measured.flags = flags(m);
    measured.suspect = m.generator_limited.then(|| GENERATOR_LIMITED.to_owned());
    measured
}

/// The flags of the latencies.
fn flags(measurement: &Measurement) -> BTreeMap<String, Flag> {
    let invalid = measurement
        .generator_limited
        .then(|| GENERATOR_LIMITED.to_owned());
    let bounds = measurement.response_bounds();
    let any = bounds.p50 || bounds.p90 || bounds.p95 || bounds.p99 || bounds.p999;
    let is_bound = |suffix: &str| match suffix {
        "p50" => bounds.p50,
        "p90" => bounds.p90,
        "p95" => bounds.p95,
        "p99" => bounds.p99,
        "p999" => bounds.p999,
        // See `LowerBounds`.
        "mean" | "max" => any,
        _ => false,
    };
    let mut flags = BTreeMap::new();
    for (prefix, _) in DISTRIBUTIONS {
        for (suffix, _) in PERCENTILES {
            let flag = Flag {
                lower_bound: prefix == "response" && is_bound(suffix),
                invalid: invalid.clone(),
            };
            if flag != Flag::default() {
                flags.insert(format!("{prefix}_{suffix}_ns"), flag);
            }
        }
    }
    // A rate that the generator limited says nothing of the server, neither as a capacity nor as
    // an achieved rate: it does not count.
    if let Some(reason) = invalid {
        let flag = Flag {
            lower_bound: false,
            invalid: Some(reason),
        };
        flags.insert("achieved_rps".to_owned(), flag);
    }
    flags
}

/// The measurement of a record.
///
/// # Errors
/// The name of a metric that every cache trial has, and this one lacks.
pub fn decode(measured: &Measured) -> Result<Measurement, String> {
    let get = |name: &str| measured.metric(name);
    let need = |name: &str| get(name).ok_or_else(|| format!("metric `{name}` is missing"));
    let count = |name: &str| get(name).map(whole);
    let is_censored = get("censored").is_some_and(|count| count > 0.0);
    let quantiles = |prefix: &str| -> Option<Quantiles> {
        let point = |suffix: &str| count(&format!("{prefix}_{suffix}_ns"));
        let is_bound = |suffix: &str| measured.is_lower_bound(&format!("{prefix}_{suffix}_ns"));
        let bounds = LowerBounds {
            p50: is_bound("p50"),
            p90: is_bound("p90"),
            p95: is_bound("p95"),
            p99: is_bound("p99"),
            p999: is_bound("p999"),
        };
        let is_censored = is_censored && prefix == "response";
        Some(Quantiles {
            count: count(&format!("{prefix}_count"))?,
            mean: get(&format!("{prefix}_mean_ns"))?,
            min: point("min")?,
            p50: point("p50")?,
            p90: point("p90")?,
            p95: point("p95")?,
            p99: point("p99")?,
            p999: point("p999")?,
            max: point("max")?,
            // Without censored requests there is nothing to distinguish.
            lower_bounds: (is_censored || bounds != LowerBounds::default()).then_some(bounds),
        })
    };
    let cost = || -> Option<Cost> {
        Some(Cost {
            user_ns: count("server_user_ns")?,
            system_ns: count("server_system_ns")?,
            cpu_ns_per_request: get("server_cpu_ns_per_request")?,
            resident_bytes: count("server_resident_bytes")?,
            voluntary_switches: count("server_voluntary_switches"),
            involuntary_switches: count("server_involuntary_switches"),
        })
    };
    let bursts = |mean| Bursts {
        counts: measured
            .series
            .get("bursts")
            .map(|counts| counts.iter().map(|&count| whole(count)).collect())
            .unwrap_or_default(),
        mean,
    };
    let stolen = get("server_stolen_share").zip(get("load_stolen_share"));
    Ok(Measurement {
        duration_ns: whole(need("duration_ns")?),
        intended: whole(need("intended")?),
        answered: whole(need("answered")?),
        censored: whole(need("censored")?),
        errors: whole(need("errors")?),
        achieved_rps: need("achieved_rps")?,
        hit_rate: get("hit_rate"),
        resident: get("resident_share"),
        response: quantiles("response"),
        service: quantiles("service").ok_or("the service time is missing")?,
        slip: quantiles("slip"),
        lateness_p99_ns: count("lateness_p99_ns"),
        generator_limited: measured.suspect.is_some(),
        generator_cpu: need("generator_cpu")?,
        generator_busy: get("generator_busy"),
        lost_connections: count("lost_connections"),
        outstanding_mean: need("outstanding_mean")?,
        outstanding_unread: need("outstanding_unread")?,
        outstanding_expected: need("outstanding_expected")?,
        saturating_rps: get("saturating_rps"),
        cost: cost(),
        bursts: get("burst_mean").map(bursts),
        stolen: stolen.map(|(server, load)| Stolen { server, load }),
    })
}

/// A count. A record holds it as a `f64`, which is exact up to 2^53.
fn whole(count: f64) -> u64 {
    count as u64
}
