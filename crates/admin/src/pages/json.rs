//! `/stats.json`: one object with the statistics, the settings and the latencies.
//!
//! ```json
//! {"stats": {"pid": 1, "version": "1.6.45", …}, "settings": {"maxbytes": 67108864, …},
//!  "latency": {"get": {"count": 1, "sum_seconds": 0.000004, "buckets": [{"le": 1e-06, …}]}, …}}
//! ```
//!
//! Written by hand: it is one page of a known form, and `serde_json` would bring four packages into
//! the production server.

use session::{CommandClass, LatencySnapshot};

use super::metrics::{LATENCY_BOUNDS, is_decimal};
use super::openmetrics::Number;
use super::rows::is_number;
use crate::figures::{Figures, Value};

/// Writes the page. Without latencies, `latency` is null.
pub(super) fn write(
    stats: &Figures,
    settings: &Figures,
    latencies: Option<&LatencySnapshot>,
    out: &mut Vec<u8>,
) {
    let stats = members(stats);
    let settings = members(settings);
    let latency = latencies.map_or("null".to_owned(), latency);
    let page =
        format!("{{\"stats\": {stats},\n \"settings\": {settings},\n \"latency\": {latency}}}\n");
    out.extend_from_slice(page.as_bytes());
}

/// An object with a member for each figure.
fn members(figures: &Figures) -> String {
    let member = |(name, value): (&str, &Value)| {
        let value = match value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) if is_number(name) && is_decimal(text) => text.clone(),
            Value::Text(text) => quoted(text),
        };
        format!("  {}: {value}", quoted(name))
    };
    let members: Vec<String> = figures.iter().map(member).collect();
    format!("{{\n{}\n }}", members.join(",\n"))
}

/// An object with a member for each class of commands.
fn latency(latencies: &LatencySnapshot) -> String {
    let classes = CommandClass::ALL.map(|class| {
        let latency = latencies.of(class);
        let bucket = |(bound, count): (&&str, &u64)| match *bound {
            "+Inf" => format!("{{\"le\": null, \"count\": {count}}}"),
            bound => format!("{{\"le\": {bound}, \"count\": {count}}}"),
        };
        let buckets: Vec<String> = LATENCY_BOUNDS
            .iter()
            .zip(&latency.buckets())
            .map(bucket)
            .collect();
        let (name, count) = (class.name(), latency.count());
        let sum = Number::Nanos(latency.sum_ns);
        let buckets = buckets.join(", ");
        format!(
            "  \"{name}\": {{\"count\": {count}, \"sum_seconds\": {sum}, \"buckets\": [{buckets}]}}"
        )
    });
    format!("{{\n{}\n }}", classes.join(",\n"))
}

/// A string with its quotes (RFC 8259, section 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
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
        assert_eq!(buckets.len(), LATENCY_BOUNDS.len());
        assert_eq!(buckets[0], serde_json::json!({"le": 1e-06, "count": 0}));
        assert_eq!(buckets[16]["le"], Json::Null);
    }
}
