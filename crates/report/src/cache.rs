//! Trials of a cache under an offered load: their factors, metrics and settings.

use std::collections::BTreeMap;

use self::folder::{FigureKind, Load, Measurement};
use self::metrics::{DISTRIBUTIONS, PERCENTILES};
use crate::figure::{self, Figure};
pub use crate::record::names::{CAPACITY, LEVEL, OFFERED_RPS, RATE, SERVER};
use crate::record::{Factor, Factors, Flag, Measured, Unit, Value};
use crate::units::{self, Quantity};

pub mod folder;
mod metrics;

pub use metrics::metrics;

/// The name of this kind of trial.
pub const KIND: &str = "cache";
/// The stage of the offered rates.
pub const SWEEP: &str = "sweep";

/// The words for a known factor of cache trials: title, title of an axis, phrase, label, unit.
type FactorWords = (
    &'static str,
    Option<&'static str>,
    &'static str,
    Option<&'static str>,
    Option<Unit>,
);

fn words(name: &str) -> Option<FactorWords> {
    let count = || Some(Unit::count());
    let with = "with {label}";
    Some(match name {
        SERVER => ("server", None, "{}", None, None),
        LEVEL => (
            "load level",
            None,
            "at load level {}",
            Some("level {}"),
            None,
        ),
        RATE => (
            "offered rate",
            Some("offered rate (requests/s)"),
            "at {} offered",
            None,
            Some(Unit::per_second()),
        ),
        "connections" => ("connections", None, with, Some("{} connections"), count()),
        "depth" => (
            "depth",
            Some("outstanding requests per connection"),
            with,
            Some("depth\u{a0}{}"),
            count(),
        ),
        "update" => (
            "share of updates",
            None,
            with,
            Some("updates\u{a0}{}"),
            Some(Unit::share()),
        ),
        "saturating" => (
            "saturating connections",
            Some("saturating connections, in addition to the measured ones"),
            with,
            Some("{} saturating connections"),
            count(),
        ),
        _ => return None,
    })
}

/// A factor of cache trials with these values. Any name may be a factor; the known ones have titles
/// and units.
#[must_use]
pub fn factor(name: &str, values: Vec<Value>, reference: Option<Value>) -> Factor {
    let known = words(name);
    let (title, axis_title, phrase, label, unit) = match known {
        Some((title, axis_title, phrase, label, unit)) => {
            (title, axis_title, Some(phrase), label, unit)
        }
        None => (name, None, None, None, None),
    };
    let mut factor = Factor {
        name: name.to_owned(),
        title: title.to_owned(),
        axis_title: axis_title.map(str::to_owned),
        phrase: phrase.map(str::to_owned),
        label: label.map(str::to_owned),
        labels: BTreeMap::new(),
        styles: Vec::new(),
        unit,
        reference,
        values,
    };
    let unlike: Vec<(String, String)> = (factor.values.iter())
        .filter_map(|value| Some((value.to_string(), condition(name, value.number()?)?, value)))
        .filter(|(_, words, value)| *words != factor.label(value))
        .map(|(value, words, _)| (value, words))
        .collect();
    factor.labels.extend(unlike);
    factor
}

/// The label of a value: `1 connection`, `no saturating connection`, `level 1.0`.
fn condition(name: &str, value: f64) -> Option<String> {
    Some(match name {
        LEVEL => format!("level {}", units::level(value)),
        "connections" => units::plural(value.round() as u64, "connection"),
        "depth" => format!("depth\u{a0}{}", units::plain(value)),
        "update" => format!("updates\u{a0}{}\u{a0}%", units::plain(value * 100.0)),
        "saturating" if value == 0.0 => "no saturating connection".to_owned(),
        "saturating" => units::plural(value.round() as u64, "saturating connection"),
        _ => return None,
    })
}

/// A figure that cache trials have by name: `throughput`, `tail`, `cpu` or `bursts`. It is against
/// the offered rate or, if there is one rate and one other factor but the servers, against that
/// factor.
#[must_use]
pub fn figure(kind: FigureKind, factors: &[Factor]) -> Figure {
    let is_rate = |it: &&Factor| it.name == LEVEL || it.name == RATE;
    let rates = factors.iter().find(is_rate).map_or(0, |it| it.values.len());
    let varied = factors
        .iter()
        .find(|it| it.name != SERVER && !is_rate(it))
        .map(|it| it.name.clone());
    let is_over_setting = rates <= 1 && varied.is_some();
    let against = match &varied {
        Some(varied) if is_over_setting => words(varied)
            .map_or(varied.as_str(), |(title, ..)| title)
            .to_owned(),
        _ => "offered rate".to_owned(),
    };
    let (x, by, panel) = match varied {
        Some(varied) if is_over_setting => (varied, SERVER.to_owned(), None),
        Some(varied) => (OFFERED_RPS.to_owned(), varied, Some(SERVER.to_owned())),
        None => (OFFERED_RPS.to_owned(), SERVER.to_owned(), None),
    };
    let (name, y, title, y_title, unit, scale) = match kind {
        FigureKind::Throughput => (
            "throughput",
            "achieved_rps",
            "Achieved rate",
            "achieved rate (requests/s)",
            None,
            figure::Scale::Linear,
        ),
        FigureKind::Tail => (
            "tail",
            "response_p99_ns",
            "99th percentile of response time",
            "response time, 99th percentile (log scale)",
            None,
            figure::Scale::Log,
        ),
        FigureKind::Cpu => (
            "cpu",
            "server_cpu_ns_per_request",
            "Server processor time per request",
            "processor time per request, user + system (µs)",
            Some(Unit::from("us".to_owned())),
            figure::Scale::Linear,
        ),
        FigureKind::Bursts => (
            "bursts",
            "burst_mean",
            "Connections served per wake-up",
            "ready connections per wake-up, mean (log scale)",
            None,
            figure::Scale::Log,
        ),
    };
    let is_diagonal = kind == FigureKind::Throughput && !is_over_setting;
    Figure {
        title: Some(format!("{title} against {against}")),
        x: Some(x),
        by: Some(by),
        panel,
        y_title: Some(y_title.to_owned()),
        unit,
        scale,
        knee: (!is_over_setting).then(|| "response_p99_ns".to_owned()),
        diagonal: is_diagonal,
        diagonal_title: is_diagonal.then(|| "achieved = offered".to_owned()),
        ..Figure::new(name, figure::FigureKind::Curve, y)
    }
}

/// What the reasons for which cache trials are suspect mean: [`crate::record::Plan::suspects`].
#[must_use]
pub fn suspects() -> BTreeMap<String, String> {
    let meaning = format!(
        "(the generator's own lateness exceeds {} at the 99th percentile); they do not count for \
         tail and knee",
        Quantity::Duration.exact(measure::LATENESS_LIMIT_NS as f64),
    );
    BTreeMap::from([(GENERATOR_LIMITED.to_owned(), meaning)])
}

/// The histograms of a trial, each an entry of one file.
#[must_use]
pub fn artefacts(id: &str, measurement: &Measurement) -> BTreeMap<String, String> {
    let names = [
        ("response", measurement.response.is_some()),
        ("service", true),
        ("slip", measurement.slip.is_some()),
    ];
    let present = names.into_iter().filter(|&(_, is_there)| is_there);
    let entry = |(name, _): (&str, bool)| {
        let path = format!("histograms/{id}.hist#{name}");
        (name.to_owned(), path)
    };
    present.map(entry).collect()
}

/// Why the latencies of a trial do not count.
pub const GENERATOR_LIMITED: &str = "generator-limited";

/// A measurement as metrics. The name of each is that of its definition in [`metrics()`].
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

/// The load as a table, whose keys factors may set. They are those of experiment files, with `-`
/// where records have `_`.
#[must_use]
pub fn load_table(load: &Load) -> toml::Table {
    // Every value of a load has a form in TOML.
    let table = toml::Table::try_from(load).unwrap_or_default();
    let setting = |(key, value): (String, _)| (key.replace('_', "-"), value);
    // Those are left out where they are empty.
    let optional = ["mix", "multiget"].map(|key| (key.to_owned(), String::new().into()));
    optional
        .into_iter()
        .chain(table.into_iter().map(setting))
        .collect()
}

/// The load with the keys that factors set.
///
/// # Errors
/// A factor has a value that its key cannot have: the problem, which follows the factor's name.
pub fn load_with(load: &Load, factors: &Factors) -> Result<Load, String> {
    let mut table = load_table(load);
    for (name, value) in factors {
        let Some(setting) = table.get_mut(name) else {
            continue;
        };
        *setting = match (&*setting, value) {
            (toml::Value::Integer(_), Value::Number(number))
                if number.fract() == 0.0 && (0.0..1e15).contains(number) =>
            {
                toml::Value::Integer(*number as i64)
            }
            (toml::Value::Float(_), Value::Number(number)) => toml::Value::Float(*number),
            (toml::Value::String(_), Value::Text(text)) => toml::Value::String(text.clone()),
            (toml::Value::Integer(_), _) => {
                return Err(format!("has {value}, which is no whole number"));
            }
            (toml::Value::Float(_), _) => return Err(format!("has {value}, which is no number")),
            _ => return Err(format!("has {value}, which is no name in quotes")),
        };
    }
    let setting = |(key, value): (String, _)| (key.replace('-', "_"), value);
    let table: toml::Table = table.into_iter().map(setting).collect();
    table.try_into().map_err(|error: toml::de::Error| {
        format!("has a value that is out of range: {}", error.message())
    })
}
