//! The trials of a point as one value: its median and interval, and how it counts.

use super::dimension::Dimension;
use super::panel::{Point, Trial};
use crate::cell::CONFIDENCE;
use crate::chart::mark::State;
use crate::record::{Fault, FaultClass, Measured, names};

/// Median, minimum and maximum of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// None of no values; values that are not finite are ignored.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values = values.into_iter().filter(|value| value.is_finite());
        let values: Vec<f64> = values.collect();
        Some(Self {
            median: measure::median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }
}

/// A point as one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// The median of what counts; where that is a minority, of all; where trials fail, of these
    /// too.
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) confidence: f64,
    /// The number of values in it.
    pub(super) trials: usize,
    pub(super) state: State,
    /// The true value may be higher.
    pub(super) is_bound: bool,
    /// The high end may be.
    pub(super) is_open: bool,
}

impl Summary {
    /// None: there is no value.
    pub(super) fn of(point: &Point, of: Dimension) -> Option<Self> {
        let Dimension::Metric(metric) = of else {
            let value = of.of_factors(point.factors)?;
            return Some(Self::whole(value, State::Counts));
        };
        let (mut sound, mut all, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        let (mut grey, mut failing) = (None, None);
        for trial in &point.trials {
            let Some(value) = of.of_record(trial.record) else {
                continue;
            };
            all.push(value);
            match state(trial.measured, &metric.name) {
                State::Grey(reason) => {
                    grey.get_or_insert(reason);
                    continue;
                }
                State::Failing(reason) => {
                    failing.get_or_insert(reason);
                }
                _ => {}
            }
            sound.push(value);
            if is_bound(trial.measured, of) {
                bounds.push(value);
            }
        }
        // A value that was measured but does not count is not replaced by the planned one.
        if all.is_empty() {
            let planned = of.of_factors(point.factors)?;
            return Some(Self::whole(planned, State::Counts));
        }
        let (values, state) = match (failing, grey) {
            (Some(reason), _) => (sound, State::Failing(reason)),
            // The others would be a biased sample.
            (None, Some(reason)) if 2 * sound.len() < all.len() => (all, State::Grey(reason)),
            _ => (sound, State::Counts),
        };
        let estimate = measure::median_of_trials(&values, CONFIDENCE)?;
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let is_at = |statistic: f64| bounds.iter().any(|&bound| bound <= statistic);
        Some(Self {
            low: estimate.interval.low,
            high: estimate.interval.high,
            confidence: estimate.interval.confidence,
            trials: sorted.len(),
            is_bound: is_at(sorted[sorted.len() / 2]),
            is_open: is_at(estimate.interval.high),
            ..Self::whole(estimate.value, state)
        })
    }

    fn whole(value: f64, state: State) -> Self {
        Self {
            value,
            low: value,
            high: value,
            confidence: 1.0,
            trials: 0,
            state,
            is_bound: false,
            is_open: false,
        }
    }

    pub(super) fn counts(&self) -> bool {
        self.state == State::Counts
    }

    /// Whether several trials give it an interval.
    pub(super) fn is_spread(&self) -> bool {
        self.trials > 1
    }
}

/// How the value of a metric in a trial counts.
pub(super) fn state(measured: &Measured, metric: &str) -> State {
    let invalid = measured
        .flags
        .get(metric)
        .and_then(|it| it.invalid.as_ref());
    match (&measured.fault, invalid) {
        (Some(Fault { class, reason }), _) => match class {
            FaultClass::Failing => State::Failing(reason.clone()),
            FaultClass::Invalid | FaultClass::Instrument => State::Grey(reason.clone()),
        },
        (None, Some(reason)) => State::Grey(reason.clone()),
        (None, None) => State::Counts,
    }
}

/// The trials that count, or all if most do not; and how they do.
pub(super) fn counting<'a>(trials: &[Trial<'a>], metric: &str) -> (Vec<Trial<'a>>, State) {
    let states = trials.iter().map(|it| (*it, state(it.measured, metric)));
    let (grey, sound): (Vec<_>, Vec<_>) = states.partition(|it| matches!(it.1, State::Grey(_)));
    if grey.len() > sound.len() {
        return (trials.to_vec(), grey[0].1.clone());
    }
    let failing = sound.iter().find(|it| it.1 != State::Counts);
    let state = failing.map(|it| it.1.clone()).unwrap_or_default();
    (sound.into_iter().map(|it| it.0).collect(), state)
}

/// Whether the true value may be higher: it is flagged, or it is a latency of a trial in which
/// requests failed.
pub(super) fn is_bound(measured: &Measured, of: Dimension) -> bool {
    let Dimension::Metric(metric) = of else {
        return false;
    };
    let is_latency = metric.bounded.is_some() || metric.name.starts_with(names::RESPONSE);
    let is_failing = matches!(&measured.fault, Some(it) if it.class == FaultClass::Failing);
    measured.is_lower_bound(&metric.name) || (is_latency && is_failing)
}
