//! The trials at one value of `x`: each of them, and all as one value, the median with its interval
//! and how it counts.

use super::dimension::Dimension;
use crate::cell::CONFIDENCE;
use crate::chart::mark::State;
use crate::record::{Factors, Measured, Record, names};

/// The trials at one value of `x`.
#[derive(Debug, Clone)]
pub(super) struct Point<'a> {
    /// The indices of its curve, and of its place among the labels of the panel.
    pub(super) curve: usize,
    pub(super) slot: usize,
    /// The factors of its first cell.
    pub(super) factors: &'a Factors,
    /// Its `x`: the median of the values that are known. None: none is.
    pub(super) at: Option<f64>,
    /// The measured trials, by cell and repeat.
    pub(super) trials: Vec<Trial<'a>>,
    /// Trials that were expected.
    pub(super) planned: u32,
}

impl Point<'_> {
    /// Expected trials without a measurement.
    pub(super) fn missing(&self) -> u32 {
        self.planned.saturating_sub(self.trials.len() as u32)
    }
}

/// A measured trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) record: &'a Record,
    pub(super) measured: &'a Measured,
    /// Its number among the trials of the point that were expected, from 0.
    pub(super) number: u32,
}

impl Trial<'_> {
    /// How the value of a metric counts.
    pub(super) fn state(self, metric: &str) -> State {
        let reason = |it: &str| it.to_owned();
        match (self.measured.failing(), self.measured.invalid(metric)) {
            (Some(failing), _) => State::Failing(reason(failing)),
            (None, Some(invalid)) => State::Grey(reason(invalid)),
            (None, None) => State::Counts,
        }
    }

    /// Whether the true value may be higher: it is flagged, or it is a latency of a trial in which
    /// requests failed.
    pub(super) fn is_bound(self, of: Dimension) -> bool {
        let Dimension::Metric(metric) = of else {
            return false;
        };
        let is_latency = metric.bounded.is_some() || metric.name.starts_with(names::RESPONSE);
        let is_failing = self.measured.failing().is_some();
        self.measured.is_lower_bound(&metric.name) || (is_latency && is_failing)
    }
}

/// The trials that count, and how they do. Where any fails, these count too; where most are grey,
/// the others would be a biased sample, so all are shown, grey.
pub(super) fn counting<'a>(trials: &[Trial<'a>], metric: &str) -> (Vec<Trial<'a>>, State) {
    let is_grey = |it: &Trial| matches!(it.state(metric), State::Grey(_));
    let (grey, sound): (Vec<Trial>, Vec<_>) = trials.iter().copied().partition(is_grey);
    let mut states = sound.iter().map(|it| it.state(metric));
    let failing = states.find(|it| *it != State::Counts);
    match (failing, grey.first()) {
        (Some(failing), _) => (sound, failing),
        (None, Some(of)) if grey.len() > sound.len() => (trials.to_vec(), of.state(metric)),
        _ => (sound, State::Counts),
    }
}

/// A point as one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// The median of [`counting`].
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) confidence: f64,
    /// The number of values in it.
    pub(super) trials: usize,
    pub(super) state: State,
    /// The true value may be higher, or the high end may be.
    pub(super) is_bound: bool,
    pub(super) is_open: bool,
}

impl Summary {
    /// None: there is no value.
    pub(super) fn of(point: &Point, of: Dimension) -> Option<Self> {
        let is_measured = matches!(of, Dimension::Metric(_));
        let value = |it: &Trial| of.of_record(it.record).filter(|_| is_measured);
        let trials = point.trials.iter().copied();
        let valued: Vec<Trial> = trials.filter(|it| value(it).is_some()).collect();
        // A value that was measured but does not count is not replaced by the planned one.
        if valued.is_empty() {
            let value = of.of_factors(point.factors)?;
            return Some(Self {
                value,
                low: value,
                high: value,
                confidence: 1.0,
                trials: 0,
                state: State::Counts,
                is_bound: false,
                is_open: false,
            });
        }
        let (trials, state) = counting(&valued, of.name());
        let mut values: Vec<f64> = trials.iter().filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        let bounds = trials.iter().filter(|it| it.is_bound(of));
        let bounds: Vec<f64> = bounds.filter_map(value).collect();
        let is_at = |statistic: f64| bounds.iter().any(|&bound| bound <= statistic);
        let estimate = measure::median_of_trials(&values, CONFIDENCE)?;
        Some(Self {
            value: estimate.value,
            low: estimate.interval.low,
            high: estimate.interval.high,
            confidence: estimate.interval.confidence,
            trials: values.len(),
            state,
            is_bound: is_at(values[values.len() / 2]),
            is_open: is_at(estimate.interval.high),
        })
    }

    pub(super) fn counts(&self) -> bool {
        self.state == State::Counts
    }

    /// Whether several trials give it an interval.
    pub(super) fn is_spread(&self) -> bool {
        self.trials > 1
    }
}
