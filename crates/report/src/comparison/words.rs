//! Comparisons in words.

use super::{Comparison, Comparisons, Effect, Family, Scale, Verdict, has_full_confidence};
use crate::cell::Cell;
use crate::record::{Factor, Metric, Unit, Value};
use crate::units;

/// A value of a factor as an adverbial: `for curtail`, `with 16 connections`, `for version b`,
/// `at load level 0.5`.
pub(crate) fn subject(factor: &Factor, value: &Value) -> String {
    let text = || factor.value_text(value);
    match (&factor.phrase, value) {
        (Some(phrase), _) if !phrase.starts_with("{}") => factor.words(value),
        (None, Value::Number(_)) if factor.unit.as_ref().is_some_and(Unit::is_count) => {
            format!("with {} {}", text(), factor.title)
        }
        (None, Value::Number(_)) => format!("at {} {}", factor.title, text()),
        _ => format!("for {}", factor.words(value)),
    }
}

/// The values of these factors in a cell: `for input small and with 16 connections`.
pub(crate) fn place(factors: &[&Factor], cell: &Cell) -> String {
    let values = factors.iter();
    let values = values.filter_map(|factor| Some(subject(factor, cell.value(factor)?)));
    units::listed(&joined(values.collect()))
}

/// The title of a metric within a sentence: `response time (99th percentile)`.
pub(crate) fn title(metric: &Metric) -> String {
    let parts = metric.title.split_once(", ");
    match parts.or_else(|| metric.title.split_once(": ")) {
        Some((head, tail)) => format!("{head} ({tail})"),
        None => metric.title.clone(),
    }
}

/// The verb after a title: `is`, or `are` of several things, such as `requests per second`.
pub(crate) fn is(title: &str) -> &'static str {
    let ends = [
        " of ", " per ", " for ", " in ", " an ", " a ", " from ", " to ", " (", ", ",
    ];
    let head = ends.iter().filter_map(|it| title.find(it)).min();
    let head = &title[..head.unwrap_or(title.len())];
    let is_singular = ["ss", "us", "is"].iter().any(|it| head.ends_with(it));
    match head.ends_with('s') && !is_singular {
        true => "are",
        false => "is",
    }
}

impl Family<'_> {
    /// `0.88 [0.85, 0.91]`, or a difference with its unit: `+3.2 ms [2.9, 3.6]`.
    pub(crate) fn effect(&self, effect: &Effect) -> String {
        let estimate = &effect.estimate;
        let (low, high) = (estimate.interval.low, estimate.interval.high);
        let (value, range) = match self.scale {
            Scale::Ratio => {
                let ratio = Unit::ratio();
                (
                    ratio.words(estimate.value),
                    ratio.range(estimate.value, low, high),
                )
            }
            Scale::Difference => {
                let unit = &self.metric.unit;
                (
                    difference(unit, estimate.value),
                    unit.range(estimate.value, low, high),
                )
            }
        };
        match has_full_confidence(estimate) {
            _ if effect.is_exact || estimate.samples < 2 => value,
            true => format!("{value} {range}"),
            false => {
                let confidence = estimate.interval.confidence * 100.0;
                format!("{value} {range} ({confidence:.0}\u{a0}%)")
            }
        }
    }

    /// The effect without its interval, as in `0.71 to 0.93 times`.
    pub(crate) fn short_effect(&self, value: f64) -> String {
        match self.scale {
            Scale::Ratio => Unit::ratio().words(value),
            Scale::Difference => difference(&self.metric.unit, value),
        }
    }

    /// `better`, `worse`, `undecided`, or why there is no verdict. Only an interval that contains
    /// no effect leaves a comparison undecided.
    pub(crate) fn verdict(&self, comparison: &Comparison) -> String {
        match &comparison.verdict {
            Verdict::Decided(effect) => self.quality(effect).to_owned(),
            Verdict::Undecided(effect, _) if effect.estimate.samples < 2 => "one trial".to_owned(),
            Verdict::Undecided(_, None) => "undecided".to_owned(),
            Verdict::Undecided(_, Some(reason)) => format!("open: {reason}"),
            Verdict::Unknown(reason) => format!("not known: {reason}"),
            Verdict::Fails(reason) => format!("no comparison: {reason}"),
        }
    }

    /// Head of a column of effects: `÷ memcached`, `− 16 connections`.
    pub(crate) fn effect_head(&self, factor: &Factor, baseline: &Value) -> String {
        let sign = match self.scale {
            Scale::Ratio => '÷',
            Scale::Difference => '−',
        };
        format!("{sign} {}", factor.label(baseline))
    }
}

impl Comparisons<'_> {
    /// What differs besides the compared factor, also if that determines it: a difference may be
    /// due to either. `with 4 connections instead of 5 and requests 25 instead of 100`. Empty:
    /// nothing.
    pub(crate) fn differences(&self, comparison: &Comparison, cells: &[Cell]) -> String {
        let Some((of, to)) = cells.get(comparison.of).zip(cells.get(comparison.to)) else {
            return String::new();
        };
        let dependent = self.dependent.iter();
        let told = dependent.filter_map(|it| difference_of(it.factor, of, to));
        units::listed(&joined(told.collect()))
    }

    /// What differs besides the compared factor in any comparison: `with 4 connections instead of 5
    /// in 2 of 6 and with other values of requests`. Empty: nothing.
    pub(crate) fn all_differences(&self, family: &Family, cells: &[Cell]) -> String {
        let all = family.comparisons.len();
        let told = self.dependent.iter().filter_map(|it| {
            let pairs = family.comparisons.iter();
            let pairs = pairs.filter_map(|it| cells.get(it.of).zip(cells.get(it.to)));
            let differences = pairs.filter_map(|(of, to)| difference_of(it.factor, of, to));
            let differences: Vec<String> = differences.collect();
            let first = differences.first()?;
            let words = match differences.iter().all(|other| other == first) {
                true => first.clone(),
                false => format!("with other values of {}", it.factor.title),
            };
            Some(match differences.len() == all {
                true => words,
                false => format!("{words} in {} of {all}", differences.len()),
            })
        });
        units::listed(&told.collect::<Vec<_>>())
    }
}

/// The values of a factor in two cells: `with 4 connections instead of 5`. None: they are equal.
fn difference_of(factor: &Factor, of: &Cell, to: &Cell) -> Option<String> {
    let (of, to) = (of.value(factor), to.value(factor));
    let text = |value: &Value| factor.value_text(value);
    match (of, to) {
        (of, to) if of == to => None,
        (None, to) => Some(format!(
            "without {} instead of {}",
            factor.title,
            to.map(text).unwrap_or_default()
        )),
        (Some(of), to) => {
            let words = subject(factor, of);
            let words = match words.strip_prefix("for ") {
                Some(name) => format!("with {name}"),
                None => words,
            };
            let to = to.map_or("none".to_owned(), text);
            Some(format!("{words} instead of {to}"))
        }
    }
}

/// Clauses without the second and later of repeated prepositions: `with a`, `b` and `without c`.
pub(crate) fn joined(clauses: Vec<String>) -> Vec<String> {
    let mut last = None;
    let clauses = clauses.into_iter().map(|clause| {
        let preposition = clause.split(' ').next().map(str::to_owned);
        let is_repeated = preposition == last && preposition.is_some();
        last = preposition;
        match clause.split_once(' ') {
            Some((_, rest)) if is_repeated => rest.to_owned(),
            _ => clause,
        }
    });
    clauses.collect()
}

/// A difference with its sign and unit.
fn difference(unit: &Unit, value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    let words = unit.words(value);
    // A difference of shares is not a share.
    let words = match unit.as_str() {
        "share" => words.replace('%', "percentage points"),
        _ => words,
    };
    format!("{sign}{words}")
}

#[cfg(test)]
mod tests {
    use super::is;

    #[test]
    fn a_title_of_several_things_has_a_plural_verb() {
        for title in [
            "answered requests",
            "requests per second",
            "bytes an operation",
        ] {
            assert_eq!(is(title), "are", "{title}");
        }
        let titles = [
            "response time (median)",
            "energy of 30 s",
            "throughput",
            "analysis of x",
        ];
        for title in titles {
            assert_eq!(is(title), "is", "{title}");
        }
    }
}
