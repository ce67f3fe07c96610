//! Ratios between groups of trials.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::bootstrap::{index_below, middle_of};
use crate::interval::{Estimate, median_of_sorted, median_of_trials, sorted};
use crate::limits::{BOOTSTRAP_RESAMPLES, BOOTSTRAP_SAMPLES_MIN};

/// The ratio of two groups' medians, with a percentile bootstrap interval (Efron & Tibshirani, *An
/// Introduction to the Bootstrap*, chapter 13): each group is resampled on its own.
///
/// The same seed gives the same interval. None where a group has fewer than
/// [`BOOTSTRAP_SAMPLES_MIN`] values, for which [`crate::RankTest`] is exact, or a value that is not
/// a positive finite number, where a ratio overflows, or where the confidence is not between 0 and
/// 1.
#[must_use]
pub fn ratio_of_medians(
    numerator: &[f64],
    denominator: &[f64],
    confidence: f64,
    seed: u64,
) -> Option<Estimate> {
    let (numerator, denominator) = (positive(numerator)?, positive(denominator)?);
    let samples = numerator.len().min(denominator.len());
    if samples < BOOTSTRAP_SAMPLES_MIN || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut drawn = Vec::new();
    let ratios = (0..BOOTSTRAP_RESAMPLES)
        .map(|_| {
            resampled(&numerator, &mut drawn, &mut random)
                / resampled(&denominator, &mut drawn, &mut random)
        })
        .collect();
    Some(Estimate {
        value: median_of_sorted(&numerator) / median_of_sorted(&denominator),
        interval: middle_of(ratios, confidence)?,
        samples,
    })
}

/// The median of the ratios within pairs (first ÷ second), such as trials of the same repeat, with
/// its interval by order statistics, which is exact for any number of pairs. None without pairs, or
/// where a value is not positive and finite.
#[must_use]
pub fn paired_ratio(pairs: &[(f64, f64)], confidence: f64) -> Option<Estimate> {
    let good = |value: f64| value.is_finite() && value > 0.0;
    if !pairs
        .iter()
        .all(|&(first, second)| good(first) && good(second))
    {
        return None;
    }
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| first / second).collect();
    median_of_trials(&ratios, confidence)
}

/// The values in ascending order. None without values, or where one is not positive and finite.
fn positive(values: &[f64]) -> Option<Vec<f64>> {
    sorted(values).filter(|sorted| sorted[0] > 0.0)
}

/// The median of a resample with replacement; `drawn` is a buffer for the drawn ranks.
fn resampled(sorted: &[f64], drawn: &mut Vec<usize>, random: &mut Xoshiro256PlusPlus) -> f64 {
    let count = sorted.len();
    drawn.clear();
    drawn.extend((0..count).map(|_| index_below(count, random)));
    let half = count / 2;
    let (below, &mut upper, _) = drawn.select_nth_unstable(half);
    if count % 2 == 1 {
        return sorted[upper];
    }
    let lower = below.iter().copied().max().unwrap_or(upper);
    f64::midpoint(sorted[lower], sorted[upper])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let a: Vec<f64> = (1..=15).map(|i| 100.0 + f64::from(i * i % 7)).collect();
        let b: Vec<f64> = (1..=15).map(|i| 50.0 + f64::from(i * i % 5)).collect();
        let once = ratio_of_medians(&a, &b, 0.95, 7).unwrap();
        assert_eq!(ratio_of_medians(&a, &b, 0.95, 7), Some(once));
        assert!(once.interval.contains(once.value));
        assert!((once.value - 102.0 / 51.0).abs() < 1e-12, "{once:?}");
        assert!(
            once.interval.low > 1.85 && once.interval.high < 2.1,
            "{once:?}"
        );
    }

    #[test]
    fn pairs_cancel_what_they_share() {
        let pairs: Vec<(f64, f64)> = (1..=15)
            .map(|i| (f64::from(i) * 1.03, f64::from(i)))
            .collect();
        let ratio = paired_ratio(&pairs, 0.95).unwrap();
        assert!((ratio.interval.low - 1.03).abs() < 1e-9);
        assert!((ratio.interval.high - 1.03).abs() < 1e-9);
    }

    #[test]
    fn too_few_or_impossible_values_have_no_ratio() {
        let enough = [1.0; BOOTSTRAP_SAMPLES_MIN];
        assert!(ratio_of_medians(&enough, &enough, 0.95, 1).is_some());
        assert_eq!(ratio_of_medians(&enough[1..], &enough, 0.95, 1), None);
        assert_eq!(ratio_of_medians(&[0.0; 9], &enough, 0.95, 1), None);
        assert_eq!(ratio_of_medians(&enough, &enough, 1.0, 1), None);
        assert_eq!(paired_ratio(&[(1.0, 0.0)], 0.95), None);
        assert_eq!(paired_ratio(&[], 0.95), None);
    }
}
