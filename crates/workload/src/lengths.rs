//! The lengths of keys and values in the multithreaded-cache study (akosik/TextileCache, 2016).
//!
//! Its `distribution.py` draws both from distributions of Facebook's ETC pool (Atikoglu et al.,
//! SIGMETRICS 2012, section 5), but not as published there:
//!
//! - `scipy.stats.genextreme` has a shape `c` = −k, which the program does not negate. The keys
//!   therefore have a bounded upper tail (at most 135 bytes) instead of a heavy one.
//! - The values have no share of 0 to 14 bytes of their own, and the generalised Pareto
//!   distribution begins at 1 instead of 15 bytes.
//!
//! A length is a sample without its decimals. In the study's clients it includes the NUL byte that
//! ends a text, so the key or value itself is one byte shorter.

use crate::{Distribution, Purpose, RandomStream};

/// The sign of the shape of the distribution of key lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// As the study's program has it: a bounded upper tail.
    Published,
    /// As the paper has it: a heavy upper tail.
    AsMeant,
}

/// The distribution of value lengths, to which 1 is added.
const VALUE: Distribution = Distribution::Pareto {
    location: 0.0,
    scale: 214.476,
    shape: 0.348_238,
};

impl KeyShape {
    /// Returns the distribution of key lengths.
    #[must_use]
    pub const fn distribution(self) -> Distribution {
        Distribution::Gev {
            location: 30.7984,
            scale: 8.20449,
            shape: match self {
                Self::Published => -0.078_688,
                Self::AsMeant => 0.078_688,
            },
        }
    }

    /// Draws lengths of keys without end. A length below 1 is possible, but is drawn less than once
    /// in 10⁸ times with either shape.
    pub fn key_lengths(self, seed: u64) -> impl Iterator<Item = i64> {
        let distribution = self.distribution();
        let mut stream = RandomStream::new(seed, Purpose::ScriptKeyLength, 0);
        std::iter::repeat_with(move || distribution.sample(&mut stream) as i64)
    }
}

/// Draws lengths of values without end. Each is at least 1.
pub fn value_lengths(seed: u64) -> impl Iterator<Item = i64> {
    let mut stream = RandomStream::new(seed, Purpose::ScriptValueLength, 0);
    std::iter::repeat_with(move || (VALUE.sample(&mut stream) + 1.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_quantiles(distribution: Distribution, expected: [f64; 4]) {
        for (p, expected) in [0.01, 0.5, 0.9, 0.999].into_iter().zip(expected) {
            let quantile = distribution.quantile(p);
            assert!((quantile / expected - 1.0).abs() < 1e-12, "{p}: {quantile}");
        }
    }

    #[test]
    fn shape_has_the_sign_of_scipy_or_of_the_paper() {
        // Computed from the definition in the documentation of scipy.stats.genextreme, with
        // c = 0.078688: loc + scale (1 − (−ln p)^c) ÷ c.
        assert_quantiles(
            KeyShape::Published.distribution(),
            [
                17.484_731_570_485_806,
                33.762_503_521_100_54,
                47.719_184_884_896_876,
                74.516_994_282_747_77,
            ],
        );
        // The same with c = −0.078688, which is the paper's (MATLAB's) k = 0.078688.
        assert_quantiles(
            KeyShape::AsMeant.distribution(),
            [
                18.992_250_986_593_52,
                33.849_233_407_535_1,
                50.997_128_267_079_73,
                106.084_204_445_463_78,
            ],
        );
        // scipy.stats.genpareto: scale ((1 − p)^−c − 1) ÷ c. Its sign is that of the paper.
        assert_quantiles(
            VALUE,
            [
                2.159_332_361_540_949_7,
                168.140_766_237_262_68,
                757.332_199_461_004_7,
                6_210.900_832_778_691,
            ],
        );
    }

    #[test]
    fn lengths_follow_their_distributions() {
        let share_up_to = |lengths: &[i64], most: i64| {
            let count = lengths.iter().filter(|&&len| len <= most).count();
            count as f64 / lengths.len() as f64
        };
        let bound = 1.95 / 40_000_f64.sqrt();
        for shape in [KeyShape::Published, KeyShape::AsMeant] {
            let keys: Vec<i64> = shape.key_lengths(7).take(40_000).collect();
            for most in [20, 30, 40, 60] {
                // A length `most` is a sample below `most` + 1, because its decimals are cut off.
                let expected = shape.distribution().cdf((most + 1) as f64);
                assert!(
                    (share_up_to(&keys, most) - expected).abs() < bound,
                    "{most}"
                );
            }
        }
        let values: Vec<i64> = value_lengths(7).take(40_000).collect();
        assert_eq!(values.iter().min(), Some(&1));
        for most in [1, 100, 1000] {
            let expected = VALUE.cdf(most as f64);
            assert!(
                (share_up_to(&values, most) - expected).abs() < bound,
                "{most}"
            );
        }
    }

    #[test]
    fn lengths_are_the_same_on_every_machine() {
        let keys: Vec<i64> = KeyShape::Published.key_lengths(1).take(8).collect();
        let values: Vec<i64> = value_lengths(1).take(8).collect();
        assert_eq!(keys, [59, 38, 50, 43, 24, 28, 26, 32]);
        assert_eq!(values, [290, 837, 1246, 544, 1354, 80, 20, 9]);
    }
}
