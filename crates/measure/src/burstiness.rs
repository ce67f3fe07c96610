//! Burstiness: how many requests become ready together.
//!
//! A server whose requests become ready in batches makes most of them wait for the rest of their
//! batch, at any load. Ruan & Pai (*Understanding and Addressing Blocking-Induced Network Server
//! Latency*, USENIX ATC 2006) measure it as ready events per wait call in an event-driven server,
//! which is here, and as the fraction of runnable processes in a process-driven one:
//! [`RunnableFraction`](crate::RunnableFraction).
//!
//! A wait call that returned no event is left out: it shows that the server was idle, or polled,
//! and not how events are batched.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::interval::{median_of_sorted, sorted};
use crate::limits::BURST_BUCKETS_MAX;

/// Ready events per wait call of an event-driven server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burstiness {
    /// Calls that returned an event.
    pub calls: usize,
    /// Mean events per call.
    pub mean: f64,
    /// Median events per call.
    pub median: f64,
    /// Most events of one call.
    pub max: u64,
    /// Mean over events of the events in the same call, itself included: Σx² ÷ Σx. It exceeds
    /// `mean` by the variance ÷ `mean` (the inspection paradox), because large batches hold most of
    /// the events.
    pub event_mean: f64,
}

impl Burstiness {
    /// The burstiness of wait calls, each given by its number of ready events. None where no call
    /// returned an event.
    #[must_use]
    pub fn of(events_per_call: &[u64]) -> Option<Self> {
        let events = events_per_call.iter().filter(|&&events| events > 0);
        let sorted = sorted(&events.map(|&events| events as f64).collect::<Vec<_>>())?;
        let total: f64 = sorted.iter().sum();
        let squares: f64 = sorted.iter().map(|events| events * events).sum();
        Some(Self {
            calls: sorted.len(),
            mean: total / sorted.len() as f64,
            median: median_of_sorted(&sorted),
            max: events_per_call.iter().copied().max()?,
            event_mean: squares / total,
        })
    }
}

/// Wait calls counted by powers of two of their ready events: 1, 2, 3 to 4, 5 to 8 and so on. The
/// last bucket has no upper bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BurstHistogram<'a> {
    counts: &'a [u64],
    calls: u64,
    events: u64,
}

/// The bounds of a bucket, in events per call, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstBounds {
    /// Fewest events.
    pub low: u64,
    /// Most events. None: unbounded.
    pub high: Option<u64>,
}

impl<'a> BurstHistogram<'a> {
    /// A histogram from the calls of each bucket and the `events` of all calls. None without calls,
    /// with more than [`BURST_BUCKETS_MAX`] buckets, or where the calls cannot have had that many
    /// events.
    #[must_use]
    pub fn new(counts: &'a [u64], events: u64) -> Option<Self> {
        if counts.len() > BURST_BUCKETS_MAX {
            return None;
        }
        let calls = counts
            .iter()
            .try_fold(0_u64, |calls, &count| calls.checked_add(count))?;
        let histogram = Self {
            counts,
            calls,
            events,
        };
        let fewest = histogram.fewest_events();
        let most: Option<u128> = histogram.buckets().map(|bucket| bucket.most()).sum();
        let is_possible = fewest <= events.into() && most.is_none_or(|most| most >= events.into());
        (calls > 0 && is_possible).then_some(histogram)
    }

    /// Mean events per call.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.events as f64 / self.calls as f64
    }

    /// The bucket of the `q` quantile: the least one such that a share `q` of the calls lies in it
    /// or below. None where q is not between 0 and 1, both included.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<BurstBounds> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        // In floating point 0.9 × 10 may be slightly above 9 and must not give rank 10.
        let rank = (q * self.calls as f64 * (1.0 - 1e-12)).ceil() as u64;
        let rank = rank.clamp(1, self.calls);
        let mut below = 0;
        self.buckets()
            .find(|bucket| {
                below += bucket.calls;
                below >= rank
            })
            .map(|bucket| bucket.bounds)
    }

    /// The range in which the mean over events ([`Burstiness::event_mean`]) lies. Σx is known and
    /// Σx² is not: it is least where the events above each bucket's lower bound fill the lowest
    /// calls evenly, and greatest where they fill the highest calls one after the other. Both ends
    /// are attained by some calls with these counts and this sum.
    #[must_use]
    pub fn event_mean(&self) -> RangeInclusive<f64> {
        let events = self.events as f64;
        self.squares_min() / events..=self.squares_max() / events
    }

    /// The least Σx².
    fn squares_min(&self) -> f64 {
        let mut excess = self.excess();
        let square = |bucket: Bucket| {
            let calls = u128::from(bucket.calls);
            if calls == 0 {
                return 0.0;
            }
            let room = bucket.most().map(|most| most - bucket.fewest());
            let taken = room.unwrap_or(excess).min(excess);
            excess -= taken;
            let (each, one_more) = (taken / calls, taken % calls);
            let events = u128::from(bucket.bounds.low) + each;
            (calls - one_more) as f64 * squared(events) + one_more as f64 * squared(events + 1)
        };
        self.buckets().map(square).sum()
    }

    /// The greatest Σx².
    fn squares_max(&self) -> f64 {
        let mut excess = self.excess();
        let square = |bucket: Bucket| {
            let (low, calls) = (u128::from(bucket.bounds.low), u128::from(bucket.calls));
            let high = bucket.bounds.high.map_or(low + excess, u128::from);
            let room = high - low;
            if calls == 0 || room == 0 {
                return calls as f64 * squared(low);
            }
            let full = (excess / room).min(calls);
            excess -= full * room;
            let mut sum = full as f64 * squared(high);
            if full < calls {
                let last = std::mem::take(&mut excess);
                sum += squared(low + last) + (calls - full - 1) as f64 * squared(low);
            }
            sum
        };
        self.buckets().rev().map(square).sum()
    }

    /// Events beyond the lower bounds of all calls.
    fn excess(&self) -> u128 {
        u128::from(self.events) - self.fewest_events()
    }

    fn fewest_events(&self) -> u128 {
        self.buckets().map(|bucket| bucket.fewest()).sum()
    }

    fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        let len = self.counts.len();
        self.counts.iter().enumerate().map(move |(at, &calls)| {
            let low = if at == 0 { 1 } else { (1 << (at - 1)) + 1 };
            let high = (at + 1 < len).then_some(1 << at);
            Bucket {
                bounds: BurstBounds { low, high },
                calls,
            }
        })
    }
}

/// The calls of one bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    bounds: BurstBounds,
    calls: u64,
}

impl Bucket {
    fn fewest(&self) -> u128 {
        u128::from(self.bounds.low) * u128::from(self.calls)
    }

    /// None: unbounded.
    fn most(&self) -> Option<u128> {
        match self.bounds.high {
            Some(high) => Some(u128::from(high) * u128::from(self.calls)),
            None => (self.calls == 0).then_some(0),
        }
    }
}

fn squared(events: u128) -> f64 {
    (events as f64).powi(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds(low: u64, high: u64) -> Option<BurstBounds> {
        let high = Some(high);
        Some(BurstBounds { low, high })
    }

    #[test]
    fn a_large_batch_moves_the_mean_and_most_of_all_that_of_events() {
        let seen = Burstiness::of(&[1, 0, 2, 1, 96, 0]).unwrap();
        assert_eq!(
            (seen.calls, seen.mean, seen.median, seen.max),
            (4, 25.0, 1.5, 96)
        );
        // (1 + 4 + 1 + 96²) ÷ 100.
        assert_eq!(seen.event_mean, 92.22);
        assert_eq!(Burstiness::of(&[0, 0]), None);
        assert_eq!(Burstiness::of(&[]), None);
    }

    #[test]
    fn quantiles_of_a_histogram_are_bounds() {
        // 5 calls of 1, 3 of 2, 1 of 3 to 4, 1 of more than 4.
        let histogram = BurstHistogram::new(&[5, 3, 1, 1], 24).unwrap();
        assert_eq!(histogram.mean(), 2.4);
        assert_eq!(histogram.quantile(0.0), bounds(1, 1));
        assert_eq!(histogram.quantile(0.5), bounds(1, 1));
        assert_eq!(histogram.quantile(0.8), bounds(2, 2));
        assert_eq!(histogram.quantile(0.9), bounds(3, 4));
        let last = BurstBounds { low: 5, high: None };
        assert_eq!(histogram.quantile(1.0), Some(last));
        assert_eq!(histogram.quantile(1.1), None);
        assert_eq!(histogram.quantile(f64::NAN), None);
    }

    #[test]
    fn the_mean_over_events_is_bounded_by_the_sum_of_events() {
        // 5 + 6 = 11 events are certain. The two others have 13 together, at most 4 in one:
        // 3 and 10, or 4 and 9.
        let histogram = BurstHistogram::new(&[5, 3, 1, 1], 24).unwrap();
        let range = histogram.event_mean();
        assert_eq!(*range.start(), (5 + 12 + 16 + 81) as f64 / 24.0);
        assert_eq!(*range.end(), (5 + 12 + 9 + 100) as f64 / 24.0);
        // Three calls of 5 to 8 with 18 events: 6, 6 and 6, or 8, 5 and 5.
        let range = BurstHistogram::new(&[0, 0, 0, 3, 0], 18)
            .unwrap()
            .event_mean();
        assert_eq!((*range.start(), *range.end()), (6.0, 114.0 / 18.0));
    }

    #[test]
    fn impossible_histograms_are_refused() {
        let impossible: [(&[u64], u64); 7] = [
            (&[0, 0], 0),
            (&[], 0),
            (&[3, 0], 2),
            (&[3, 0], 4),
            (&[0, 0, 2], 5),
            (&[u64::MAX, 1], 9),
            (&[1; BURST_BUCKETS_MAX + 1], u64::MAX),
        ];
        for (counts, events) in impossible {
            assert_eq!(BurstHistogram::new(counts, events), None, "{counts:?}");
        }
        assert!(BurstHistogram::new(&[3, 0], 3).is_some());
        let widest = [1; BURST_BUCKETS_MAX];
        let widest = BurstHistogram::new(&widest, u64::MAX).unwrap();
        assert!(widest.event_mean().end().is_finite());
    }

    proptest! {
        #[test]
        fn a_histogram_encloses_the_calls_it_counts(
            calls in prop::collection::vec(1..2000_u64, 1..100),
            buckets in 1..14_usize,
            q in 0.0..=1.0_f64,
        ) {
            let exact = Burstiness::of(&calls).unwrap();
            let mut counts = vec![0; buckets];
            for &events in &calls {
                let at = (events - 1).checked_ilog2().map_or(0, |log| log as usize + 1);
                counts[at.min(buckets - 1)] += 1;
            }
            let histogram = BurstHistogram::new(&counts, calls.iter().sum()).unwrap();
            prop_assert!((histogram.mean() - exact.mean).abs() < 1e-9);
            let range = histogram.event_mean();
            prop_assert!(
                range.start() - 1e-9 <= exact.event_mean && exact.event_mean <= range.end() + 1e-9,
                "{} in {:?}", exact.event_mean, range
            );
            prop_assert!(exact.event_mean >= exact.mean - 1e-9);
            let mut sorted = calls.clone();
            sorted.sort_unstable();
            let rank = (q * calls.len() as f64 * (1.0 - 1e-12)).ceil() as usize;
            let at_rank = sorted[rank.max(1) - 1];
            let bounds = histogram.quantile(q).unwrap();
            prop_assert!(bounds.low <= at_rank && bounds.high.is_none_or(|high| at_rank <= high));
        }
    }
}
