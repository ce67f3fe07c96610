//! The end of a series' warm-up.
//!
//! ```text
//!      │●●
//!      │  ●●                    MSER(d) = Σ (zᵢ − mean)² ÷ (b − d)²   over the batches i ≥ d
//!      │    ●●●
//!      │       ●●●●●●●●●●●●     cutting the warm-up lowers the variance of the rest;
//!      └───────┬───────────     cutting more only lowers the number of batches
//!              d
//! ```
//!
//! MSER-5: of the means z of b batches of five samples, cut the first d, where d is such that the
//! squared standard error of the mean of the rest is least (White, *An effective truncation
//! heuristic for bias reduction in simulation output*, Simulation 69, 1997; batches of five: White,
//! Cobb & Spratt, *A comparison of five steady-state truncation heuristics for simulation*, Winter
//! Simulation Conference 2000).

use crate::limits::{WARM_UP_BATCH_LEN, WARM_UP_BATCHES_MIN, WARM_UP_LAST_BATCHES};

/// The index of the first sample after the warm-up of a series in the order of its time, a multiple
/// of five; 0 where there is no warm-up to cut.
///
/// None where more than half of the samples would be cut: the series has not settled and is too
/// short (the rule of the same authors). Such an end can also occur by chance, because the last
/// batches may lie close together: in 13 % of settled series of 100 independent samples, 4 % of 200
/// and 0.5 % of 1000. Use the means of intervals, or throughputs, rather than single latencies,
/// whose rare large values hide a change of the mean.
///
/// None also with fewer than [`WARM_UP_BATCHES_MIN`] × 5 samples, or where one is not finite. A
/// rest of fewer than five samples at the end is not examined.
#[must_use]
pub fn warm_up(series: &[f64]) -> Option<usize> {
    if !series.iter().all(|value| value.is_finite()) {
        return None;
    }
    let batches: Vec<f64> = series
        .chunks_exact(WARM_UP_BATCH_LEN)
        .map(|batch| batch.iter().sum::<f64>() / WARM_UP_BATCH_LEN as f64)
        .collect();
    if batches.len() < WARM_UP_BATCHES_MIN {
        return None;
    }
    let (cut, _) = squared_errors(&batches)
        .enumerate()
        .skip(WARM_UP_LAST_BATCHES - 1)
        .map(|(at, error)| (batches.len() - 1 - at, error))
        // Of equal errors, the one that cuts least.
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))?;
    let first = cut * WARM_UP_BATCH_LEN;
    (2 * first <= series.len()).then_some(first)
}

/// MSER(d), from d = the last batch to 0. The sum of squares is updated (Welford, *Note on a method
/// for calculating corrected sums of squares and products*, Technometrics 4, 1962), which loses no
/// digits where the mean is large.
fn squared_errors(batches: &[f64]) -> impl Iterator<Item = f64> {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    batches.iter().rev().map(move |value| {
        count += 1.0;
        let from_old_mean = value - mean;
        mean += from_old_mean / count;
        squares += from_old_mean * (value - mean);
        squares / (count * count)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Uniform between −½ and ½.
    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..count)
            .map(|_| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5)
            .collect()
    }

    #[test]
    fn errors_of_four_batches_by_hand() {
        // Of 1; 3, 1; 2, 3, 1; 8, 2, 3, 1: the sums of squares are 0, 2, 2 and 29.
        let seen: Vec<f64> = squared_errors(&[8.0, 2.0, 3.0, 1.0]).collect();
        let expected = [0.0, 2.0 / 4.0, 2.0 / 9.0, 29.0 / 16.0];
        assert!(
            seen.iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
    }

    #[test]
    fn a_step_is_cut_where_it_ends() {
        let mut series = [10.0; 200];
        series[..35].fill(90.0);
        assert_eq!(warm_up(&series), Some(35));
        // A step within a batch: the whole batch is cut.
        series[35..37].fill(90.0);
        assert_eq!(warm_up(&series), Some(40));
    }

    #[test]
    fn a_series_that_has_settled_keeps_its_first_sample() {
        assert_eq!(warm_up(&[7.1; 100]), Some(0));
        let cut = warm_up(&noise(2000, 3)).unwrap();
        assert!(cut < 500, "{cut}");
    }

    #[test]
    fn a_decaying_excess_is_cut_and_most_of_the_rest_is_kept() {
        let mut series = noise(2000, 5);
        for (at, value) in series.iter_mut().enumerate() {
            *value += 10.0 * (-(at as f64) / 60.0).exp();
        }
        // The excess is that of the noise, 0.3, after 210 samples.
        let cut = warm_up(&series).unwrap();
        assert!((100..500).contains(&cut), "{cut}");
    }

    #[test]
    fn a_series_that_has_not_settled_is_too_short() {
        let ramp: Vec<f64> = (0..300).map(f64::from).collect();
        assert_eq!(warm_up(&ramp), None);
        let mut step = [10.0; 200];
        step[..100].fill(90.0);
        assert_eq!(warm_up(&step), Some(100));
        step[..101].fill(90.0);
        assert_eq!(warm_up(&step), None);
    }

    #[test]
    fn few_or_invalid_samples_have_no_end() {
        assert_eq!(warm_up(&[1.0; 99]), None);
        assert_eq!(warm_up(&[]), None);
        let mut series = [1.0; 200];
        series[150] = f64::NAN;
        assert_eq!(warm_up(&series), None);
    }

    #[test]
    fn a_settled_series_is_seldom_called_too_short() {
        let short = (0..1000).filter(|&seed| warm_up(&noise(1000, seed)).is_none());
        let count = short.count();
        assert!(count < 20, "{count} of 1000");
    }

    proptest! {
        #[test]
        fn the_cut_is_the_least_error_of_the_definition(
            series in prop::collection::vec(-100.0..100.0_f64, 100..300),
            step in 0.0..500.0_f64,
            end in 0..300_usize,
        ) {
            let mut series = series;
            series.iter_mut().take(end).for_each(|value| *value += step);
            let batches: Vec<f64> =
                series.chunks_exact(5).map(|batch| batch.iter().sum::<f64>() / 5.0).collect();
            let error = |cut: usize| {
                let rest = &batches[cut..];
                let count = rest.len() as f64;
                let mean = rest.iter().sum::<f64>() / count;
                rest.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / (count * count)
            };
            let least = (0..=batches.len() - 5).map(error).fold(f64::INFINITY, f64::min);
            match warm_up(&series) {
                Some(first) => {
                    prop_assert!(first % 5 == 0 && 2 * first <= series.len());
                    prop_assert!(error(first / 5) <= least * (1.0 + 1e-9));
                }
                None => {
                    let kept = (0..=batches.len() - 5).filter(|cut| 10 * cut <= series.len());
                    prop_assert!(kept.map(error).all(|own| own >= least * (1.0 - 1e-9)));
                }
            }
        }
    }
}
