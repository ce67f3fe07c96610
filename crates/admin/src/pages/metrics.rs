//! `/metrics`: every figure of `stats` and `stats curtail`, and how long requests took.

use std::collections::HashSet;

use session::{CommandClass, LATENCY_BUCKETS, LatencySnapshot};

use super::openmetrics::{Bucket, Exposition, FamilyWriter, Kind, Number, identifier};
use super::rows::{As, POLICY, Row, SPLIT_HISTOGRAMS, SplitHistogram, is_listed, listed};
use crate::figures::{Figures, Value};

/// The name of the information about the process. OpenMetrics adds `_info`.
const INFO: &str = "curtail";

/// The bounds of [`session::LATENCY_BOUNDS_NS`] in seconds, in the form that OpenMetrics asks for.
const LATENCY_BOUNDS: [&str; LATENCY_BUCKETS] = [
    "1e-06", "2e-06", "5e-06", "1e-05", "2e-05", "5e-05", "0.0001", "0.0002", "0.0005", "0.001",
    "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "+Inf",
];

/// Writes the page.
pub(super) fn write(
    stats: &Figures,
    latencies: Option<&LatencySnapshot>,
    exposition: Exposition,
    out: &mut Vec<u8>,
) {
    let mut page = FamilyWriter::new(out, exposition);
    information(stats, &mut page);
    rows(stats, &mut page);
    eviction_policy(stats, &mut page);
    for histogram in &SPLIT_HISTOGRAMS {
        split_histogram(histogram, stats, &mut page);
    }
    if let Some(latencies) = latencies {
        command_durations(latencies, &mut page);
    }
    unlisted(stats, &mut page);
    page.end();
}

fn full_name(name: &str) -> String {
    format!("curtail_{name}")
}

/// Texts, and numbers that stay the same while the process runs, are labels of one metric.
fn information(stats: &Figures, page: &mut FamilyWriter<'_>) {
    let mut labels: Vec<(String, String)> = Vec::new();
    let mut add = |name: String, value: &Value| {
        let value = match value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        };
        // A label may not occur twice.
        if !labels.iter().any(|(label, _)| *label == name) {
            labels.push((name, value));
        }
    };
    for row in listed().filter(|row| row.exported == As::Label) {
        if let Some(value) = stats.get(row.stat) {
            add(row.name.to_owned(), value);
        }
    }
    for (name, value) in stats.iter() {
        if matches!(value, Value::Text(_)) && !is_listed(name) {
            add(format!("unlisted_{}", identifier(name)), value);
        }
    }
    let labels: Vec<(&str, &str)> = labels
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    page.family(INFO, Kind::Info, "The server process.");
    page.sample(INFO, Kind::Info, &labels, Number::Integer(1));
}

/// The figures that are one sample each.
fn rows(stats: &Figures, page: &mut FamilyWriter<'_>) {
    let mut last_name = "";
    for row in listed() {
        let (Some(kind), Some(number)) = (row.kind(), number(row, stats)) else {
            continue;
        };
        let name = full_name(row.name);
        if row.name != last_name {
            page.family(&name, kind, row.help);
            last_name = row.name;
        }
        page.sample(&name, kind, row.label.as_slice(), number);
    }
}

/// The value of a figure; `None` if the server has none, or none of the expected form.
fn number<'a>(row: &Row, stats: &'a Figures) -> Option<Number<'a>> {
    match (stats.get(row.stat)?, row.exported) {
        (Value::Number(us), As::CounterOfSeconds) => Some(Number::Micros(*us)),
        (Value::Number(number), _) => Some(Number::Integer(*number)),
        (Value::Text(text), As::CounterOfSeconds) if is_decimal(text) => {
            Some(Number::Decimal(text))
        }
        (Value::Text(_), _) => None,
    }
}

/// Whether a text is a decimal fraction that may stand in JSON and in OpenMetrics.
pub(super) fn is_decimal(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    text.split_once('.').is_some_and(|(whole, rest)| {
        is_digits(whole) && is_digits(rest) && (whole == "0" || !whole.starts_with('0'))
    })
}

/// One sample for each policy, 1 for the present one.
fn eviction_policy(stats: &Figures, page: &mut FamilyWriter<'_>) {
    let Some(Value::Text(present)) = stats.get(POLICY) else {
        return;
    };
    let name = full_name(POLICY);
    page.family(&name, Kind::StateSet, "The present eviction policy.");
    let known = session::eviction_policies();
    let further = Some(present.as_str()).filter(|it| !known.contains(it));
    for policy in known.into_iter().chain(further) {
        let number = Number::Integer((policy == present).into());
        page.sample(&name, Kind::StateSet, &[(&name, policy)], number);
    }
}

fn split_histogram(histogram: &SplitHistogram, stats: &Figures, page: &mut FamilyWriter<'_>) {
    let mut buckets: Vec<Bucket<'_>> = Vec::new();
    let mut below = 0;
    for (stat, bound) in histogram.buckets {
        let Some(count) = stats.number_of(stat) else {
            return;
        };
        // The figures are read one after the other, while workers count.
        below = if histogram.is_cumulative {
            count.max(below)
        } else {
            below.saturating_add(count)
        };
        buckets.push((bound, below));
    }
    let sum = histogram.sum.and_then(|stat| stats.number_of(stat));
    let name = full_name(histogram.name);
    page.family(&name, Kind::Histogram, histogram.help);
    page.histogram(&name, None, &buckets, sum.map(Number::Integer));
}

fn command_durations(latencies: &LatencySnapshot, page: &mut FamilyWriter<'_>) {
    let name = full_name("command_duration_seconds");
    let help = "Time of the burst that answered a request, from the wake-up of the worker until \
                its replies were written to the output and, with events, sent.";
    page.family(&name, Kind::Histogram, help);
    for class in CommandClass::ALL {
        let latency = latencies.of(class);
        let (buckets, sum_ns) = (latency.buckets(), latency.sum_ns);
        let mut below = 0_u64;
        let cumulative = LATENCY_BOUNDS.iter().zip(buckets).map(|(bound, count)| {
            below = below.saturating_add(count);
            (*bound, below)
        });
        let cumulative: Vec<Bucket<'_>> = cumulative.collect();
        let sum = Some(Number::Nanos(sum_ns));
        page.histogram(&name, Some(("command", class.name())), &cumulative, sum);
    }
}

/// Numbers without a row in the table.
fn unlisted(stats: &Figures, page: &mut FamilyWriter<'_>) {
    let mut names = HashSet::new();
    for (stat, value) in stats.iter() {
        let Value::Number(number) = value else {
            continue;
        };
        let name = full_name(&format!("unlisted_{}", identifier(stat)));
        if !is_listed(stat) && !names.contains(&name) {
            page.family(&name, Kind::Unknown, "A figure of the command stats.");
            page.sample(&name, Kind::Unknown, &[], Number::Integer(*number));
            names.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use session::LATENCY_BOUNDS_NS;

    use super::*;

    #[test]
    fn bounds_are_those_of_the_histogram() {
        for (text, bound_ns) in LATENCY_BOUNDS.iter().zip(LATENCY_BOUNDS_NS) {
            let seconds: f64 = text.parse().unwrap();
            assert_eq!((seconds * 1e9).round() as u64, bound_ns, "{text}");
        }
        assert_eq!(LATENCY_BOUNDS.last(), Some(&"+Inf"));
    }

    #[test]
    fn decimals_are_those_of_json() {
        for text in ["0.5", "12.000001", "0.0"] {
            assert!(is_decimal(text), "{text}");
        }
        for text in [
            "", ".", "1", "01.5", "1.", ".5", "1.6.45", "-1.0", "1e3", "nan",
        ] {
            assert!(!is_decimal(text), "{text}");
        }
    }
}
