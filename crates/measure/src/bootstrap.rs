//! Bootstrap intervals: of any statistic, and of a percentile of autocorrelated latencies.
//!
//! The statistic is computed of many resamples, drawn with replacement from the samples; the
//! interval is the middle part of its values (percentile interval; Efron & Tibshirani, *An
//! Introduction to the Bootstrap*, chapter 13). The same seed gives the same interval.
//!
//! Which interval to use:
//!
//! - *A median or a percentile of independent samples, such as trials*:
//!   [`quantile_interval`](crate::quantile_interval) and
//!   [`median_of_trials`](crate::median_of_trials). They are exact for any distribution and any
//!   number of samples. A bootstrap is approximate, and too narrow for few samples.
//! - *Another statistic of independent samples* (mean, trimmed mean, ratio, slope):
//!   [`bootstrap_interval`].
//! - *A percentile of latencies that follow each other in one trial*: [`block_bootstrap_quantile`].
//!   The order-statistic interval is too narrow for them. With repeats of the trial, prefer
//!   [`median_of_trials`](crate::median_of_trials) over the percentile of each: repeats also differ
//!   by what is constant within a trial.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, Interval};
use crate::limits::{
    BOOTSTRAP_DRAWS_MAX, BOOTSTRAP_RESAMPLES, BOOTSTRAP_RESAMPLES_MAX, BOOTSTRAP_SAMPLES_MIN,
};

/// How a bootstrap draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BootstrapOptions {
    /// Resamples, at most [`BOOTSTRAP_RESAMPLES_MAX`] and at least 2 ÷ (1 − `confidence`): with
    /// fewer, none lies beyond the interval.
    pub resamples: usize,
    /// Confidence, between 0 and 1.
    pub confidence: f64,
    /// Seed of the draws.
    pub seed: u64,
}

impl BootstrapOptions {
    /// [`BOOTSTRAP_RESAMPLES`] resamples.
    #[must_use]
    pub fn new(confidence: f64, seed: u64) -> Self {
        Self {
            resamples: BOOTSTRAP_RESAMPLES,
            confidence,
            seed,
        }
    }

    /// Whether they are within their bounds for resamples of `count` values.
    fn are_valid(&self, count: usize) -> bool {
        let Self {
            resamples,
            confidence,
            ..
        } = *self;
        confidence > 0.0
            && confidence < 1.0
            && resamples <= BOOTSTRAP_RESAMPLES_MAX
            && resamples as f64 * (1.0 - confidence) > 2.0 - 1e-9
            && resamples.saturating_mul(count) <= BOOTSTRAP_DRAWS_MAX
    }
}

/// The statistic of independent values, with its percentile bootstrap interval. The statistic must
/// not depend on the order of the values.
///
/// The interval is approximate. For skewed statistics of fewer than some 30 values it covers less
/// than it states; a maximum or another statistic of the extremes alone must not be bootstrapped
/// (Efron & Tibshirani, section 7.4).
///
/// None with fewer than [`BOOTSTRAP_SAMPLES_MIN`] values or one that is not finite, where the
/// options are out of bounds or need more than [`BOOTSTRAP_DRAWS_MAX`] draws, or where the
/// statistic of the values or of a resample is not finite.
#[must_use]
pub fn bootstrap_interval(
    values: &[f64],
    mut statistic: impl FnMut(&[f64]) -> f64,
    options: BootstrapOptions,
) -> Option<Estimate> {
    let count = values.len();
    let is_finite = values.iter().all(|value| value.is_finite());
    if count < BOOTSTRAP_SAMPLES_MIN || !is_finite || !options.are_valid(count) {
        return None;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut drawn = Vec::with_capacity(count);
    let statistics = (0..options.resamples)
        .map(|_| {
            drawn.clear();
            drawn.extend((0..count).map(|_| values[index_below(count, &mut random)]));
            statistic(&drawn)
        })
        .collect();
    Some(Estimate {
        value: Some(statistic(values)).filter(|value| value.is_finite())?,
        interval: middle_of(statistics, options.confidence)?,
        samples: count,
    })
}

/// The `q` quantile (0 < q < 1) of a series of latencies in the order of their time, with its
/// interval by the circular block bootstrap: a resample consists of blocks of `block_len`
/// successive latencies from random places, the last latency followed by the first (Politis &
/// Romano, *A circular block-resampling procedure for stationary data*, 1992; the bootstrap of
/// blocks is Künsch's, Annals of Statistics 17, 1989). The quantile is the least value v such that
/// a share q of the latencies is at most v, as of a [`Histogram`](crate::Histogram).
///
/// Within a block the correlation is kept, between blocks it is lost. So `block_len` should be
/// several times the autocorrelation time, which is the number of latencies ÷
/// [`effective_samples`](crate::effective_samples), and leave many blocks: with few, the interval
/// is too narrow. The series must be stationary: cut its warm-up first.
///
/// None with fewer than [`BOOTSTRAP_SAMPLES_MIN`] blocks, or with fewer latencies than that above
/// or below the quantile: its resamples would only repeat the extremes. None also where a latency
/// is not finite, or the options are out of bounds or need more than [`BOOTSTRAP_DRAWS_MAX`] draws.
#[must_use]
pub fn block_bootstrap_quantile(
    latencies: &[f64],
    q: f64,
    block_len: usize,
    options: BootstrapOptions,
) -> Option<Estimate> {
    let count = latencies.len();
    let blocks = count.checked_div(block_len)?;
    let beyond = q.min(1.0 - q) * count as f64;
    let is_enough = blocks >= BOOTSTRAP_SAMPLES_MIN && beyond >= BOOTSTRAP_SAMPLES_MIN as f64;
    let is_finite = latencies.iter().all(|value| value.is_finite());
    if !is_enough || !is_finite || !options.are_valid(count) {
        return None;
    }
    let rank = rank_of(q, count);
    let mut drawn = latencies.to_vec();
    let value = value_at(&mut drawn, rank);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let quantiles = (0..options.resamples)
        .map(|_| {
            for block in drawn.chunks_mut(block_len) {
                let start = index_below(count, &mut random);
                let (first, rest) = block.split_at_mut(block.len().min(count - start));
                first.copy_from_slice(&latencies[start..start + first.len()]);
                rest.copy_from_slice(&latencies[..rest.len()]);
            }
            value_at(&mut drawn, rank)
        })
        .collect();
    Some(Estimate {
        value,
        interval: middle_of(quantiles, options.confidence)?,
        samples: count,
    })
}

/// The middle part of the statistics of resamples that a confidence states. None where one is not
/// finite, or without any.
pub(crate) fn middle_of(mut statistics: Vec<f64>, confidence: f64) -> Option<Interval> {
    if !statistics.iter().all(|value| value.is_finite()) {
        return None;
    }
    statistics.sort_by(f64::total_cmp);
    let beyond = (1.0 - confidence) / 2.0 * statistics.len() as f64;
    let beyond = beyond as usize;
    Some(Interval {
        low: *statistics.get(beyond)?,
        high: *statistics.get(statistics.len().checked_sub(1 + beyond)?)?,
        confidence,
    })
}

/// A random index below `count`.
pub(crate) fn index_below(count: usize, random: &mut Xoshiro256PlusPlus) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}

/// The rank of the quantile, counted from 0.
fn rank_of(q: f64, count: usize) -> usize {
    // In floating point 0.999 × 1000 is slightly above 999 and must not give rank 1000.
    let rank = (q * count as f64 * (1.0 - 1e-12)).ceil() as usize;
    rank.clamp(1, count) - 1
}

/// The value of that rank, which reorders the values.
fn value_at(values: &mut [f64], rank: usize) -> f64 {
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn to(count: u32) -> Vec<f64> {
        (1..=count).map(f64::from).collect()
    }

    #[test]
    fn the_interval_of_a_mean_is_near_the_normal_one() {
        let values = to(99);
        let seen = bootstrap_interval(&values, mean, BootstrapOptions::new(0.95, 3)).unwrap();
        // The deviation of 1 to 99 is √((99² − 1) ÷ 12), that of their mean a √99th of it.
        let deviation = (9800.0_f64 / 12.0).sqrt() / 99.0_f64.sqrt();
        assert_eq!((seen.value, seen.samples), (50.0, 99));
        let (low, high) = (seen.interval.low, seen.interval.high);
        assert!((low - (50.0 - 1.96 * deviation)).abs() < 0.4, "{seen:?}");
        assert!((high - (50.0 + 1.96 * deviation)).abs() < 0.4, "{seen:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = to(40);
        let of = |seed| bootstrap_interval(&values, mean, BootstrapOptions::new(0.9, seed));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn blocks_of_one_are_the_bootstrap_of_independent_values() {
        let values = to(200);
        let seen = block_bootstrap_quantile(&values, 0.5, 1, BootstrapOptions::new(0.95, 4));
        let seen = seen.unwrap();
        // Of 200 values, the order statistics 86 and 115 enclose the median at 0.95.
        assert_eq!(seen.value, 100.0);
        assert!((seen.interval.low - 86.0).abs() <= 2.0, "{seen:?}");
        assert!((seen.interval.high - 115.0).abs() <= 2.0, "{seen:?}");
    }

    #[test]
    fn blocks_widen_the_interval_of_a_correlated_series() {
        // Runs of 20 equal latencies: 100 independent ones. By blocks, the interval is √20 times as
        // wide.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
        let runs: Vec<f64> = (0..100)
            .flat_map(|_| [index_below(100_000, &mut random) as f64; 20])
            .collect();
        let width = |block_len| {
            let options = BootstrapOptions::new(0.95, 5);
            let seen = block_bootstrap_quantile(&runs, 0.5, block_len, options).unwrap();
            seen.interval.high - seen.interval.low
        };
        assert!(width(100) > 2.5 * width(1), "{} {}", width(100), width(1));
    }

    #[test]
    fn a_quantile_is_that_of_the_values() {
        for (q, rank) in [(0.1, 10), (0.5, 50), (0.9, 90), (0.901, 91)] {
            assert_eq!(value_at(&mut to(100), rank_of(q, 100)), f64::from(rank));
        }
    }

    #[test]
    fn arguments_out_of_bounds_have_no_interval() {
        let valid = BootstrapOptions::new(0.95, 1);
        let with = |resamples, confidence| BootstrapOptions {
            resamples,
            confidence,
            seed: 1,
        };
        let values = to(100);
        for options in [
            with(39, 0.95),
            with(BOOTSTRAP_RESAMPLES_MAX + 1, 0.95),
            with(4000, 1.0),
            with(4000, 0.0),
            with(4000, f64::NAN),
        ] {
            assert_eq!(bootstrap_interval(&values, mean, options), None);
            assert_eq!(block_bootstrap_quantile(&values, 0.5, 1, options), None);
        }
        assert!(bootstrap_interval(&values, mean, with(40, 0.95)).is_some());
        assert_eq!(bootstrap_interval(&values[..7], mean, valid), None);
        assert_eq!(bootstrap_interval(&[f64::NAN; 9], mean, valid), None);
        assert_eq!(bootstrap_interval(&values, |_| f64::NAN, valid), None);
        let many = vec![1.0; BOOTSTRAP_DRAWS_MAX / 4000 + 1];
        assert_eq!(bootstrap_interval(&many, mean, valid), None);
        let quantile = |q, block_len| block_bootstrap_quantile(&values, q, block_len, valid);
        assert!(quantile(0.9, 12).is_some());
        for (q, block_len) in [(0.5, 13), (0.5, 0), (0.95, 1), (0.05, 1), (f64::NAN, 1)] {
            assert_eq!(quantile(q, block_len), None, "{q} {block_len}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn intervals_lie_within_the_values(
            values in prop::collection::vec(-50.0..50.0_f64, 40..90),
            block_len in 1..5_usize,
            seed in any::<u64>(),
        ) {
            let options = BootstrapOptions { resamples: 200, confidence: 0.9, seed };
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let estimates = [
                bootstrap_interval(&values, mean, options).unwrap(),
                block_bootstrap_quantile(&values, 0.7, block_len, options).unwrap(),
            ];
            for estimate in estimates {
                let Interval { low, high, .. } = estimate.interval;
                prop_assert!(least - 1e-9 <= low && low <= high && high <= greatest + 1e-9);
            }
            prop_assert!(values.contains(&estimates[1].interval.low));
        }
    }
}
