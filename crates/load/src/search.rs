//! The search for the sustained throughput: the highest offered rate at which a server keeps the
//! latency objectives.
//!
//! [`measure::Search`] chooses the rate of each trial. A trial is a [`run()`] at this rate. All
//! trials use the same records, but each has a different schedule. [`judge()`] turns the summary of
//! a trial into a verdict. This module makes the trials and collects the result.

mod judge;
mod objective;
mod text;

use measure::{Search, SearchOptions, Sustained, Verdict};
use serde::{Deserialize, Serialize};
use sys::clock::monotonic_ns;

pub use judge::{Criteria, JudgedLatency, Judgement, judge};
pub use objective::{Figure, Objective, ObjectiveError};
pub use text::{result, trial_line};

use crate::config::{Config, ConfigError, Rate};
use crate::error::Error;
use crate::limits::{OBJECTIVES_MAX, SEARCH_RATE_RPS_MAX};
use crate::run::run;
use crate::second::Second;
use crate::summary::Summary;

/// The version of the JSON schema of [`SearchResult`].
pub const SCHEMA: &str = "curtail.search/1";

/// The settings of a search. The settings of the trials are in a [`Config`], whose rate is that of
/// the first trial.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchConfig {
    /// The criteria that a trial must meet.
    pub criteria: Criteria,
    /// The maximum number of trials.
    pub trials_max: usize,
    /// The search narrows an interval that contains the sustained throughput. The search ends once
    /// the width of the interval, divided by its lower end, is at most this number.
    pub resolution: f64,
    /// The confidence with which the interval contains the sustained throughput.
    pub confidence: f64,
}

impl SearchConfig {
    /// Returns the default settings for these objectives: at most 0.1 % failures, at most 40
    /// trials, and an interval of 10 % at 95 % confidence. A search of a server with little noise
    /// takes some 25 trials. In 40 trials, nearly all searches of noisy servers find an interval
    /// too, as shown by the simulations in `crates/measure/src/search/tests.rs`.
    #[must_use]
    pub fn new(objectives: Vec<Objective>) -> Self {
        Self {
            criteria: Criteria {
                objectives,
                failures_max: 0.001,
            },
            trials_max: 40,
            resolution: 0.1,
            confidence: 0.95,
        }
    }

    /// Checks these settings together with `config`, the settings of the trials.
    ///
    /// # Errors
    /// The rate of the load cannot be set freely, as for a script or a closed loop, or there are
    /// too few or too many objectives.
    pub fn validate(&self, config: &Config) -> Result<(), ConfigError> {
        // The lines of a script may have fixed times. Besides, a script on standard input can be
        // read for a single trial only.
        if config.script.is_some() {
            let fault = "its lines do not follow the rate of a trial; leave out --slo, or describe \
                         the load with --mix";
            return Err(ConfigError::new("--script", fault.to_owned()));
        }
        options(config, self).map(drop)
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The version of the schema: [`SCHEMA`].
    pub schema: String,
    /// The objectives as text, such as `p99 ≤ 500 µs`.
    pub objectives: Vec<String>,
    /// The greatest share of requests that may fail.
    pub failures_max: f64,
    /// The settings of the search.
    pub options: SearchOptions,
    /// The sustained throughput.
    pub sustained: Sustained,
    /// The criterion that limits the throughput: the most frequent worst criterion of the broken
    /// trials near the sustained throughput. The worst criterion of a trial is the one whose bound
    /// is exceeded by the greatest factor. None: no trial is broken.
    pub binding: Option<String>,
    /// The share of the records that were resident after the prefill. None: there was no prefill.
    pub resident: Option<f64>,
    /// All trials, in order.
    pub trials: Vec<TrialResult>,
}

/// The result of one trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// The number of the trial, from 1. It is also the [`Config::repeat`] of the trial's schedule.
    pub number: usize,
    /// The offered rate.
    pub rate_rps: f64,
    /// The duration of the trial, from the opening of its connections to its end.
    pub elapsed_ns: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons of the verdict. None: the run failed.
    pub judgement: Option<Judgement>,
    /// Why the run failed. None: it did not fail.
    pub error: Option<String>,
    /// The measurements. None: the run failed.
    pub summary: Option<Summary>,
}

/// An event of a search in progress.
#[derive(Debug, Clone, Copy)]
pub enum SearchEvent<'a> {
    /// A trial begins. The fields are its number and its rate in requests per second.
    Begin(usize, f64),
    /// A second of the trial has passed.
    Second(&'a Second),
    /// A trial has ended. The second field is an estimate, in nanoseconds, of the longest time that
    /// the rest of the search takes.
    Trial(&'a TrialResult, u64),
}

/// Makes trials until [`measure::Search`] has found the sustained throughput or gives up, and
/// returns the result. `on_event` is called with each event as it happens.
///
/// # Errors
/// A setting is invalid, or the first run fails for any reason except the loss of all connections:
/// such a reason does not depend on the rate. Any other failure of a run is not an error of the
/// search, but is recorded as a failed trial.
pub fn search(
    config: &Config,
    search_config: &SearchConfig,
    mut on_event: impl FnMut(SearchEvent<'_>),
) -> Result<SearchResult, Error> {
    config.validate()?;
    search_config.validate(config)?;
    let mut search = Search::new(options(config, search_config)?)
        .map_err(|error| ConfigError::search(error.to_string()))?;
    let criteria = &search_config.criteria;
    let mut trials = Vec::new();
    while let Some(rate_rps) = search.next_rps() {
        let number = trials.len() + 1;
        on_event(SearchEvent::Begin(number, rate_rps));
        let mut config = config.clone();
        config.rate = Rate::PerSecond(rate_rps);
        // All trials have the same seed and therefore the same records. Each trial has its own
        // repeat number and therefore its own schedule.
        config.repeat = number as u64;
        let started_ns = monotonic_ns();
        let ended = run(&config, |second| on_event(SearchEvent::Second(second)));
        let elapsed_ns = monotonic_ns() - started_ns;
        let trial = match ended {
            Ok(summary) => TrialResult::measured(number, rate_rps, elapsed_ns, summary, criteria),
            Err(error) if number == 1 && !matches!(error, Error::AllLost { .. }) => {
                return Err(error);
            }
            Err(error) => TrialResult::failed(number, rate_rps, elapsed_ns, &error),
        };
        search.record(trial.verdict);
        trials.push(trial);
        if let Some(trial) = trials.last() {
            on_event(SearchEvent::Trial(trial, time_left_ns(&search, &trials)));
        }
    }
    let sustained = search.sustained();
    Ok(SearchResult {
        schema: SCHEMA.to_owned(),
        objectives: criteria
            .objectives
            .iter()
            .map(ToString::to_string)
            .collect(),
        failures_max: criteria.failures_max,
        options: *search.options(),
        binding: binding(&trials, &sustained),
        sustained,
        // A caller that has prefilled the server sets this field.
        resident: None,
        trials,
    })
}

/// Returns an estimate of the longest time that the rest of the search takes: the maximum number of
/// further trials, multiplied by the mean duration of the trials so far.
fn time_left_ns(search: &Search, trials: &[TrialResult]) -> u64 {
    let trials_left = match search.next_rps() {
        Some(_) => search.options().trials_max.saturating_sub(trials.len()) as u64,
        None => 0,
    };
    let elapsed_ns: u64 = trials.iter().map(|trial| trial.elapsed_ns).sum();
    trials_left * (elapsed_ns / trials.len().max(1) as u64)
}

/// Returns the options of [`measure::Search`]. The lowest rate to try is the rate at which a trial
/// has enough requests to judge every objective.
fn options(config: &Config, search_config: &SearchConfig) -> Result<SearchOptions, ConfigError> {
    let objectives = &search_config.criteria.objectives;
    if objectives.is_empty() || objectives.len() > OBJECTIVES_MAX {
        let count = objectives.len();
        let fault = format!("{count} latency objectives; give 1 to {OBJECTIVES_MAX}");
        return Err(ConfigError::search(fault));
    }
    let Rate::PerSecond(start_rps) = config.rate else {
        let fault = "a closed loop has no offered rate to search for; give the first rate, such as \
                     20k";
        return Err(ConfigError::search(fault.to_owned()));
    };
    let requests_min = objectives
        .iter()
        .map(Objective::requests_min)
        .fold(0.0, f64::max);
    let floor_rps = requests_min * 1e9 / config.duration_ns as f64;
    Ok(SearchOptions {
        start_rps: start_rps.clamp(floor_rps, SEARCH_RATE_RPS_MAX.max(floor_rps)),
        floor_rps,
        ceiling_rps: SEARCH_RATE_RPS_MAX.max(floor_rps),
        resolution: search_config.resolution,
        confidence: search_config.confidence,
        trials_max: search_config.trials_max,
    })
}

impl TrialResult {
    /// Judges a trial by its summary, and returns its result.
    fn measured(
        number: usize,
        rate_rps: f64,
        elapsed_ns: u64,
        summary: Summary,
        criteria: &Criteria,
    ) -> Self {
        let judgement = judge(&summary, criteria);
        Self {
            number,
            rate_rps,
            elapsed_ns,
            verdict: judgement.verdict,
            judgement: Some(judgement),
            error: None,
            summary: Some(summary),
        }
    }

    /// Returns the result of a trial whose run failed.
    fn failed(number: usize, rate_rps: f64, elapsed_ns: u64, error: &Error) -> Self {
        Self {
            number,
            rate_rps,
            elapsed_ns,
            verdict: Verdict::Failed,
            judgement: None,
            error: Some(format!("failed to {error}")),
            summary: None,
        }
    }
}

/// Returns the criterion that limits the throughput: the most frequent worst criterion of the
/// broken trials near the sustained throughput. Trials at much higher rates are ignored, because
/// every criterion is broken at those rates.
fn binding(trials: &[TrialResult], sustained: &Sustained) -> Option<String> {
    let broken = || {
        trials
            .iter()
            .filter(|trial| trial.verdict == Verdict::Broken)
    };
    let lowest_rps = broken().map(|trial| trial.rate_rps).reduce(f64::min)?;
    // The bound is at least the lowest broken rate, so that at least one trial counts as near.
    let near_max_rps = sustained
        .high_rps
        .map_or(lowest_rps, |high| high.max(lowest_rps));
    let near = broken().filter(|trial| trial.rate_rps <= near_max_rps);
    let worst_of_each = near.filter_map(|trial| trial.judgement.as_ref()?.worst.as_deref());
    let names: Vec<&str> = worst_of_each.collect();
    let count = |name: &str| names.iter().filter(|other| **other == name).count();
    names
        .iter()
        .max_by_key(|name| count(name))
        .map(|name| (*name).to_owned())
}

impl SearchResult {
    /// Whether the search found at least one end of the interval that contains the sustained
    /// throughput.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        self.sustained.low_rps.is_some() || self.sustained.high_rps.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_with_a_script_is_refused_before_a_trial() {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        config.script = Some("-".into());
        let search_config = SearchConfig::new(vec!["p99=1ms".parse().unwrap()]);
        let error = search(&config, &search_config, |_| panic!("a trial begins")).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("--script: "), "{message}");
        assert!(message.contains("leave out --slo"), "{message}");
    }
}
