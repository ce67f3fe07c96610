//! A value with its range, as text.

use measure::Estimate;

use crate::cell::Values;
use crate::comparison::has_full_confidence;
use crate::record::{Better, Metric};
use crate::units;

/// A value with its range in the same unit, as text.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) median: String,
    pub(crate) range: String,
    pub(crate) note: String,
    /// Why it does not count: it is shown grey. None: it counts.
    pub(crate) out: Option<String>,
}

impl Shown {
    /// A median and its interval, with the confidence if few trials make it low. `≥` marks what
    /// may be higher. One trial, or equal ones, have no interval.
    pub(crate) fn median(metric: &Metric, values: &Values) -> Self {
        let Some(estimate) = values.median() else {
            return Self::set_aside(metric, values);
        };
        let Estimate {
            value, interval, ..
        } = estimate;
        if interval.low == interval.high {
            return Self::counting(metric, values, value);
        }
        let range = metric.unit.range(value, interval.low, interval.high);
        let note = match has_full_confidence(&estimate) {
            true => String::new(),
            false => format!("({:.0}\u{a0}%)", interval.confidence * 100.0),
        };
        Self {
            range: units::bounded_range(&range, values.is_bound_at(interval.high)),
            note,
            ..Self::counting(metric, values, value)
        }
    }

    /// A median with minimum and maximum, and the number of values that count if that is not the
    /// number of trials.
    pub(crate) fn spread(metric: &Metric, values: &Values, measured: usize) -> Self {
        let count = values.valid.len();
        let note = match (values.count(), count) {
            (0, _) => String::new(),
            (_, count) if count == measured => String::new(),
            _ => format!("{count} of {measured} count"),
        };
        let Some(spread) = values.spread() else {
            let aside = Self::set_aside(metric, values);
            let note = if aside.note.is_empty() {
                note
            } else {
                aside.note
            };
            return Self { note, ..aside };
        };
        let range = match spread.min < spread.max {
            true => metric.unit.range(spread.median, spread.min, spread.max),
            false => String::new(),
        };
        Self {
            range: units::bounded_range(&range, !values.bounds.is_empty()),
            note,
            ..Self::counting(metric, values, spread.median)
        }
    }

    fn counting(metric: &Metric, values: &Values, median: f64) -> Self {
        let bound = units::lower_bound(values.is_lower_bound());
        Self::text(&format!("{bound}{}", metric.unit.words(median)))
    }

    /// What does not count, grey; `–` where nothing was measured. Where the server fails, what is
    /// better when lower is so at least.
    fn set_aside(metric: &Metric, values: &Values) -> Self {
        let fails = values.failing.as_ref();
        let out = match (fails, &values.reason) {
            (Some((_, why)), _) => Some(why.clone()),
            (None, reason) => reason.clone(),
        };
        let note = if fails.is_some() { "fails" } else { "" };
        let Some(aside) = values.set_aside() else {
            let text = if fails.is_some() { "fails" } else { "–" };
            return Self {
                out: fails.and(out),
                ..Self::text(text)
            };
        };
        let is_bound = fails.is_some() && metric.better == Better::Lower;
        let bound = units::lower_bound(is_bound);
        Self {
            note: note.to_owned(),
            out,
            ..Self::text(&format!("{bound}{}", metric.unit.words(aside)))
        }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self {
            median: text.to_owned(),
            ..Self::default()
        }
    }

    /// Nothing was measured.
    pub(crate) fn absent() -> Self {
        Self::text("–")
    }
}
