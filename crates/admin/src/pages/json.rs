//! `/stats.json`: one object with the statistics, the settings and the latencies.
//!
//! ```json
//! {"stats": {"pid": 1, "version": "1.6.45", …}, "settings": {"maxbytes": 67108864, …},
//!  "latency": {"get": {"count": 1, "sum_seconds": 4e-6, "buckets": [{"le": 1e-6, …}]}, …}}
//! ```

use serde::{Serialize, Serializer};
use session::{CommandClass, LATENCY_BOUNDS_NS, LatencySnapshot};

use super::metrics::is_decimal;
use super::rows::is_number;
use crate::figures::{Figures, Value};

/// Writes the page. Without latencies, `latency` is null.
pub(super) fn write(
    stats: &Figures,
    settings: &Figures,
    latencies: Option<&LatencySnapshot>,
    out: &mut Vec<u8>,
) {
    let page = Page {
        stats: Members(stats),
        settings: Members(settings),
        latency: latencies.map(Latencies),
    };
    // A vector takes everything, and every key is a string.
    let _ = serde_json::to_writer_pretty(&mut *out, &page);
    out.push(b'\n');
}

#[derive(Serialize)]
struct Page<'a> {
    stats: Members<'a>,
    settings: Members<'a>,
    latency: Option<Latencies<'a>>,
}

/// An object with a member for each figure.
struct Members<'a>(&'a Figures);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = self.0.iter();
        serializer.collect_map(figures.map(|(name, value)| (name, member(name, value))))
    }
}

/// The value of a figure: numbers that `stats` has as text are numbers here.
fn member(name: &str, value: &Value) -> serde_json::Value {
    match value {
        Value::Number(number) => (*number).into(),
        Value::Text(text) if is_number(name) && is_decimal(text) => text
            .parse::<f64>()
            .map_or_else(|_| text.as_str().into(), Into::into),
        Value::Text(text) => text.as_str().into(),
    }
}

/// An object with a member for each class of commands.
struct Latencies<'a>(&'a LatencySnapshot);

impl Serialize for Latencies<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(CommandClass::ALL.map(|class| {
            let latency = self.0.of(class);
            let bounds = LATENCY_BOUNDS_NS.map(|bound_ns| Some(seconds(bound_ns)));
            let buckets = bounds.into_iter().chain([None]).zip(latency.buckets());
            let durations = Durations {
                count: latency.count(),
                sum_seconds: seconds(latency.sum_ns),
                buckets: buckets.map(|(le, count)| Bucket { le, count }).collect(),
            };
            (class.name(), durations)
        }))
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[derive(Serialize)]
struct Durations {
    count: u64,
    sum_seconds: f64,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    /// None: no bound.
    le: Option<f64>,
    count: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value as Json;
    use session::StatWriter;

    use super::*;

    proptest! {
        #[test]
        fn any_text_survives(name in ".{0,20}", text in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
            let mut figures = Figures::default();
            figures.text(name.as_bytes(), text.as_bytes());
            figures.number(b"most", u64::MAX);
            let mut page = Vec::new();
            write(&figures, &figures, None, &mut page);
            let json: Json = serde_json::from_slice(&page).unwrap();
            if name != "most" {
                prop_assert_eq!(&json["settings"][&name], &Json::from(text));
            }
            prop_assert_eq!(&json["stats"]["latency"], &Json::Null);
        }
    }

    #[test]
    fn numbers_are_numbers() {
        let mut figures = Figures::default();
        figures.number(b"pid", 7);
        figures.text(b"rusage_user", b"0.250000");
        figures.text(b"version", b"1.6");
        let mut page = Vec::new();
        let latencies = LatencySnapshot::default();
        write(&figures, &Figures::default(), Some(&latencies), &mut page);
        let json: Json = serde_json::from_slice(&page).unwrap();
        assert_eq!(json["stats"]["pid"], 7);
        assert_eq!(json["stats"]["rusage_user"], 0.25);
        assert_eq!(json["stats"]["version"], "1.6");
        assert_eq!(json["settings"], serde_json::json!({}));
        let buckets = json["latency"]["get"]["buckets"].as_array().unwrap();
        assert_eq!(buckets.len(), LATENCY_BOUNDS_NS.len() + 1);
        assert_eq!(buckets[0], serde_json::json!({"le": 1e-06, "count": 0}));
        assert_eq!(buckets[16]["le"], Json::Null);
    }
}
