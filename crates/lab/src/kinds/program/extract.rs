//! Turns the output of a program into metrics.

use regex_lite::Regex;
use report::record::{Better, Measured, Metric, Unit};
use serde::{Deserialize, Serialize};

use super::combine::Across;
use crate::kind::{Performed, Violation};
use crate::limits;
use crate::placeholder;

/// A metric as a file declares it: from the key `json` of lines that are JSON objects, or from the
/// first group of the regular expression `regex`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MetricTable {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    unit: String,
    #[serde(default = "neither")]
    better: Better,
    /// The path of keys in an object, joined by dots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
    /// The output that is searched.
    #[serde(default)]
    of: Stream,
    /// The process beside the program whose output is searched, both streams of it, after it was
    /// stopped. None: the output of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// How several values become one.
    #[serde(default)]
    reduce: Reduce,
    /// How the values of several clients become one.
    #[serde(default, skip_serializing_if = "Across::is_default")]
    across: Across,
    /// Whether the values are kept as a series.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    series: bool,
    /// Whether values before the detected end of the warm-up are left out of `reduce`
    /// ([`measure::warm_up`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    detect_warm_up: bool,
    /// Whether a trial without a value succeeds nevertheless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

fn neither() -> Better {
    Better::Neither
}

/// An output of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stream {
    #[default]
    Stdout,
    Stderr,
}

/// How several values become one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reduce {
    First,
    #[default]
    Last,
    Mean,
    Median,
    Min,
    Max,
    Sum,
    Count,
}

impl MetricTable {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn unit(&self) -> &str {
        &self.unit
    }

    /// The process beside the program from whose output the metric is read.
    pub(super) fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    pub(super) fn across(&self) -> Across {
        self.across
    }

    /// The key, if there is one, that makes it a metric of one client only.
    pub(super) fn of_one_client(&self) -> Option<&'static str> {
        let keys = [("series", self.series), ("detect-warm-up", self.detect_warm_up)];
        keys.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
    }

    pub(super) fn definition(&self) -> Metric {
        let title = self.title.as_ref().unwrap_or(&self.name);
        Metric::new(
            &self.name,
            title,
            Unit::from(self.unit.clone()),
            self.better,
        )
    }

    /// All values in an output, in order.
    fn values(&self, output: &str) -> Values {
        let mut values = Values::default();
        if let Some(path) = &self.json {
            values.finite = output.lines().flat_map(|it| json_values(it, path)).collect();
            return values;
        }
        let Some(regex) = self.regex.as_ref().and_then(|it| Regex::new(it).ok()) else {
            return values;
        };
        let groups = output.lines().filter_map(|it| regex.captures(it)?.get(1));
        for group in groups {
            match group.as_str().replace([',', '_'], "").parse::<f64>() {
                Ok(value) if value.is_finite() => values.finite.push(value),
                _ => values.others += 1,
            }
        }
        values
    }
}

/// What an output has for a metric.
#[derive(Debug, Default)]
struct Values {
    /// The numbers, in order.
    finite: Vec<f64>,
    /// Matches that are no finite number.
    others: usize,
}

/// The value at a path of keys and indices in a line that is an object.
pub(super) fn json_at(line: &str, path: &str) -> Option<serde_json::Value> {
    let mut object: serde_json::Value = serde_json::from_str(line.trim()).ok()?;
    let found = path.split('.').try_fold(&mut object, |value, key| match value {
        serde_json::Value::Array(values) => values.get_mut(key.parse::<usize>().ok()?),
        value => value.get_mut(key),
    });
    found.map(serde_json::Value::take)
}

/// The finite numbers at a path in a line that is an object; arrays in arrays one after another.
fn json_values(line: &str, path: &str) -> Vec<f64> {
    let found = json_at(line, path);
    let mut numbers = Vec::new();
    let mut left = Vec::from_iter(&found);
    while let Some(value) = left.pop() {
        match value {
            serde_json::Value::Array(values) => left.extend(values.iter().rev()),
            serde_json::Value::Bool(flag) => numbers.push(f64::from(u8::from(*flag))),
            value => numbers.extend(value.as_f64().filter(|it| it.is_finite())),
        }
    }
    numbers
}

impl Reduce {
    /// None: there is nothing to reduce. Only a count of nothing is a number.
    pub(super) fn of(self, values: &[f64]) -> Option<f64> {
        let sum = || values.iter().sum::<f64>();
        match self {
            Self::First => values.first().copied(),
            Self::Last => values.last().copied(),
            Self::Mean => (!values.is_empty()).then(|| sum() / values.len() as f64),
            Self::Median => measure::median(values),
            Self::Min => values.iter().copied().reduce(f64::min),
            Self::Max => values.iter().copied().reduce(f64::max),
            Self::Sum => (!values.is_empty()).then(sum),
            Self::Count => Some(values.len() as f64),
        }
    }
}

/// Why a metric is invalid that has no values after its warm-up.
const NO_END_OF_WARM_UP: &str = "no end of the warm-up";

/// The metrics of a trial, and a remark on each series that is not kept in full, on matches that
/// are no numbers, and on each metric without an end of its warm-up.
///
/// # Errors
/// A metric that is not optional has no value: the reason of the trial's failure.
pub(super) fn measured(
    tables: &[MetricTable],
    stdout: &str,
    stderr: &str,
) -> Result<Performed, String> {
    let mut measured = Measured::default();
    let mut notes = Vec::new();
    for table in tables {
        let found = table.values(match table.of {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        });
        let (values, name) = (found.finite, &table.name);
        if found.others > 0 {
            let others = found.others;
            notes.push(format!(
                "matches of metric `{name}` that are no finite number and do not count: {others}"
            ));
        }
        if table.series && !values.is_empty() {
            let most = limits::SERIES_LEN;
            if values.len() > most {
                let len = values.len();
                notes.push(format!(
                    "the series `{name}` holds the first {most} of {len} numbers"
                ));
            }
            let kept = values.iter().take(most).copied().collect();
            measured.series.insert(name.clone(), kept);
        }
        let mut counted = values.as_slice();
        if table.detect_warm_up {
            match measure::warm_up(counted) {
                Some(first) => counted = &counted[first..],
                None if values.is_empty() => {}
                // A trial is not redrawn because of its values: that would select among them.
                None => {
                    let flag = measured.flags.entry(name.clone()).or_default();
                    flag.invalid = Some(NO_END_OF_WARM_UP.to_owned());
                    notes.push(format!(
                        "no end of the warm-up in the values of metric `{name}`: all are reduced, \
                         and the result does not count; make the trial longer"
                    ));
                }
            }
        }
        match table.reduce.of(counted) {
            Some(value) => {
                measured.metrics.insert(name.clone(), value);
            }
            None if table.optional => {}
            None => return Err(format!("no value of metric `{name}` in the output")),
        }
    }
    Ok(Performed { measured, notes })
}

/// Checks the declarations. `beside` are the names of the processes beside the program.
pub(super) fn check(tables: &[MetricTable], beside: &[&str]) -> Result<(), Violation> {
    const TABLE: &str = "[[metric]]";
    for (nth, table) in tables.iter().enumerate() {
        let violation = |key, problem: String| Err(Violation::new(TABLE, nth, key, problem));
        let is_again = tables[..nth].iter().any(|it| it.name == table.name);
        if table.name.is_empty() || !table.name.chars().all(placeholder::is_in_name) || is_again {
            let problem = "must be letters, digits, `.`, `_` or `-`, and of no other metric";
            return violation("name", problem.to_owned());
        }
        if let Some(from) = table.from() {
            if !beside.contains(&from) {
                let near = crate::error::nearest(from, beside.iter().copied());
                let near = crate::error::did_you_mean(near);
                let problem = format!("has `{from}`, which is no [[beside]] process{near}");
                return violation("from", problem);
            }
            if table.of != Stream::Stdout || !table.across.is_default() {
                let problem = "is of one process with one log: leave out `of` and `across`";
                return violation("from", problem.to_owned());
            }
        }
        match (&table.json, &table.regex) {
            (Some(_), None) => {}
            (None, Some(regex)) => match Regex::new(regex) {
                Ok(regex) if regex.captures_len() >= 2 => {}
                Ok(_) => {
                    let problem = "has no group: put the number in parentheses";
                    return violation("regex", problem.to_owned());
                }
                Err(error) => {
                    return violation("regex", format!("is no regular expression: {error}"));
                }
            },
            _ => {
                let problem = "needs exactly one of `json` and `regex`";
                return violation("name", problem.to_owned());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> MetricTable {
        toml::from_str(&format!("name = \"x\"\nunit = \"s\"\n{text}")).unwrap()
    }

    fn value(text: &str, output: &str) -> Result<f64, String> {
        let performed = measured(&[table(text)], output, "")?;
        Ok(performed.measured.metrics["x"])
    }

    #[test]
    fn json_lines_and_regular_expressions_give_numbers() {
        let lines = "progress\n{\"a\":{\"b\":[1.5]}}\n{\"a\":{\"b\":[2.5]}}\nnot {json\n";
        assert_eq!(value("json = \"a.b.0\"", lines), Ok(2.5));
        assert_eq!(value("json = \"a.b.0\"\nreduce = \"mean\"", lines), Ok(2.0));
        assert_eq!(
            value("json = \"a.b.0\"\nreduce = \"count\"", lines),
            Ok(2.0)
        );
        let text = "took 1,204 s\ntook 7 s\n";
        assert_eq!(
            value("regex = 'took ([0-9,]+) s'\nreduce = \"max\"", text),
            Ok(1204.0)
        );
        assert_eq!(
            value("json = \"c\"", lines),
            Err("no value of metric `x` in the output".to_owned())
        );
        let optional = measured(&[table("json = \"c\"\noptional = true")], lines, "").unwrap();
        assert!(optional.measured.metrics.is_empty());
    }

    #[test]
    fn every_value_counts_even_if_the_series_is_not_kept_in_full() {
        let output = "v 1\n".repeat(limits::SERIES_LEN) + "v 2\n";
        let last = table("regex = 'v ([0-9])'\nseries = true");
        let performed = measured(&[last], &output, "").unwrap();
        assert_eq!(performed.measured.metrics["x"], 2.0);
        assert_eq!(performed.measured.series["x"].len(), limits::SERIES_LEN);
        assert_eq!(
            performed.notes,
            ["the series `x` holds the first 10000 of 10001 numbers"]
        );
        assert_eq!(
            value("regex = 'v ([0-9])'\nreduce = \"count\"", &output),
            Ok(10_001.0)
        );
    }

    #[test]
    fn every_line_of_a_long_output_counts() {
        let output = "1\n".repeat(1_000_000) + "3\n";
        let text = "regex = '([0-9])'\nreduce = \"sum\"";
        assert_eq!(value(text, &output), Ok(1_000_003.0));
    }

    #[test]
    fn without_a_match_there_is_no_sum_and_a_count_of_0() {
        let missing = Err("no value of metric `x` in the output".to_owned());
        let reduced = |reduce| value(&format!("regex = '([0-9])'\nreduce = \"{reduce}\""), "a\n");
        assert_eq!(reduced("sum"), missing);
        assert_eq!(reduced("mean"), missing);
        assert_eq!(reduced("count"), Ok(0.0));
    }

    #[test]
    fn matches_that_are_no_finite_number_are_noted() {
        let any = table("regex = 'v (.*)'\nreduce = \"sum\"");
        let performed = measured(&[any], "v 1\nv nan\nv inf\nv 1.2.3\nv 2\n", "").unwrap();
        assert_eq!(performed.measured.metrics["x"], 3.0);
        assert_eq!(
            performed.notes,
            ["matches of metric `x` that are no finite number and do not count: 3"]
        );
    }

    #[test]
    fn a_trial_whose_warm_up_does_not_end_keeps_its_values_and_they_do_not_count() {
        let rising: String = (0..200).map(|it| format!("v {it}\n")).collect();
        let mean = table("regex = 'v ([0-9]+)'\nreduce = \"mean\"\ndetect-warm-up = true");
        let performed = measured(&[mean], &rising, "").unwrap();
        assert_eq!(performed.measured.metric("x"), Some(99.5));
        assert_eq!(performed.measured.valid("x"), None);
        let invalid = performed.measured.flags["x"].invalid.as_deref();
        assert_eq!(invalid, Some("no end of the warm-up"));
        assert!(performed.notes[0].starts_with("no end of the warm-up in the values of metric `x`"));
    }

    #[test]
    fn wrong_declarations_are_refused() {
        for (text, key) in [
            ("", "name"),
            ("json = \"a\"\nregex = '(a)'", "name"),
            ("regex = 'a'", "regex"),
            ("regex = '('", "regex"),
        ] {
            assert_eq!(check(&[table(text)], &[]).unwrap_err().key, key, "{text}");
        }
        assert_eq!(check(&[table("json = \"a\"")], &[]), Ok(()));
    }
}
