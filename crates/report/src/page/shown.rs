//! A value with its range, as text.

use std::fmt;

use measure::Estimate;

use crate::cell::Values;
use crate::comparison::has_full_confidence;
use crate::record::Metric;
use crate::units;

/// A value with its range in the same unit, as text.
pub(crate) struct Shown {
    pub(crate) median: String,
    pub(crate) range: String,
    pub(crate) note: String,
}

impl Shown {
    /// A median and its interval, with the confidence if few trials make it low. `≥` marks what
    /// may be higher.
    pub(crate) fn of(metric: &Metric, estimate: &Estimate, values: &Values) -> Self {
        let interval = estimate.interval;
        let range = || {
            let unit = &metric.unit;
            let range = unit.range(estimate.value, interval.low, interval.high);
            units::bounded_range(&range, values.is_bound_at(interval.high))
        };
        let (range, note) = match estimate.samples {
            0 | 1 => ("one trial".to_owned(), String::new()),
            _ if has_full_confidence(estimate) => (range(), String::new()),
            _ => {
                let confidence = interval.confidence * 100.0;
                (range(), format!("({confidence:.0}\u{a0}%)"))
            }
        };
        let bound = units::lower_bound(values.is_lower_bound());
        Self {
            median: format!("{bound}{}", metric.unit.words(estimate.value)),
            range,
            note,
        }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self {
            median: text.to_owned(),
            range: String::new(),
            note: String::new(),
        }
    }

    /// Nothing was measured, or nothing of it counts.
    pub(crate) fn absent() -> Self {
        Self::text("–")
    }
}

impl fmt::Display for Shown {
    /// `2.0 s [1.9, 2.1]`; `2.0 s (one trial)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.median)?;
        match self.range.as_str() {
            "" => {}
            range if range.starts_with('[') => write!(f, " {range}")?,
            range => write!(f, " ({range})")?,
        }
        match self.note.as_str() {
            "" => Ok(()),
            note => write!(f, " {note}"),
        }
    }
}
