//! The answer of a search.

use serde::{Deserialize, Serialize};

use super::{Search, SearchTrial, Verdict};

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEnd {
    /// It has not.
    Running,
    /// The interval is as narrow as wanted.
    Resolved,
    /// The trials are used up.
    Budget,
    /// The objective is kept up to the highest rate that could be tried; trials above the *limit*
    /// were invalid.
    Limit,
    /// The objective is kept at the highest rate allowed.
    AlwaysKept,
    /// The objective is broken at the lowest rate allowed.
    NeverKept,
    /// Too many trials in succession were invalid.
    Invalid,
    /// A rate is kept with confidence, and a lower one is broken with confidence.
    Contradiction,
}

/// A rate from which trials are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchLimit {
    /// The lowest rate with three invalid trials, with no valid one at it or above it.
    pub rate_rps: f64,
    /// What they were.
    pub verdict: Verdict,
}

/// The sustained throughput: the highest offered rate that keeps the objective.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// The estimate: the median of the belief, or the middle of both beliefs' medians, within the
    /// interval. None without a kept and a broken trial.
    pub estimate_rps: Option<f64>,
    /// The highest rate kept with confidence. None: no rate was.
    pub low_rps: Option<f64>,
    /// The lowest rate broken with confidence. None: no rate was.
    pub high_rps: Option<f64>,
    /// The confidence of the interval from `low_rps` to `high_rps`: the two ends together are wrong
    /// with a probability of at most 1 − this. An end alone: at most half of that.
    pub confidence: f64,
    /// Why the search ended.
    pub end: SearchEnd,
    /// The rate above which nothing could be tried.
    pub limit: Option<SearchLimit>,
    /// Trials made.
    pub trials: usize,
    /// Those of them that were invalid.
    pub invalid: usize,
    /// The fewest verdicts that contradict any one threshold: kept above it or broken at or below
    /// it. Some are noise near the sustained throughput. Where they are many, latency does not
    /// rise with the rate, or the server changed during the search.
    pub contradicting: usize,
}

impl Sustained {
    pub(super) fn of(search: &Search, end: SearchEnd) -> Self {
        let confidence = search.options().confidence;
        let (mut median_rps, mut low_rps, mut high_rps) = (None, None, None);
        if let Some(refinement) = &search.refinement {
            let rates = refinement.beliefs.rates();
            let ends = refinement.evidence.ends(confidence);
            let (low, high) = refinement.beliefs.medians();
            median_rps = Some(rates[usize::midpoint(low, high)]);
            low_rps = ends.low.map(|low| rates[low]);
            high_rps = ends.high.map(|high| rates[high]);
        }
        let trials = search.trials();
        let invalid = trials.iter().filter(|trial| !trial.verdict.is_valid());
        let within = |rate_rps: f64| {
            let above_low = low_rps.map_or(rate_rps, |low| rate_rps.max(low));
            high_rps.map_or(above_low, |high| above_low.min(high))
        };
        Self {
            estimate_rps: median_rps.map(within),
            low_rps,
            high_rps,
            confidence,
            end,
            limit: search.limit(),
            trials: trials.len(),
            invalid: invalid.count(),
            contradicting: contradicting(trials),
        }
    }
}

/// The fewest verdicts on the wrong side of a threshold, over all thresholds.
fn contradicting(trials: &[SearchTrial]) -> usize {
    let mut valid: Vec<_> = trials
        .iter()
        .filter(|trial| trial.verdict.is_valid())
        .collect();
    valid.sort_by(|a, b| a.rate_rps.total_cmp(&b.rate_rps));
    // A threshold below all rates.
    let is_kept = |trial: &&SearchTrial| trial.verdict == Verdict::Kept;
    let mut wrong = valid.iter().copied().filter(is_kept).count();
    let mut fewest = wrong;
    for rate in valid.chunk_by(|a, b| a.rate_rps == b.rate_rps) {
        let kept = rate.iter().copied().filter(is_kept).count();
        wrong = wrong + (rate.len() - kept) - kept;
        fewest = fewest.min(wrong);
    }
    fewest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_threshold_decides_what_contradicts() {
        let of = |trials: &[(f64, Verdict)]| {
            let trial = |&(rate_rps, verdict): &(f64, Verdict)| SearchTrial { rate_rps, verdict };
            contradicting(&trials.iter().map(trial).collect::<Vec<_>>())
        };
        use Verdict::{Broken, Failed, Kept};
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[(1.0, Kept), (3.0, Broken), (2.0, Failed)]), 0);
        assert_eq!(of(&[(1.0, Broken), (2.0, Kept), (3.0, Broken)]), 1);
        // At one rate the verdicts differ: no threshold agrees with both.
        assert_eq!(
            of(&[(2.0, Kept), (2.0, Broken), (2.0, Kept), (1.0, Kept)]),
            1
        );
        assert_eq!(of(&[(5.0, Kept); 3]), 0);
    }
}
