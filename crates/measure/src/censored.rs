//! Percentiles of latencies of which some are known only as lower bounds.

use std::borrow::Cow;

use crate::Histogram;

/// A percentile, or a lower bound of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// Nanoseconds.
    pub value_ns: u64,
    /// The percentile is at least `value_ns`; its exact value is unknown.
    pub is_lower_bound: bool,
}

/// The latencies of N answered requests and of M *censored* ones, which were given up unanswered.
/// The latency of a censored request is unknown; its age when it was given up is a lower bound,
/// which may be short (a lost connection) or long (the end of a run).
///
/// The rule. Let k be the percentile's rank among all N + M. The percentile is least if every
/// censored request took exactly its bound, and greatest if none ever ended:
///
/// ```text
/// k-th of all, bounds as values  ≤  percentile  ≤  k-th of the answered; for k > N: unbounded
/// ```
///
/// Both bounds are attained, so no narrower ones hold without an assumption about the censored
/// requests. The left side is reported. Where the right side equals it to the histogram's three
/// digits, the percentile is known; otherwise the left side is a *lower bound*. So a percentile
/// below every bound is always known, and one of the M highest ranks never is. The percentile of
/// the answered requests alone has a lower rank: it would flatter the worst runs.
///
/// Bounds of this kind are the worst case of Manski (*Partial identification of probability
/// distributions*, 2003). The estimator of Kaplan and Meier is narrower, but it assumes that giving
/// up is independent of slowness.
#[derive(Debug)]
pub struct WithCensored<'a> {
    answered: &'a Histogram,
    /// The answered requests, and the censored ones at their bounds.
    all: Cow<'a, Histogram>,
}

impl<'a> WithCensored<'a> {
    /// From the latencies of answered requests and the lower bounds of censored ones.
    #[must_use]
    pub fn new(answered: &'a Histogram, censored: &Histogram) -> Self {
        let mut all = Cow::Borrowed(answered);
        if !censored.is_empty() {
            all.to_mut().merge(censored);
        }
        Self { answered, all }
    }

    /// All requests, the censored ones at their bounds.
    #[must_use]
    pub fn all(&self) -> &Histogram {
        &self.all
    }

    /// A percentile of all requests.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Bounded {
        let rank = self.all.rank(percentile / 100.0);
        let value_ns = self.all.value_at_rank(rank);
        let known = self.all.is_empty()
            || (rank <= self.answered.len() && self.answered.value_at_rank(rank) == value_ns);
        Bounded {
            value_ns,
            is_lower_bound: !known,
        }
    }

    /// Whether a percentile of all requests is at most a limit, to the histogram's three digits.
    /// None: it depends on the latencies of the censored requests.
    #[must_use]
    pub fn is_at_most(&self, percentile: f64, limit_ns: u64) -> Option<bool> {
        let rank = self.all.rank(percentile / 100.0);
        // A limit has the greatest value of its bucket, as values read back have.
        let is_kept = |histogram: &Histogram| histogram.count_to(limit_ns) >= rank;
        match (is_kept(&self.all), is_kept(self.answered)) {
            _ if self.all.is_empty() => None,
            (_, true) => Some(true),
            (false, _) => Some(false),
            (true, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    /// The percentile, and whether it is a lower bound.
    fn seen(answered: &[u64], censored: &[u64], percentile: f64) -> (u64, bool) {
        let (answered, censored) = (of(answered), of(censored));
        let with = WithCensored::new(&answered, &censored);
        let Bounded {
            value_ns,
            is_lower_bound,
        } = with.percentile(percentile);
        (value_ns, is_lower_bound)
    }

    #[test]
    fn without_censored_requests_every_percentile_is_known() {
        for percentile in [0.0, 50.0, 99.9, 100.0] {
            assert_eq!(seen(&[], &[], percentile), (0, false));
            let with = seen(&[10, 20, 30], &[], percentile);
            assert_eq!(with, (of(&[10, 20, 30]).percentile(percentile), false));
        }
    }

    #[test]
    fn a_percentile_below_every_bound_is_known_and_one_among_them_is_not() {
        let answered: Vec<u64> = (1..=98).collect();
        let censored = [1_000, 1_000];
        assert_eq!(seen(&answered, &censored, 50.0), (50, false));
        assert_eq!(seen(&answered, &censored, 98.0), (98, false));
        assert_eq!(seen(&answered, &censored, 99.0), (1_000, true));
        assert_eq!(seen(&answered, &censored, 100.0), (1_000, true));
    }

    /// Requests of a lost connection are given up early; they could have become the slowest of all.
    #[test]
    fn a_bound_below_a_percentile_makes_that_a_lower_bound_too() {
        let answered: Vec<u64> = (1..=95).collect();
        let censored = [3; 5];
        assert_eq!(seen(&answered, &censored, 2.0), (2, false));
        assert_eq!(seen(&answered, &censored, 50.0), (45, true));
        // The bounds of all five lie below rank 95, their latencies may lie above it.
        assert_eq!(seen(&answered, &censored, 95.0), (90, true));
        assert_eq!(seen(&answered, &censored, 99.0), (94, true));
    }

    #[test]
    fn a_percentile_that_the_censored_cannot_move_is_known() {
        // One of a thousand given up immediately: it cannot move the median among equal values.
        assert_eq!(seen(&[700; 999], &[1], 50.0), (700, false));
        assert_eq!(seen(&[700; 999], &[1], 99.9), (700, false));
        assert_eq!(seen(&[700; 999], &[1], 100.0), (700, true));
    }

    #[test]
    fn a_limit_is_kept_only_if_no_censored_request_could_break_it() {
        let answered: Vec<u64> = (1..=95).collect();
        let is_at_most = |censored: &[u64], percentile, limit_ns| {
            WithCensored::new(&of(&answered), &of(censored)).is_at_most(percentile, limit_ns)
        };
        assert_eq!(is_at_most(&[], 99.0, 95), Some(true));
        assert_eq!(is_at_most(&[], 99.0, 94), Some(false));
        // Given up late: the percentile is above the limit. Given up early: it may be.
        assert_eq!(is_at_most(&[1_000; 5], 99.0, 500), Some(false));
        assert_eq!(is_at_most(&[3; 5], 99.0, 500), None);
        // Not one of the highest ranks: known, whatever the five became.
        assert_eq!(is_at_most(&[3; 5], 95.0, 500), Some(true));
        assert_eq!(is_at_most(&[3; 5], 95.0, 89), Some(false));
        assert_eq!(is_at_most(&[3; 5], 95.0, 92), None);
        assert_eq!(
            WithCensored::new(&of(&[]), &of(&[])).is_at_most(99.0, 1),
            None
        );
    }

    #[test]
    fn without_answers_every_percentile_is_a_lower_bound() {
        assert_eq!(seen(&[], &[5, 9], 50.0), (5, true));
    }

    /// At random: the report holds for any latencies of the censored requests.
    #[test]
    fn the_report_holds_for_any_latencies_of_the_censored() {
        let mut state = 1_u64;
        let mut below = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % most
        };
        for _ in 0..300 {
            let values = |below: &mut dyn FnMut(u64) -> u64| -> Vec<u64> {
                (0..below(40)).map(|_| 1 + below(200)).collect()
            };
            let (answered, censored) = (values(&mut below), values(&mut below));
            let mut truth = answered.clone();
            let latencies = censored.iter().map(|bound| bound + below(3) * below(500));
            truth.extend(latencies);
            for percentile in [1.0, 50.0, 90.0, 99.0, 100.0] {
                let (value_ns, is_lower_bound) = seen(&answered, &censored, percentile);
                let true_ns = of(&truth).percentile(percentile);
                assert!(value_ns <= true_ns, "{answered:?} {censored:?}");
                assert!(is_lower_bound || value_ns == true_ns, "{percentile}");
            }
        }
    }
}
