//! The search for the sustained throughput: the highest offered rate that keeps a latency
//! objective.
//!
//! Values in, values out: [`Search`] names the next rate, the caller makes a trial at it and
//! returns its verdict.
//!
//! ```text
//! P(kept) 1 │●──●───●─╮                     ● trials
//!           │         │╲                    the sustained throughput R: half of the trials there
//!       1/2 │─ ─ ─ ─ ─│─R─ ─ ─ ─            keep the objective
//!           │         │ │╲                  low:  the highest rate kept with confidence
//!         0 │        low │╰─●────●          high: the lowest rate broken with confidence
//!           └────────────high──────── rate
//! ```
//!
//! **Definition.** A trial's percentile is a sample, so near R verdicts differ from trial to trial.
//! R is the rate below which a trial keeps the objective with a probability of at least 1/2 and
//! above which with at most 1/2. For long trials this is the rate at which the server's true
//! latency equals the objective.
//!
//! **Which rate is next.**
//!
//! 1. *Bracket*: the rate doubles while trials keep the objective, or halves while they break it.
//! 2. *Bisect*: probabilistic bisection (Horstein, *Sequential transmission using noiseless
//!    feedback*, 1963; Waeber, Frazier & Henderson, *Bisection search with noisy responses*, 2013)
//!    at the median of a belief. A verdict near R is right less often than one far from it, by an
//!    unknown slope, so the Bayesian update averages over slopes (`belief.rs`).
//! 3. *Certify*: trials below and above the estimate, each as close to it as the trials that are
//!    left can be expected to prove, until the interval is as narrow as wanted.
//!
//! **What the interval rests on.** Not on the belief. Both ends are decided by bets against the
//! contrary (`evidence.rs`), which are wrong with a probability of at most (1 − confidence) ÷ 2
//! each, whenever the search stops and however rates were chosen. A bad belief makes the interval
//! wide, not false. Two assumptions remain: the probability to keep the objective does not rise
//! with the rate, and given the rate, trials are independent. Where verdicts contradict the first
//! with confidence, the search ends and says so.
//!
//! **Measured error** (16 500 searches of at most 40 trials at 95 % and a resolution of 10 %, by
//! the simulation of `tests.rs` in release): of M/M/1 servers judged by independent response times,
//! 0 to 0.8 % of the intervals missed R; by successive ones, which are correlated, 0.1 to 1.0 %.
//! Median trials: 24 without noise, 35 with trials of 10 000 requests, 40 with less. The median
//! width was 9 to 32 %, the median error of the estimate 1 to 3 %, and 92 to 100 % had both ends.
//!
//! An invalid trial is recorded and counts against the budget. One that failed says nothing about
//! the server. One that the generator limited may have been kept or broken. What makes it invalid
//! may be its figures, so leaving it out would select trials by their outcome. It therefore counts
//! against both ends: as broken for the lower one, as kept for the upper one, each with a belief of
//! its own. A rate at which three trials were invalid, with no valid one at it or above it, is a
//! *limit*: the search goes on below it, and its answer may be "at least".

mod belief;
mod evidence;
mod outcome;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::limits::{
    SEARCH_BISECTIONS_MAX, SEARCH_INVALID_RUN_MAX, SEARCH_LIMIT_TRIALS, SEARCH_TRIALS_MAX,
};
use belief::Beliefs;
use evidence::{Ends, Evidence, growth_ln};
pub use outcome::{SearchEnd, SearchLimit, Sustained};

/// A trial that agrees with its end with this probability is far enough from the estimate.
const AGREEMENT_MAX: f64 = 0.9;
/// Each end gets half of the trials that are left.
const SHARE_OF_END: f64 = 0.5;
/// The power of (1 + resolution) that is near enough for one end: two such ends and the steps of
/// the grid make less than the resolution.
const NEAR_ENOUGH: f64 = 0.3;

/// What one trial says about its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The objective was kept.
    Kept,
    /// It was not.
    Broken,
    /// The generator was the limit: the server may keep the objective or break it.
    GeneratorLimited,
    /// There is no measurement.
    Failed,
}

impl Verdict {
    /// Whether the trial says something about the server.
    #[must_use]
    pub fn is_valid(self) -> bool {
        matches!(self, Self::Kept | Self::Broken)
    }
}

/// The settings of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchOptions {
    /// The first rate, requests per second.
    pub start_rps: f64,
    /// The lowest rate to try.
    pub floor_rps: f64,
    /// The highest.
    pub ceiling_rps: f64,
    /// The search ends when the interval is at most this wide: 0.05 is `high` = 1.05 × `low`.
    pub resolution: f64,
    /// The confidence of the interval.
    pub confidence: f64,
    /// Trials at most, invalid ones included.
    pub trials_max: usize,
}

/// Settings between which there is nothing to search.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// The rates are not positive and in order.
    #[error("rates from {floor_rps} by way of {start_rps} to {ceiling_rps} are not in order")]
    Rates {
        /// The lowest.
        floor_rps: f64,
        /// The first.
        start_rps: f64,
        /// The highest.
        ceiling_rps: f64,
    },
    /// The resolution is out of bounds.
    #[error("a resolution of {0} is out of bounds; give 0.005 to 1")]
    Resolution(f64),
    /// The confidence is out of bounds.
    #[error("a confidence of {0} is out of bounds; give 0.5 to 0.999")]
    Confidence(f64),
    /// No trials, or too many.
    #[error("{0} trials are out of bounds; give 1 to {SEARCH_TRIALS_MAX}")]
    Trials(usize),
}

/// One trial of a search. Settings and trials together determine the answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// The offered rate.
    pub rate_rps: f64,
    /// What it says.
    pub verdict: Verdict,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    options: SearchOptions,
    trials: Vec<SearchTrial>,
    next: Result<f64, SearchEnd>,
    /// None until a bracket is found.
    refinement: Option<Refinement>,
}

/// The second part of a search: between or beyond the rates of a bracket.
#[derive(Debug, Clone)]
struct Refinement {
    beliefs: Beliefs,
    evidence: Evidence,
    /// The index of the next rate.
    index: usize,
    bisections: usize,
}

impl Search {
    /// A search that has made no trial.
    ///
    /// # Errors
    /// A setting is out of its bounds.
    pub fn new(options: SearchOptions) -> Result<Self, SearchError> {
        let SearchOptions {
            start_rps,
            floor_rps,
            ceiling_rps,
            ..
        } = options;
        let in_order = 0.0 < floor_rps && floor_rps <= start_rps && start_rps <= ceiling_rps;
        if !in_order || !ceiling_rps.is_finite() {
            return Err(SearchError::Rates {
                floor_rps,
                start_rps,
                ceiling_rps,
            });
        }
        if !(0.005..=1.0).contains(&options.resolution) {
            return Err(SearchError::Resolution(options.resolution));
        }
        if !(0.5..=0.999).contains(&options.confidence) {
            return Err(SearchError::Confidence(options.confidence));
        }
        if !(1..=SEARCH_TRIALS_MAX).contains(&options.trials_max) {
            return Err(SearchError::Trials(options.trials_max));
        }
        // Rates that are tried are rounded. An end that is not would never compare equal to them.
        let floor_rps = rounded_up(floor_rps);
        let options = SearchOptions {
            floor_rps,
            start_rps: start_rps.max(floor_rps),
            ceiling_rps: ceiling_rps.max(floor_rps),
            ..options
        };
        Ok(Self {
            options,
            trials: Vec::new(),
            next: Ok(options.start_rps),
            refinement: None,
        })
    }

    /// The rate of the next trial, requests per second. None: the search has ended.
    #[must_use]
    pub fn next_rps(&self) -> Option<f64> {
        self.next.ok()
    }

    /// Records the verdict of the trial at [`Search::next_rps`]. After the end, does nothing.
    pub fn record(&mut self, verdict: Verdict) {
        let Ok(rate_rps) = self.next else {
            return;
        };
        self.trials.push(SearchTrial { rate_rps, verdict });
        if let Some(refinement) = &mut self.refinement {
            refinement.record(verdict);
        }
        self.next = self.plan(rate_rps);
    }

    /// The trials so far.
    #[must_use]
    pub fn trials(&self) -> &[SearchTrial] {
        &self.trials
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> &SearchOptions {
        &self.options
    }

    /// The answer of the trials so far.
    #[must_use]
    pub fn sustained(&self) -> Sustained {
        Sustained::of(self, self.next.err().unwrap_or(SearchEnd::Running))
    }

    /// The rate after that of the last trial, or why there is none.
    fn plan(&mut self, last_rps: f64) -> Result<f64, SearchEnd> {
        let decided = self.refinement.as_ref().and_then(|it| it.decided(self));
        if let Some(end) = decided {
            return Err(end);
        }
        if self.trials.len() >= self.options.trials_max {
            return Err(SearchEnd::Budget);
        }
        let run = self.trials.iter().rev();
        let run = run.take_while(|trial| !trial.verdict.is_valid()).count();
        if run >= SEARCH_INVALID_RUN_MAX {
            return Err(SearchEnd::Invalid);
        }
        let is_limit = self.limit().is_some_and(|limit| limit.rate_rps <= last_rps);
        let must_repeat = match self.trials.last().map(|trial| trial.verdict) {
            Some(Verdict::Failed) => true,
            // With a bracket, such a trial is information.
            Some(Verdict::GeneratorLimited) => self.refinement.is_none(),
            _ => false,
        };
        if must_repeat && !is_limit {
            return Ok(last_rps);
        }
        if self.refinement.is_none() {
            match self.bracket() {
                Bracket::Next(rate_rps) => return Ok(rounded(rate_rps)),
                Bracket::Unknown => return Err(SearchEnd::Invalid),
                Bracket::Found(low_rps, high_rps) => {
                    let resolution = self.options.resolution;
                    let beliefs = Beliefs::of(&self.trials, (low_rps, high_rps), resolution);
                    self.refinement = Some(Refinement {
                        evidence: Evidence::new(beliefs.rates().len()),
                        beliefs,
                        index: 0,
                        bisections: 0,
                    });
                }
            }
        }
        let Some(mut refinement) = self.refinement.take() else {
            return Err(SearchEnd::Invalid);
        };
        let next = refinement.next(self);
        self.refinement = Some(refinement);
        Ok(next)
    }

    /// The step of a search without a bracket.
    fn bracket(&self) -> Bracket {
        let SearchOptions {
            floor_rps,
            ceiling_rps,
            resolution,
            ..
        } = self.options;
        let of = |verdict| self.trials.iter().filter(move |it| it.verdict == verdict);
        let kept_rps = of(Verdict::Kept).map(|it| it.rate_rps).reduce(f64::max);
        let broken_rps = of(Verdict::Broken).map(|it| it.rate_rps).reduce(f64::min);
        let limit_rps = self.limit().map(|limit| limit.rate_rps);
        match (kept_rps, broken_rps, limit_rps) {
            (Some(kept), Some(broken), _) => Bracket::Found(kept.min(broken), kept.max(broken)),
            (Some(kept), None, Some(limit)) if limit > kept * (1.0 + resolution) => {
                Bracket::Next((kept * limit).sqrt())
            }
            (Some(kept), None, None) if kept < ceiling_rps => {
                Bracket::Next((2.0 * kept).min(ceiling_rps))
            }
            (Some(kept), None, _) => Bracket::Found(kept, kept),
            (None, Some(broken), _) if broken > floor_rps => {
                Bracket::Next((broken / 2.0).max(floor_rps))
            }
            (None, Some(broken), _) => Bracket::Found(broken, broken),
            (None, None, Some(limit)) if limit > floor_rps => {
                Bracket::Next((limit / 2.0).max(floor_rps))
            }
            (None, None, _) => Bracket::Unknown,
        }
    }

    /// The lowest rate with several invalid trials and no valid one at it or above it.
    fn limit(&self) -> Option<SearchLimit> {
        let highest_valid = self.highest_valid_rps();
        let above = |it: &&SearchTrial| !it.verdict.is_valid() && it.rate_rps > highest_valid;
        let invalid = || self.trials.iter().filter(above);
        let is_enough = |rate_rps: f64| {
            invalid().filter(|it| it.rate_rps == rate_rps).count() >= SEARCH_LIMIT_TRIALS
        };
        let lowest = invalid()
            .filter(|it| is_enough(it.rate_rps))
            .min_by(|a, b| a.rate_rps.total_cmp(&b.rate_rps))?;
        Some(SearchLimit {
            rate_rps: lowest.rate_rps,
            verdict: lowest.verdict,
        })
    }

    /// The highest rate with a valid trial; 0 without one.
    fn highest_valid_rps(&self) -> f64 {
        let valid = self.trials.iter().filter(|trial| trial.verdict.is_valid());
        valid.map(|trial| trial.rate_rps).fold(0.0, f64::max)
    }

    /// The highest rate to try.
    fn top_rps(&self) -> f64 {
        let half = 1.0 + self.options.resolution / 2.0;
        self.limit().map_or(self.options.ceiling_rps, |limit| {
            (limit.rate_rps / half).max(self.highest_valid_rps())
        })
    }
}

/// The first part of a search.
enum Bracket {
    /// There is none yet; this rate is next.
    Next(f64),
    /// The sustained throughput is near or between these rates, or beyond an end of those allowed.
    Found(f64, f64),
    /// No rate can be tried.
    Unknown,
}

impl Refinement {
    fn record(&mut self, verdict: Verdict) {
        let is_kept = match verdict {
            Verdict::Kept => Some(true),
            Verdict::Broken => Some(false),
            Verdict::GeneratorLimited => None,
            Verdict::Failed => return,
        };
        self.evidence.bet(&self.beliefs, self.index, is_kept);
        let rate_rps = self.beliefs.rates()[self.index];
        self.beliefs.update(rate_rps, is_kept);
    }

    /// Why the search has its answer. None: it has not.
    fn decided(&self, search: &Search) -> Option<SearchEnd> {
        let rates = self.beliefs.rates();
        let SearchOptions {
            confidence,
            resolution,
            ..
        } = search.options;
        let (bottom, top) = self.allowed(search);
        match self.evidence.ends(confidence) {
            Ends {
                low: Some(low),
                high: Some(high),
            } if high <= low => Some(SearchEnd::Contradiction),
            Ends {
                low: Some(low),
                high: Some(high),
            } if rates[high] <= rates[low] * (1.0 + resolution) => Some(SearchEnd::Resolved),
            Ends { low: Some(low), .. } if low >= top => Some(match search.limit() {
                Some(_) => SearchEnd::Limit,
                None => SearchEnd::AlwaysKept,
            }),
            Ends {
                high: Some(high), ..
            } if high <= bottom => Some(SearchEnd::NeverKept),
            _ => None,
        }
    }

    /// The lowest and the highest index that may be tried.
    fn allowed(&self, search: &Search) -> (usize, usize) {
        let rates = self.beliefs.rates();
        let last = rates.len() - 1;
        let bottom = rates.partition_point(|&rps| rps < search.options.floor_rps);
        let top = rates.partition_point(|&rps| rps <= search.top_rps());
        (bottom.min(last), top.saturating_sub(1))
    }

    /// Chooses the next rate.
    fn next(&mut self, search: &Search) -> f64 {
        let ends = self.evidence.ends(search.options.confidence);
        let rates = self.beliefs.rates();
        let resolution = search.options.resolution;
        let medians = self.beliefs.medians();
        let (low, high) = self.provable(search, medians);
        let (low_median, high_median) = medians;
        let is_narrow = rates[high] <= rates[low] * (1.0 + resolution);
        let index = if !is_narrow && self.bisections < SEARCH_BISECTIONS_MAX {
            self.bisections += 1;
            let is_low = self.bisections.is_multiple_of(2);
            if is_low { low_median } else { high_median }
        } else {
            // The end farther from the estimate goes first. Where neither is certain they take
            // turns, so that a slow change of the server affects both.
            let low_gap = ends
                .low
                .map_or(usize::MAX, |end| low_median.saturating_sub(end));
            let high_gap = ends
                .high
                .map_or(usize::MAX, |end| end.saturating_sub(high_median));
            let is_low = match low_gap.cmp(&high_gap) {
                Ordering::Less => false,
                Ordering::Greater => true,
                Ordering::Equal => self.index > low_median,
            };
            if is_low { low } else { high }
        };
        let (bottom, top) = self.allowed(search);
        self.index = index.min(top).max(bottom);
        self.beliefs.rates()[self.index]
    }

    /// The rates nearest to the medians that the trials left are expected to prove as ends.
    fn provable(&self, search: &Search, medians: (usize, usize)) -> (usize, usize) {
        let SearchOptions {
            confidence,
            resolution,
            trials_max,
            ..
        } = search.options;
        let (low_median, high_median) = medians;
        let left = (trials_max - search.trials.len()) as f64 * SHARE_OF_END;
        let rates = self.beliefs.rates();
        let near = (1.0 + resolution).powf(NEAR_ENOUGH);
        let is_provable = |missing_ln: f64, agreement: f64| {
            agreement >= AGREEMENT_MAX || missing_ln <= left * growth_ln(agreement)
        };
        let is_low = |&index: &usize| {
            let (missing_ln, _) = self.evidence.missing_ln(index, confidence);
            let agreement = self.beliefs.low.kept(index);
            rates[index] * near <= rates[low_median] && is_provable(missing_ln, agreement)
        };
        let is_high = |&index: &usize| {
            let (_, missing_ln) = self.evidence.missing_ln(index, confidence);
            let agreement = 1.0 - self.beliefs.high.kept(index);
            rates[index] >= rates[high_median] * near && is_provable(missing_ln, agreement)
        };
        let last = rates.len() - 1;
        (
            (0..low_median).rev().find(is_low).unwrap_or(0),
            (high_median..last).find(is_high).unwrap_or(last),
        )
    }
}

/// A rate to four digits, so that repeats share a rate that reads well.
fn rounded(rate_rps: f64) -> f64 {
    let scale = scale(rate_rps);
    (rate_rps / scale).round() * scale
}

/// A rate of four digits that is at least `rate_rps`.
fn rounded_up(rate_rps: f64) -> f64 {
    let scale = scale(rate_rps);
    (rate_rps / scale).ceil() * scale
}

/// The value of the fourth digit of a rate.
fn scale(rate_rps: f64) -> f64 {
    10_f64.powf(rate_rps.log10().floor() - 3.0)
}
