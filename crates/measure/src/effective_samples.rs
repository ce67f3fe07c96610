//! The number of independent samples that an autocorrelated series is worth.
//!
//! Latencies that follow each other share a queue, so n of them determine a mean less closely than
//! n independent ones would. With ρ(k) the autocorrelation at lag k, the variance of the mean is
//! that of n ÷ τ independent samples, where τ = 1 + 2 Σ ρ(k) over k ≥ 1.
//!
//! The estimates of ρ(k) at large lags are noise, and their sum over all lags is always −½. The sum
//! must therefore end early: here by the initial monotone sequence of Geyer (*Practical Markov
//! Chain Monte Carlo*, Statistical Science 7, 1992, section 3.3). The sums of pairs, Γ(j) = ρ(2j) +
//! ρ(2j + 1), are positive and decreasing for a reversible Markov chain. So the sum ends at the
//! first Γ that is not positive, and none counts for more than the one before it.

use crate::limits::AUTOCORRELATION_PRODUCTS_MAX;

/// The effective sample size of a series in the order of its time, 1 to its length. A series whose
/// samples alternate about their mean is worth more than its length for the mean; it is given its
/// length.
///
/// This is the size for a *mean*; for a percentile, pass 1 for each sample above it and 0 for each
/// below. Series that are not reversible Markov chains, as latencies, may break off early at a
/// negative Γ, and then have fewer effective samples than stated.
///
/// None with fewer than two samples, where one is not finite, or where all are equal. None also
/// where the correlation lasts over more lags than [`AUTOCORRELATION_PRODUCTS_MAX`] allows to
/// compute; means of successive samples give a shorter series.
#[must_use]
pub fn effective_samples(series: &[f64]) -> Option<f64> {
    within_products(series, AUTOCORRELATION_PRODUCTS_MAX)
}

/// [`effective_samples`] with at most `products_max` products.
fn within_products(series: &[f64], products_max: usize) -> Option<f64> {
    let (&first, rest) = series.split_first()?;
    // Rounding could give equal samples a variance.
    if rest.iter().all(|&value| value == first) {
        return None;
    }
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let covariance = |lag: usize| -> f64 {
        let pairs = centred.iter().zip(centred.iter().skip(lag));
        pairs.map(|(earlier, later)| earlier * later).sum::<f64>() / count
    };
    let variance = covariance(0);
    // NaN and infinity fail too: samples that are not finite, or squares that overflow.
    if !(variance > 0.0 && variance.is_finite()) {
        return None;
    }
    let (mut least, mut sum) = (f64::INFINITY, 0.0);
    for lag in (0..series.len()).step_by(2) {
        if series.len().saturating_mul(lag + 2) > products_max {
            return None;
        }
        let pair = (covariance(lag) + covariance(lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        least = pair.min(least);
        sum += least;
    }
    // ρ(0) = 1 is in the first pair and counts once.
    let autocorrelation_time = 2.0 * sum - 1.0;
    Some((count / autocorrelation_time.max(1.0)).max(1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Each sample is `correlation` × the one before + an error that is uniform about 0.
    fn autoregressive(count: usize, correlation: f64, seed: u64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut last = 0.0;
        (0..count)
            .map(|_| {
                let error = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
                last = correlation * last + error;
                last
            })
            .collect()
    }

    #[test]
    fn four_samples_by_hand() {
        // ρ = 1, ¼, −½, −¼: the first pair is 1.25, the second negative; τ = 1.5.
        let seen = effective_samples(&[1.0, 1.0, -1.0, -1.0]).unwrap();
        assert!((seen - 4.0 / 1.5).abs() < 1e-12, "{seen}");
        // ρ = 1, −¾, ½, −¼: two pairs of ¼; τ = 0, which is less than for independence.
        assert_eq!(effective_samples(&[1.0, -1.0, 1.0, -1.0]), Some(4.0));
    }

    #[test]
    fn a_pair_counts_for_no_more_than_the_one_before() {
        // Mean 0; sums of products at lags 0 to 5: 24, −11, 2, 12, −13, 6. So 24 Γ = 13, 14, −7:
        // the second counts as 13, the third ends the sum. τ = 2 × 26 ÷ 24 − 1 = 7 ÷ 6.
        let series = [-2.0, 1.0, -2.0, 0.0, 1.0, -2.0, 2.0, 1.0, -1.0, 2.0];
        let seen = effective_samples(&series).unwrap();
        assert!((seen - 60.0 / 7.0).abs() < 1e-12, "{seen}");
    }

    #[test]
    fn an_autoregressive_series_has_the_size_of_theory() {
        // τ = (1 + φ) ÷ (1 − φ).
        for (correlation, time) in [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)] {
            let count = 40_000;
            let seen = effective_samples(&autoregressive(count, correlation, 5)).unwrap();
            let expected = count as f64 / time;
            assert!(
                (seen / expected - 1.0).abs() < 0.2,
                "{correlation}: {seen}, not {expected}"
            );
        }
    }

    #[test]
    fn a_trend_is_worth_few_samples() {
        let trend: Vec<f64> = (0..1000).map(f64::from).collect();
        let seen = effective_samples(&trend).unwrap();
        assert!((1.0..4.0).contains(&seen), "{seen}");
    }

    #[test]
    fn series_without_a_variance_have_no_size() {
        assert_eq!(effective_samples(&[]), None);
        assert_eq!(effective_samples(&[1.0]), None);
        assert_eq!(effective_samples(&[0.1; 3]), None);
        assert_eq!(effective_samples(&[1.0, f64::NAN]), None);
        assert_eq!(effective_samples(&[1.0, f64::INFINITY]), None);
        assert_eq!(effective_samples(&[1e300, -1e300]), None);
    }

    #[test]
    fn a_correlation_over_too_many_lags_is_not_computed() {
        let mut step = [0.0; 100];
        step[50..].fill(1.0);
        // The covariance is positive up to lag 33, so 34 lags of 100 products are needed.
        assert!(within_products(&step, 100 * 100).is_some());
        assert_eq!(within_products(&step, 100 * 30), None);
        assert_eq!(within_products(&step, 199), None);
    }

    proptest! {
        #[test]
        fn it_lies_between_one_and_the_length_at_any_scale(
            series in prop::collection::vec(-100.0..100.0_f64, 2..80),
            scale in 0.1..50.0_f64,
        ) {
            let seen = effective_samples(&series);
            let is_within = |&size: &f64| (1.0..=series.len() as f64).contains(&size);
            prop_assert!(seen.as_ref().is_none_or(is_within), "{:?}", seen);
            let scaled: Vec<f64> = series.iter().map(|value| 3.0 + value * scale).collect();
            if let (Some(one), Some(other)) = (seen, effective_samples(&scaled)) {
                prop_assert!((one - other).abs() < 1e-6 * one, "{} {}", one, other);
            }
        }
    }
}
