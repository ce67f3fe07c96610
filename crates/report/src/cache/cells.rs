//! The trials of a run, grouped by server, rate and setting.

use crate::cache::Run;
use crate::cache::folder::{
    Cost, LowerBounds, Measurement, Outcome, Phase, Quantiles, Sweep, Trial,
};
pub(crate) use crate::figures::Spread;

/// All the trials of one server at one offered rate under one setting.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'a> {
    /// Value of the varied parameter. None: nothing is varied.
    pub(crate) setting: Option<f64>,
    /// Offered ÷ that server's capacity, where the sweep is in load levels.
    pub(crate) level: Option<f64>,
    /// Median of the offered rates. None: no trial of the cell records one.
    pub(crate) offered_rps: Option<f64>,
    /// The measured trials, ordered by repeat.
    pub(crate) measured: Vec<(&'a Trial, &'a Measurement)>,
    /// Trials in the plan.
    pub(crate) planned: u32,
}

impl<'a> Cell<'a> {
    /// One cell of a server, measured or not.
    pub(crate) fn of(run: &'a Run, server: &str, index: u32) -> Self {
        let plan = &run.plan;
        let mut trials: Vec<&Trial> = run
            .trials
            .iter()
            .filter(|t| t.phase == Phase::Sweep && t.server == server && t.cell == index)
            .collect();
        trials.sort_by_key(|trial| trial.repeat);
        let (setting, rate) = plan.setting_and_rate(index);
        let planned_rps = match &plan.sweep {
            Sweep::LoadLevels(_) => None,
            Sweep::Rates(rates) => rates.get(rate as usize).copied(),
        };
        let offered = Spread::of(trials.iter().filter_map(|trial| trial.offered_rps));
        Self {
            setting: plan.setting_value(setting),
            level: plan.level(index),
            offered_rps: offered.map(|offered| offered.median).or(planned_rps),
            measured: trials.into_iter().filter_map(measured).collect(),
            planned: plan.repeats,
        }
    }

    /// Spread of `value` over the measured repeats.
    pub(crate) fn spread(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Option<Spread> {
        Spread::of(
            self.measured
                .iter()
                .filter_map(|(_, measured)| value(measured)),
        )
    }

    /// `value` of each measured repeat.
    pub(crate) fn values(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Vec<f64> {
        let values = self.measured.iter().filter_map(|(_, m)| value(m));
        values.filter(|value| value.is_finite()).collect()
    }

    /// Whether the median of a percentile of response time is a lower bound, and whether the
    /// maximum is: see [`is_lower_bound`].
    pub(crate) fn lower_bounds(&self, percentile: Percentile) -> (bool, bool) {
        lower_bounds(self.measured.iter().map(|(_, m)| *m), percentile)
    }

    /// `value` of each repeat that is not generator-limited.
    pub(crate) fn unlimited(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Vec<f64> {
        self.measured
            .iter()
            .filter(|(_, measured)| !measured.generator_limited)
            .filter_map(|(_, measured)| value(measured))
            .filter(|value| value.is_finite())
            .collect()
    }

    /// Number of generator-limited repeats.
    pub(crate) fn limited(&self) -> u32 {
        let limited = self
            .measured
            .iter()
            .filter(|(_, m)| m.generator_limited)
            .count();
        u32::try_from(limited).unwrap_or(u32::MAX)
    }

    /// More than half of the repeats are generator-limited. The rest are a biased sample, so
    /// nothing is concluded from them.
    pub(crate) fn mostly_limited(&self) -> bool {
        2 * self.limited() as usize > self.measured.len()
    }

    /// Repeats without a measurement.
    pub(crate) fn missing(&self) -> u32 {
        self.planned
            .saturating_sub(u32::try_from(self.measured.len()).unwrap_or(u32::MAX))
    }
}

/// A trial with its measurement, where it has one.
pub(crate) fn measured(trial: &Trial) -> Option<(&Trial, &Measurement)> {
    match &trial.outcome {
        Outcome::Measured(measurement) => Some((trial, measurement)),
        Outcome::Failed(_) => None,
    }
}

/// A percentile of response time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percentile {
    pub(crate) of: fn(&Quantiles) -> u64,
    is_lower_bound: fn(&LowerBounds) -> bool,
}

pub(crate) const P50: Percentile = Percentile {
    of: |response| response.p50,
    is_lower_bound: |bounds| bounds.p50,
};
pub(crate) const P99: Percentile = Percentile {
    of: |response| response.p99,
    is_lower_bound: |bounds| bounds.p99,
};
pub(crate) const P999: Percentile = Percentile {
    of: |response| response.p999,
    is_lower_bound: |bounds| bounds.p999,
};

impl Percentile {
    /// Nanoseconds.
    pub(crate) fn value_ns(self, measured: &Measurement) -> Option<f64> {
        measured
            .response
            .map(|response| (self.of)(&response) as f64)
    }
}

/// Whether a percentile of response time is a lower bound: requests that were never answered may
/// lie above it.
pub(crate) fn is_lower_bound(measured: &Measurement, percentile: Percentile) -> bool {
    (percentile.is_lower_bound)(&measured.response_bounds())
}

/// Whether the (median, maximum) over some trials is a lower bound. The median is exact if all
/// lower bounds lie above it, because the true values can only be higher.
pub(crate) fn lower_bounds<'m>(
    trials: impl Iterator<Item = &'m Measurement>,
    percentile: Percentile,
) -> (bool, bool) {
    let (mut values, mut bounds) = (Vec::new(), Vec::new());
    for measured in trials {
        let Some(value) = percentile.value_ns(measured) else {
            continue;
        };
        values.push(value);
        if is_lower_bound(measured, percentile) {
            bounds.push(value);
        }
    }
    values.sort_by(f64::total_cmp);
    let Some(&upper_middle) = values.get(values.len() / 2) else {
        return (false, false);
    };
    let median = bounds.iter().any(|&bound| bound <= upper_middle);
    (median, !bounds.is_empty())
}

/// The 99th percentile of response time, nanoseconds.
pub(crate) fn p99_ns(measured: &Measurement) -> Option<f64> {
    measured.response.map(|response| response.p99 as f64)
}

/// Processor time of the server per request, nanoseconds.
pub(crate) fn cpu_ns(measured: &Measurement) -> Option<f64> {
    measured.cost.map(|cost| cost.cpu_ns_per_request)
}

/// Processor time of the server per request in user mode, nanoseconds.
pub(crate) fn user_ns(measured: &Measurement) -> Option<f64> {
    cpu_part(measured, |cost| cost.user_ns)
}

/// Processor time of the server per request in the kernel, nanoseconds.
pub(crate) fn system_ns(measured: &Measurement) -> Option<f64> {
    cpu_part(measured, |cost| cost.system_ns)
}

/// User or system part of the processor time per request, by its share of the total.
fn cpu_part(measured: &Measurement, part: fn(&Cost) -> u64) -> Option<f64> {
    let cost = measured.cost?;
    let total = cost.user_ns + cost.system_ns;
    (total > 0).then(|| cost.cpu_ns_per_request * part(&cost) as f64 / total as f64)
}
