//! The trials of a run, grouped by cell, and the values of a metric in a cell.
//!
//! What counts is decided in [`Values::of`] alone. A value that is flagged, or of a trial whose
//! fault is of the instrument or invalid, does not count. A trial in which the server fails counts
//! against it: its cell has no median, whatever the other trials say, and its values are lower
//! bounds. A trial that was not measured has no value; it is missing, never zero.

use std::collections::HashMap;

use measure::Estimate;

use crate::Run;
use crate::figure::Figure;
use crate::record::{Factor, Factors, Measured, Metric, Plan, Record, Stage, Value};

/// Confidence of every interval. With few trials an interval has less, which is shown.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The trials of one cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'a> {
    /// The values of its factors.
    pub(crate) factors: &'a Factors,
    /// Trials that were expected: of a cell measured until an interval is narrow, those that ended
    /// and at least the least number.
    pub(crate) planned: u32,
    /// The measured trials, by repeat.
    pub(crate) measured: Vec<(&'a Record, &'a Measured)>,
}

/// The values of a metric over the measured trials of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Values {
    /// Those that count, by repeat.
    pub(crate) valid: Vec<f64>,
    /// Those of `valid` that are lower bounds.
    pub(crate) bounds: Vec<f64>,
    /// The number of those that do not count.
    pub(crate) invalid: usize,
    /// Those that do not count, and those of trials in which the server fails.
    pub(crate) left_out: Vec<f64>,
    /// Why the first of those that do not count does not.
    pub(crate) reason: Option<String>,
    /// The number of trials in which the server fails, and why in the first. None: in none.
    pub(crate) failing: Option<(usize, String)>,
}

/// Median, minimum and maximum of the values that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The cells of a stage, in the order of the plan.
pub(crate) fn of_stage<'a>(run: &'a Run, stage: &'a Stage) -> Vec<Cell<'a>> {
    let mut records: HashMap<u32, Vec<&Record>> = HashMap::new();
    for record in run.records.iter().filter(|it| it.stage == stage.name) {
        records.entry(record.cell).or_default().push(record);
    }
    let cell = |(index, factors): (u32, &'a Factors)| {
        let mut ended = records.remove(&index).unwrap_or_default();
        ended.sort_by_key(|record| record.repeat);
        let measured = ended.iter().filter_map(|it| Some((*it, it.measured()?)));
        Cell {
            factors,
            planned: stage.repeats.least.max(ended.len() as u32),
            measured: measured.collect(),
        }
    };
    (0u32..).zip(&stage.cells).map(cell).collect()
}

/// The factors of a plan that have several values among the cells of a stage.
pub(crate) fn varied<'a>(plan: &'a Plan, stage: &Stage) -> Vec<&'a Factor> {
    let is_varied = |factor: &&Factor| {
        let mut values = stage.cells.iter().map(|cell| cell.get(&factor.name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    plan.factors.iter().filter(is_varied).collect()
}

/// The metrics in the order of tables and comparisons: that of the answer and those of the figures
/// first, since the experiment is about them, then the others in the order of the plan.
pub(crate) fn metrics(plan: &Plan) -> Vec<&Metric> {
    let mut metrics: Vec<&Metric> = Vec::new();
    let drawn = plan.figures.iter().flat_map(Figure::drawn);
    let answer = plan.answer.iter().map(|it| &it.metric);
    // A distribution stands for its 99th percentile, or for the first that there is.
    let known = |name: &String| {
        let mut percentiles = ["_p99_", "_p"].into_iter();
        let of = |suffix| {
            let prefix = format!("{name}{suffix}");
            plan.metrics.iter().find(|it| it.name.starts_with(&prefix))
        };
        plan.metric(name).or_else(|| percentiles.find_map(of))
    };
    let first = answer.chain(drawn).filter_map(known);
    for metric in first.chain(&plan.metrics) {
        if !metrics.iter().any(|other| other.name == metric.name) {
            metrics.push(metric);
        }
    }
    metrics
}

/// The metrics of which a cell has a value, in the order of [`metrics`].
pub(crate) fn measured<'a>(plan: &'a Plan, cells: &[Cell]) -> Vec<&'a Metric> {
    let is_measured = |metric: &&Metric| {
        let mut values = cells.iter().map(|cell| cell.values(&metric.name));
        values.any(|values| values.count() > 0)
    };
    metrics(plan).into_iter().filter(is_measured).collect()
}

impl<'a> Cell<'a> {
    /// The values of a metric, or of a setting that follows from earlier trials.
    pub(crate) fn values(&self, metric: &str) -> Values {
        Values::of(self.measured.iter().copied(), metric)
    }

    /// Expected trials without a measurement.
    pub(crate) fn missing(&self) -> u32 {
        self.planned.saturating_sub(self.measured.len() as u32)
    }

    /// Its value of a factor. None: the stage does not have that factor.
    pub(crate) fn value(&self, factor: &Factor) -> Option<&'a Value> {
        self.factors.get(&factor.name)
    }
}

impl Values {
    /// The values of a metric, or of a setting that follows from earlier trials, in some trials.
    pub(crate) fn of<'a>(
        trials: impl IntoIterator<Item = (&'a Record, &'a Measured)>,
        metric: &str,
    ) -> Self {
        let mut values = Self::default();
        for (record, measured) in trials {
            // A setting is as it was chosen, whatever became of the trial.
            let is_setting = record.resolved.contains_key(metric);
            let failing = measured.failing().filter(|_| !is_setting);
            if let Some(reason) = failing {
                let first = (0, reason.to_owned());
                values.failing.get_or_insert(first).0 += 1;
            }
            let Some(value) = record.number(metric).filter(|value| value.is_finite()) else {
                continue;
            };
            if let Some(reason) = measured.invalid(metric).filter(|_| !is_setting) {
                values.invalid += 1;
                values.left_out.push(value);
                values.reason.get_or_insert_with(|| reason.to_owned());
                continue;
            }
            values.valid.push(value);
            values.left_out.extend(failing.map(|_| value));
            if failing.is_some() || measured.is_lower_bound(metric) {
                values.bounds.push(value);
            }
        }
        values
    }

    /// All values, counting or not.
    pub(crate) fn count(&self) -> usize {
        self.valid.len() + self.invalid
    }

    /// Whether all that count are above zero, so that they have ratios.
    pub(crate) fn are_positive(&self) -> bool {
        self.valid.iter().all(|&value| value > 0.0)
    }

    /// More than half do not count. The others are then a biased sample.
    pub(crate) fn mostly_invalid(&self) -> bool {
        2 * self.invalid > self.count()
    }

    /// Whether no median passes over them: they are a biased sample, or the server fails.
    fn has_no_median(&self) -> bool {
        self.mostly_invalid() || self.failing.is_some()
    }

    /// The median of what does not count or fails, where there is no other: it is shown, and never
    /// compared.
    pub(crate) fn set_aside(&self) -> Option<f64> {
        match self.has_no_median() {
            true => measure::median(&self.left_out),
            false => None,
        }
    }

    /// Whether all that count are equal, and there are any.
    pub(crate) fn are_equal(&self) -> bool {
        let first = self.valid.first();
        self.invalid == 0 && first.is_some_and(|first| self.valid.iter().all(|it| it == first))
    }

    /// Of the values that count. None: there are none, or they are a biased sample, or the server
    /// fails.
    pub(crate) fn spread(&self) -> Option<Spread> {
        if self.has_no_median() {
            return None;
        }
        Some(Spread {
            median: measure::median(&self.valid)?,
            min: self.valid.iter().copied().reduce(f64::min)?,
            max: self.valid.iter().copied().reduce(f64::max)?,
        })
    }

    /// The median with its interval. None: as [`Values::spread`].
    pub(crate) fn median(&self) -> Option<Estimate> {
        match self.has_no_median() {
            true => None,
            false => measure::median_of_trials(&self.valid, CONFIDENCE),
        }
    }

    /// Whether the median is a lower bound. It is exact if all lower bounds lie above it, because
    /// the true values can only be higher.
    pub(crate) fn is_lower_bound(&self) -> bool {
        let mut sorted = self.valid.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2);
        middle.is_some_and(|&middle| self.is_bound_at(middle))
    }

    /// Whether an order statistic of this value is a lower bound: an end of an interval, say.
    pub(crate) fn is_bound_at(&self, statistic: f64) -> bool {
        self.bounds.iter().any(|&bound| bound <= statistic)
    }
}

#[cfg(test)]
mod tests {
    use super::Values;

    fn values(valid: &[f64], bounds: &[f64], invalid: usize) -> Values {
        Values {
            valid: valid.to_vec(),
            bounds: bounds.to_vec(),
            invalid,
            ..Values::default()
        }
    }

    #[test]
    fn a_median_below_all_lower_bounds_is_exact() {
        assert!(!values(&[1.0, 2.0, 3.0], &[3.0], 0).is_lower_bound());
        assert!(values(&[1.0, 2.0, 3.0], &[2.0], 0).is_lower_bound());
        assert!(!values(&[], &[], 0).is_lower_bound());
        assert!(values(&[1.0, 2.0, 3.0], &[3.0], 0).is_bound_at(3.0));
    }

    #[test]
    fn a_minority_of_the_trials_has_no_median() {
        assert!(values(&[1.0, 2.0], &[], 2).spread().is_some());
        assert_eq!(values(&[1.0, 2.0], &[], 3).spread(), None);
        assert_eq!(values(&[], &[], 0).median(), None);
    }
}
