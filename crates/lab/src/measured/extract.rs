//! Turns the output of a program into metrics.

use regex_lite::Regex;
use report::record::{Better, Measured, Metric, Unit};
use serde::{Deserialize, Serialize};

use crate::kind::{Performed, Violation};
use crate::limits;
use crate::placeholder;

/// A metric as a file declares it: from the key `json` of lines that are JSON objects, or from the
/// first group of the regular expression `regex`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MetricTable {
    pub(super) name: String,
    title: Option<String>,
    pub(super) unit: String,
    #[serde(default = "neither")]
    better: Better,
    /// A path in JSON: keys, indices and `[KEY=VALUE]`, joined by dots.
    json: Option<String>,
    regex: Option<String>,
    /// A file that the program writes, which is searched in place of its output.
    pub(super) file: Option<String>,
    #[serde(default)]
    of: Stream,
    /// The process beside the program whose output is searched, both streams of it, after it was
    /// stopped. None: the output of the program.
    pub(super) from: Option<String>,
    #[serde(default)]
    reduce: Reduce,
    #[serde(default = "mean", skip_serializing_if = "is_mean")]
    across: Reduce,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) series: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

fn mean() -> Reduce {
    Reduce::Mean
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_mean(it: &Reduce) -> bool {
    *it == Reduce::Mean
}

fn neither() -> Better {
    Better::Neither
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stream {
    #[default]
    Stdout,
    Stderr,
}

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
    pub(super) fn definition(&self) -> Metric {
        let title = self.title.as_ref().unwrap_or(&self.name);
        Metric::new(
            &self.name,
            title,
            Unit::from(self.unit.clone()),
            self.better,
        )
    }

    fn values(&self, output: &str) -> Values {
        let mut values = Values::default();
        if let Some(path) = &self.json {
            values.finite = documents(output)
                .flat_map(|it| json_numbers(it, path))
                .collect();
            return values;
        }
        let Some(regex) = self.regex.as_ref().and_then(|it| Regex::new(it).ok()) else {
            return values;
        };
        let groups = output.lines().filter_map(|it| regex.captures(it)?.get(1));
        for group in groups {
            match number(group.as_str()) {
                Some(value) => values.finite.push(value),
                None => values.others += 1,
            }
        }
        values
    }
}

/// A finite number. Commas separate thousands: `1,204` is 1204, and `1,5` is no number.
fn number(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches('-').split(',');
    let first = groups.next().unwrap_or_default();
    let has_commas = whole.contains(',');
    let is_grouped = (1..=3).contains(&first.len())
        && groups.all(|it| it.len() == 3 && it.bytes().all(|it| it.is_ascii_digit()));
    if (has_commas && !is_grouped) || fraction.contains(',') {
        return None;
    }
    let value: f64 = text.replace([',', '_'], "").parse().ok()?;
    value.is_finite().then_some(value)
}

#[derive(Debug, Default)]
struct Values {
    finite: Vec<f64>,
    others: usize,
}

/// The JSON documents of an output: the whole of it, or its lines that are objects.
fn documents(output: &str) -> impl Iterator<Item = serde_json::Value> {
    let whole = serde_json::from_str(output).ok();
    let lines = if whole.is_some() { "" } else { output };
    let line = |line: &str| serde_json::from_str(line.trim()).ok();
    whole.into_iter().chain(lines.lines().filter_map(line))
}

/// The value at a path. Its steps are keys, indices, and `[KEY=VALUE]`: the element of an array
/// whose member of that key or index has that value.
fn json_at(mut document: serde_json::Value, path: &str) -> Option<serde_json::Value> {
    use serde_json::Value;
    let is_of = |member: &Value, wanted: &str| match member {
        Value::String(text) => text == wanted,
        member => member.as_f64().is_some_and(|it| wanted.parse() == Ok(it)),
    };
    let found = steps(path).try_fold(&mut document, |value, step| {
        let choice = step.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match (value, choice.and_then(|it| it.split_once('='))) {
            (Value::Array(values), Some((key, wanted))) => values.iter_mut().find(|it| {
                let member = match it {
                    Value::Array(members) => key.parse().ok().and_then(|at: usize| members.get(at)),
                    object => object.get(key),
                };
                member.is_some_and(|it| is_of(it, wanted))
            }),
            (Value::Array(values), None) => values.get_mut(step.parse::<usize>().ok()?),
            (value, _) => value.get_mut(step),
        }
    });
    found.map(Value::take)
}

/// The steps of a path, joined by dots; a dot in brackets joins nothing.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    path.split(move |c| {
        is_inside = (is_inside || c == '[') && c != ']';
        c == '.' && !is_inside
    })
}

/// The finite numbers at a path; arrays in arrays one after another.
fn json_numbers(document: serde_json::Value, path: &str) -> Vec<f64> {
    let found = json_at(document, path);
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

/// The metrics of a trial, and a remark on each series that is not kept in full, on matches that
/// are no numbers, and on each metric without an end of its warm-up.
pub(super) fn measured(
    tables: &[MetricTable],
    stdout: &str,
    stderr: &str,
    file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Performed, String> {
    let mut measured = Measured::default();
    let mut notes = Vec::new();
    for table in tables {
        let found = match (&table.file, table.of) {
            (Some(path), _) => match file(path) {
                Ok(text) => table.values(&text),
                Err(_) if table.optional => Values::default(),
                Err(problem) => return Err(format!("metric `{}`: {problem}", table.name)),
            },
            (None, Stream::Stdout) => table.values(stdout),
            (None, Stream::Stderr) => table.values(stderr),
        };
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
        match table.reduce.of(&values) {
            Some(value) => {
                measured.metrics.insert(name.clone(), value);
            }
            None if table.optional => {}
            None => return Err(format!("no value of metric `{name}` in the output")),
        }
    }
    Ok(Performed { measured, notes })
}

/// Combines what each client's output has. Of an optional metric that a client lacks, there is no
/// value: a sum or a mean of the others would be of another number of clients.
pub(super) fn combined(tables: &[MetricTable], mut each: Vec<Performed>) -> Performed {
    if each.len() == 1 {
        return each.remove(0);
    }
    let mut measured = Measured::default();
    let mut notes = Vec::new();
    for (number, of) in each.iter().enumerate() {
        notes.extend(
            of.notes
                .iter()
                .map(|note| format!("client {number}: {note}")),
        );
    }
    for table in tables {
        let name = &table.name;
        let values = each.iter().filter_map(|it| it.measured.metric(name));
        let values: Vec<f64> = values.collect();
        let (found, all) = (values.len(), each.len());
        match table.across.of(&values) {
            Some(value) if found == all => {
                measured.metrics.insert(name.to_owned(), value);
            }
            Some(_) => notes.push(format!(
                "metric `{name}` has no value, because only {found} of {all} clients have one"
            )),
            None => {}
        }
    }
    Performed { measured, notes }
}

pub(super) fn check(tables: &[MetricTable], beside: &[&str]) -> Result<(), Violation> {
    const TABLE: &str = "[[metric]]";
    for (nth, table) in tables.iter().enumerate() {
        let violation = |key, problem: String| Err(Violation::new(TABLE, nth, key, problem));
        let is_again = tables[..nth].iter().any(|it| it.name == table.name);
        if table.name.is_empty() || !table.name.chars().all(placeholder::is_in_name) || is_again {
            let problem = "must be letters, digits, `.`, `_` or `-`, and of no other metric";
            return violation("name", problem.to_owned());
        }
        if let Some(from) = &table.from {
            if !beside.contains(&from.as_str()) {
                let near = crate::error::suggestion(from, beside.iter().copied());
                let problem = format!("has `{from}`, which is no [[beside]] process{near}");
                return violation("from", problem);
            }
            if table.of != Stream::Stdout || table.across != Reduce::Mean {
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

    fn measured(tables: &[MetricTable], output: &str) -> Result<Performed, String> {
        let file = |path: &str| match path {
            "there" => Ok("{\"c\": 8}".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        super::measured(tables, output, "", &file)
    }

    fn table(text: &str) -> MetricTable {
        toml::from_str(&format!("name = \"x\"\nunit = \"s\"\n{text}")).unwrap()
    }

    fn value(text: &str, output: &str) -> Result<f64, String> {
        let performed = measured(&[table(text)], output)?;
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
        // A count of nothing is 0, and a sum of nothing no value.
        assert_eq!(value("regex = '(x)'\nreduce = \"count\"", text), Ok(0.0));
        assert!(value("regex = '(x)'\nreduce = \"sum\"", text).is_err());
        // A comma is no decimal point.
        let missing = Err("no value of metric `x` in the output".to_owned());
        assert_eq!(value("regex = 'took ([0-9,]+) s'", "took 1,5 s\n"), missing);
        assert_eq!(
            value("regex = 'took ([0-9,.]+) s'", "took 12,204.5 s\n"),
            Ok(12_204.5)
        );
        let whole =
            "{\n \"a\": [\n [50, 1],\n [99.9, 2] ],\n \"b\": [{\"of\": \"x\", \"v\": 3}]\n}\n";
        assert_eq!(value("json = \"a.[0=99.9].1\"", whole), Ok(2.0));
        assert_eq!(value("json = \"b.[of=x].v\"", whole), Ok(3.0));
        assert_eq!(
            value("json = \"c\"", lines),
            Err("no value of metric `x` in the output".to_owned())
        );
        assert_eq!(value("json = \"c\"\nfile = \"there\"", lines), Ok(8.0));
        let missing = Err("metric `x`: no such file".to_owned());
        assert_eq!(value("json = \"c\"\nfile = \"gone\"", lines), missing);
        let optional = measured(&[table("json = \"c\"\noptional = true")], lines).unwrap();
        assert!(optional.measured.metrics.is_empty());
    }

    #[test]
    fn several_values_of_either_output_become_one() {
        #[rustfmt::skip]
        let table_of = [("first", 5.0), ("last", 1.0), ("mean", 4.0), ("median", 3.0), ("min", 1.0), ("max", 9.0), ("sum", 16.0), ("count", 4.0)];
        for (reduce, expected) in table_of {
            let text = format!("regex = '^v ([0-9]+)'\nreduce = \"{reduce}\"");
            assert_eq!(
                value(&text, "v 5\nv 1\nv 9\nv 1\n"),
                Ok(expected),
                "{reduce}"
            );
        }
        assert_eq!(value("json = \"late\"", "{\"late\": true}"), Ok(1.0));
        let warnings = table("regex = '([0-9]+) warnings'\nof = \"stderr\"");
        let none = |_: &str| Err(String::new());
        let found = super::measured(&[warnings], "7 warnings", "2 warnings", &none).unwrap();
        assert_eq!(found.measured.metric("x"), Some(2.0));
    }

    #[test]
    fn every_value_counts_even_if_the_series_is_not_kept_in_full() {
        let output = "v 1\n".repeat(limits::SERIES_LEN) + "v 2\n";
        let last = table("regex = 'v ([0-9])'\nseries = true");
        let performed = measured(&[last], &output).unwrap();
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
    fn matches_that_are_no_finite_number_are_noted() {
        let any = table("regex = 'v (.*)'\nreduce = \"sum\"");
        let performed = measured(&[any], "v 1\nv nan\nv inf\nv 1.2.3\nv 2\n").unwrap();
        assert_eq!(performed.measured.metrics["x"], 3.0);
        assert_eq!(
            performed.notes,
            ["matches of metric `x` that are no finite number and do not count: 3"]
        );
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
