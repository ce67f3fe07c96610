//! Percentiles of latencies some of which are known from below only.

use std::borrow::Cow;

use crate::Histogram;

/// A percentile, or all that is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// Nanoseconds.
    pub value_ns: u64,
    /// The percentile is at least `value_ns`; how much more is not known.
    pub is_lower_bound: bool,
}

/// N requests that were answered and M that were given up before they were: *censored*. How long
/// each of those would have taken is not known, only that it is no less than its age when it was
/// given up, which may be short (a lost connection) or long (the end of a run).
///
/// The rule. Let the percentile's rank among all N + M be k. It is least when every censored
/// request took just its bound, and greatest when none ever ended:
///
/// ```text
/// k-th of all, bounds as values  ≤  percentile  ≤  k-th of the answered; for k > N: unbounded
/// ```
///
/// Both are attained, so nothing narrower holds without an assumption on what was censored. The
/// left side is what is reported. Where the right side is the same to the histogram's three
/// digits, the percentile is known; else the left side is a *lower bound*. So a percentile below
/// every bound is always known, and one of the M highest ranks never is. A percentile of the
/// answered alone would be that of a lower rank: it flatters the worst runs.
///
/// Bounds of this kind are the worst case of Manski (*Partial identification of probability
/// distributions*, 2003); the estimator of Kaplan and Meier, which is narrower, supposes that to be
/// given up has nothing to do with being slow.
#[derive(Debug)]
pub struct WithCensored<'a> {
    answered: &'a Histogram,
    /// Censored requests at their bounds among the answered.
    all: Cow<'a, Histogram>,
}

impl<'a> WithCensored<'a> {
    /// Of the latencies of those answered and the bounds of those censored.
    #[must_use]
    pub fn new(answered: &'a Histogram, censored: &Histogram) -> Self {
        let mut all = Cow::Borrowed(answered);
        if !censored.is_empty() {
            all.to_mut().merge(censored);
        }
        Self { answered, all }
    }

    /// All requests, the censored at their bounds.
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

    /// Requests of a lost connection are given up young; they may have become the slowest of all.
    #[test]
    fn a_bound_below_a_percentile_makes_that_a_lower_bound_too() {
        let answered: Vec<u64> = (1..=95).collect();
        let censored = [3; 5];
        assert_eq!(seen(&answered, &censored, 2.0), (2, false));
        assert_eq!(seen(&answered, &censored, 50.0), (45, true));
        // By rank there is room above for all five; by their bounds there is not.
        assert_eq!(seen(&answered, &censored, 95.0), (90, true));
        assert_eq!(seen(&answered, &censored, 99.0), (94, true));
    }

    #[test]
    fn a_percentile_that_the_censored_cannot_move_is_known() {
        // One of a thousand given up at once: the median stands among equals.
        assert_eq!(seen(&[700; 999], &[1], 50.0), (700, false));
        assert_eq!(seen(&[700; 999], &[1], 99.9), (700, false));
        assert_eq!(seen(&[700; 999], &[1], 100.0), (700, true));
    }

    #[test]
    fn nothing_answered_is_known_from_below_only() {
        assert_eq!(seen(&[], &[5, 9], 50.0), (5, true));
    }

    /// Whatever the censored would have taken, the report holds: tried at random.
    #[test]
    fn what_is_reported_holds_whatever_the_censored_would_have_taken() {
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
            let fates = censored.iter().map(|bound| bound + below(3) * below(500));
            truth.extend(fates);
            for percentile in [1.0, 50.0, 90.0, 99.0, 100.0] {
                let (value_ns, is_lower_bound) = seen(&answered, &censored, percentile);
                let true_ns = of(&truth).percentile(percentile);
                assert!(value_ns <= true_ns, "{answered:?} {censored:?}");
                assert!(is_lower_bound || value_ns == true_ns, "{percentile}");
            }
        }
    }
}
