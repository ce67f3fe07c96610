//! Writing metrics as text, in either of two formats.
//!
//! - OpenMetrics 1.0.0:
//!   <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>. The
//!   name of a counter's family has no `_total`, a unit is the end of the name, the text ends with
//!   `# EOF`.
//! - The older text format 0.0.4 of Prometheus, which browsers show. It has fewer types, and no
//!   units.
//!
//! The caller writes each family once, and its samples right after it.

use std::io::Write as _;

use http::Request;

/// The format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    OpenMetrics,
    Text004,
}

impl Exposition {
    /// The format that a request asks for. Without a wish it is OpenMetrics.
    pub(crate) fn asked_for(request: &Request<'_>) -> Self {
        let accepts = |media_type: &[u8]| {
            request.has_header("accept", |value| {
                let mut ranges = value.split(|&byte| byte == b',');
                ranges.any(|range| {
                    let name = range.split(|&byte| byte == b';').next().unwrap_or(range);
                    name.trim_ascii().eq_ignore_ascii_case(media_type)
                })
            })
        };
        let is_plain = [&b"text/plain"[..], b"text/*", b"text/html"]
            .into_iter()
            .any(accepts);
        if is_plain && !accepts(b"application/openmetrics-text") {
            Self::Text004
        } else {
            Self::OpenMetrics
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text004 => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
    StateSet,
    Unknown,
}

impl Kind {
    /// The name of the type.
    fn name(self, exposition: Exposition) -> &'static str {
        match (self, exposition) {
            (Self::Counter, _) => "counter",
            (Self::Gauge, _) => "gauge",
            (Self::Histogram, _) => "histogram",
            (Self::Info, Exposition::OpenMetrics) => "info",
            (Self::StateSet, Exposition::OpenMetrics) => "stateset",
            (Self::Unknown, Exposition::OpenMetrics) => "unknown",
            (Self::Info | Self::StateSet, Exposition::Text004) => "gauge",
            (Self::Unknown, Exposition::Text004) => "untyped",
        }
    }

    /// What the name of a sample adds to the name of its family. Histograms have several.
    fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram | Self::StateSet | Self::Unknown => "",
        }
    }
}

/// The value of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number<'a> {
    Integer(u64),
    /// Billionths.
    Nanos(u64),
    /// Millionths.
    Micros(u64),
    /// A decimal fraction as text.
    Decimal(&'a str),
}

/// A sum of times may use all 64 bits, so fractions are written without floating point.
impl std::fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Nanos(number) => write!(f, "{}.{:09}", number / NANOS, number % NANOS),
            Self::Micros(number) => write!(f, "{}.{:06}", number / MICROS, number % MICROS),
            Self::Decimal(text) => f.write_str(text),
        }
    }
}

const NANOS: u64 = 1_000_000_000;
const MICROS: u64 = 1_000_000;

/// A bucket of a histogram: its bound as text, and the cumulative count.
pub(crate) type Bucket<'a> = (&'a str, u64);

/// Writes families to a page.
pub(crate) struct FamilyWriter<'a> {
    out: &'a mut Vec<u8>,
    exposition: Exposition,
}

impl<'a> FamilyWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, exposition: Exposition) -> Self {
        Self { out, exposition }
    }

    /// Begins a family. `help` is one line without quotes and backslashes.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let type_name = kind.name(self.exposition);
        let full_name = match self.exposition {
            Exposition::OpenMetrics => name.to_owned(),
            Exposition::Text004 => format!("{name}{}", kind.suffix()),
        };
        // Writing to a vector cannot fail, here and below.
        let _ = writeln!(self.out, "# TYPE {full_name} {type_name}");
        if let (Exposition::OpenMetrics, Some(unit)) = (self.exposition, unit(name, kind)) {
            let _ = writeln!(self.out, "# UNIT {full_name} {unit}");
        }
        let _ = writeln!(self.out, "# HELP {full_name} {help}");
    }

    /// Writes a sample of a family that is no histogram.
    pub(crate) fn sample(
        &mut self,
        name: &str,
        kind: Kind,
        labels: &[(&str, &str)],
        number: Number<'_>,
    ) {
        self.line(name, kind.suffix(), labels, number);
    }

    /// Writes one histogram of a family. The buckets ascend, and the last is the one for `+Inf`.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        label: Option<(&str, &str)>,
        buckets: &[Bucket<'_>],
        sum: Option<Number<'_>>,
    ) {
        let mut labels: Vec<(&str, &str)> = label.into_iter().collect();
        for (bound, count) in buckets {
            labels.push(("le", bound));
            self.line(name, "_bucket", &labels, Number::Integer(*count));
            labels.pop();
        }
        // OpenMetrics: there is a count if and only if there is a sum.
        if let (Some(sum), Some((_, count))) = (sum, buckets.last()) {
            self.line(name, "_sum", &labels, sum);
            self.line(name, "_count", &labels, Number::Integer(*count));
        }
    }

    /// Ends the page.
    pub(crate) fn end(self) {
        if self.exposition == Exposition::OpenMetrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], number: Number<'_>) {
        let _ = write!(self.out, "{name}{suffix}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{before}{label}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{after} {number}");
    }
}

/// The unit of a family, which is the end of its name.
fn unit(name: &str, kind: Kind) -> Option<&'static str> {
    // OpenMetrics allows no unit there.
    if matches!(kind, Kind::Info | Kind::StateSet) {
        return None;
    }
    let is_unit = |unit: &&str| {
        name.strip_suffix(unit)
            .is_some_and(|rest| rest.ends_with('_'))
    };
    ["bytes", "seconds"].into_iter().find(is_unit)
}

/// The value of a label, between quotes.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text
}

/// `name` as a part of the name of a family or label: every other character becomes `_`.
pub(crate) fn identifier(name: &str) -> String {
    let allowed = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    name.chars().map(allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Parsed;

    fn asked_for(fields: &str) -> Exposition {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        match Request::parse(head.as_bytes()) {
            Parsed::Request(request) => Exposition::asked_for(&request),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_format_follows_what_the_client_accepts() {
        let prometheus = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.1\r\n";
        let browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
        for (fields, expected) in [
            ("", Exposition::OpenMetrics),
            ("Accept: */*\r\n", Exposition::OpenMetrics),
            (prometheus, Exposition::OpenMetrics),
            ("Accept: text/plain\r\n", Exposition::Text004),
            ("accept: Text/Plain;version=0.0.4\r\n", Exposition::Text004),
            (browser, Exposition::Text004),
            (
                "Accept: text/plain\r\nAccept: application/openmetrics-text\r\n",
                Exposition::OpenMetrics,
            ),
        ] {
            assert_eq!(asked_for(fields), expected, "{fields}");
        }
    }

    #[test]
    fn fractions_keep_all_digits() {
        for (number, expected) in [
            (Number::Nanos(1), "0.000000001"),
            (Number::Nanos(u64::MAX), "18446744073.709551615"),
            (Number::Micros(1_500_000), "1.500000"),
            (Number::Decimal("0.25"), "0.25"),
        ] {
            assert_eq!(number.to_string(), expected);
        }
    }

    #[test]
    fn labels_are_escaped_and_names_are_reduced() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(identifier("a-b:c\u{e9}9"), "a_b_c_9");
    }

    #[test]
    fn units_are_the_end_of_the_name() {
        assert_eq!(unit("curtail_item_bytes", Kind::Gauge), Some("bytes"));
        assert_eq!(unit("curtail_kilobytes", Kind::Gauge), None);
        assert_eq!(unit("curtail_x_seconds", Kind::StateSet), None);
    }
}
