//! How many repeats would decide an effect, from the spread of a few.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::limits::{REPEATS_MAX, REPEATS_MIN};

/// The probability with which the repeats decide an effect of the size that was asked for.
pub const POWER: f64 = 0.8;
const CONFIDENCE: f64 = 0.95;
/// Values that a comparison of means needs for each one of [`crate::RankTest`], of normal
/// distributions (3 ÷ π; Hodges & Lehmann 1956).
const RANK_EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// The standard deviation of the logarithms of values within groups: about the relative spread of
/// trials of one cell. None: no group has two positive values.
#[must_use]
pub fn pooled_spread<'a>(groups: impl IntoIterator<Item = &'a [f64]>) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0);
    for group in groups {
        let logs = group.iter().filter(|it| **it > 0.0 && it.is_finite());
        let logs: Vec<f64> = logs.map(|it| it.ln()).collect();
        if logs.len() < 2 {
            continue;
        }
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    (freedom > 0).then(|| (squares / freedom as f64).sqrt())
}

/// The repeats of each of two cells with which the 95 % interval of their ratio excludes 1, with
/// probability [`POWER`], if the true ratio differs from 1 by `effect`. None: more than
/// [`REPEATS_MAX`].
///
/// The usual formula for two means of normal values (here logarithms), with Student's t and the
/// efficiency of ranks. The least is [`REPEATS_MIN`], below which ranks decide nothing.
#[must_use]
pub fn repeats_to_decide(spread: f64, effect: f64) -> Option<u32> {
    let needed = |repeats: u32| {
        let student = StudentsT::new(0.0, 1.0, f64::from(2 * repeats - 2)).ok()?;
        let quantiles =
            student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)) + student.inverse_cdf(POWER);
        let standard = spread * quantiles / effect.ln_1p();
        Some(2.0 * standard.powi(2) / RANK_EFFICIENCY)
    };
    // The more repeats, the fewer Student's t needs: the least is found from below.
    let mut repeats = needed(REPEATS_MAX)?.max(f64::from(REPEATS_MIN)) as u32;
    while repeats <= REPEATS_MAX {
        if needed(repeats)? <= f64::from(repeats) {
            return Some(repeats);
        }
        repeats += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::RankTest;

    /// A normal value, by Box and Muller.
    fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let (radius, angle) = (1.0 - uniform(), uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// The share of simulated comparisons that are decided.
    fn decided(spread: f64, effect: f64, repeats: u32) -> f64 {
        const COMPARISONS: u32 = 400;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut cell = |median: f64| -> Vec<f64> {
            let trial = |_| median * (spread * normal(&mut random)).exp();
            (0..repeats).map(trial).collect()
        };
        let comparisons = (0..COMPARISONS).filter(|_| {
            let (slow, fast) = (cell(1.0 + effect), cell(1.0));
            let ratio = RankTest::of(&slow, &fast, CONFIDENCE)
                .unwrap()
                .ratio
                .unwrap();
            ratio.interval.low > 1.0
        });
        comparisons.count() as f64 / f64::from(COMPARISONS)
    }

    #[test]
    fn the_repeats_decide_four_of_five_simulated_comparisons() {
        for (spread, effect) in [(0.02, 0.02), (0.05, 0.05), (0.10, 0.05), (0.03, 0.10)] {
            let repeats = repeats_to_decide(spread, effect).unwrap();
            let share = decided(spread, effect, repeats);
            let most = match repeats {
                REPEATS_MIN => 1.0,
                _ => 0.88,
            };
            assert!(
                (0.74..=most).contains(&share),
                "{spread} {effect}: {repeats} repeats decide {share}"
            );
        }
    }

    #[test]
    fn fewer_repeats_decide_larger_effects_and_smaller_spreads() {
        let repeats = |spread, effect| repeats_to_decide(spread, effect).unwrap();
        assert!(repeats(0.05, 0.02) > repeats(0.05, 0.05));
        assert!(repeats(0.05, 0.05) > repeats(0.02, 0.05));
        assert_eq!(repeats(0.0, 0.02), REPEATS_MIN);
        assert_eq!(repeats_to_decide(1.0, 0.02), None);
    }

    #[test]
    fn the_spread_is_that_within_groups() {
        let [low, high] = [[100.0, 110.0], [1000.0, 1100.0]];
        let spread = pooled_spread([&low[..], &high[..], &[5.0], &[-1.0, 0.0]]).unwrap();
        assert!(
            (spread - 1.1_f64.ln() / 2.0_f64.sqrt()).abs() < 1e-12,
            "{spread}"
        );
        assert_eq!(pooled_spread([&[5.0][..]]), None);
    }
}
