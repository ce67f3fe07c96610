//! Distributions of lengths: integers between two bounds.

use crate::Distribution;
use crate::random_stream::unit;

/// Lengths below `min` + this come from a table; longer ones are computed.
const TABLE_LEN_MAX: usize = 2048;

/// Entry points into the table: the top bits of a random word choose one.
const GUIDE_BITS: u32 = 10;

/// A distribution of lengths: samples are rounded to the nearest integer and clamped to the bounds.
///
/// A length is a pure function of 64 random bits. It is the exact inverse of the distribution
/// function: the table holds the boundaries between lengths to 2⁻⁵³, and lengths beyond the table
/// are computed from the distribution itself. A look-up costs a few comparisons where the
/// distribution would cost a logarithm and a power.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeDistribution {
    distribution: Distribution,
    min: u32,
    max: u32,
    /// `ends[i]`: the first 63-bit word that maps to a length above `min + i`; 2⁶³ where none does.
    ends: Vec<u64>,
    /// `guide[top bits]`: the least `i` that a word with these top bits can map to.
    guide: Vec<u16>,
}

impl SizeDistribution {
    /// Lengths of `distribution` within `min..=max`; a `max` below `min` counts as `min`.
    #[must_use]
    pub fn new(distribution: Distribution, min: u32, max: u32) -> Self {
        let max = max.max(min);
        let len = ((max - min) as usize).min(TABLE_LEN_MAX);
        let ends: Vec<u64> = (0..len)
            .map(|i| end(&distribution, f64::from(min) + i as f64))
            .collect();
        let guide = (0..1_u64 << GUIDE_BITS)
            .map(|top| ends.partition_point(|&end| end <= top << (63 - GUIDE_BITS)) as u16)
            .collect();
        Self {
            distribution,
            min,
            max,
            ends,
            guide,
        }
    }

    /// The length that `bits` map to.
    #[inline]
    #[must_use]
    pub fn len_of(&self, bits: u64) -> u32 {
        let mut i = usize::from(self.guide[(bits >> (64 - GUIDE_BITS)) as usize]);
        while let Some(&end) = self.ends.get(i) {
            if bits >> 1 < end {
                return self.min + i as u32;
            }
            i += 1;
        }
        self.long_len_of(bits)
    }

    /// The distribution.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The least and the greatest length.
    #[must_use]
    pub fn bounds(&self) -> (u32, u32) {
        (self.min, self.max)
    }

    #[cold]
    fn long_len_of(&self, bits: u64) -> u32 {
        let table_end = self.min + self.ends.len() as u32;
        // `as` saturates at the maximum of the type; the clamp applies the bounds.
        (libm::round(self.distribution.quantile(unit(bits))) as u32).clamp(table_end, self.max)
    }
}

/// The first 63-bit word that maps to a length above `length`.
fn end(distribution: &Distribution, length: f64) -> u64 {
    // Lengths are separated at the halves, where a distribution on the integers has no steps.
    (distribution.cdf(length + 0.5) * 2.0_f64.powi(63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, RandomStream};

    fn distribution(text: &str) -> Distribution {
        text.parse().unwrap()
    }

    #[test]
    fn the_table_agrees_with_the_distribution() {
        for text in [
            "fb_key",
            "fb_value",
            "uniform:9,300",
            "normal:40,12",
            "exponential:0.001",
        ] {
            let sizes = SizeDistribution::new(distribution(text), 4, 100_000);
            let mut stream = RandomStream::new(3, Purpose::Other, 0);
            for _ in 0..20_000 {
                let bits = stream.next_u64();
                let exact = distribution(text)
                    .quantile(unit(bits))
                    .round()
                    .clamp(4.0, 100_000.0);
                assert_eq!(f64::from(sizes.len_of(bits)), exact, "{text} {bits:#x}");
            }
        }
    }

    #[test]
    fn lengths_stay_within_bounds() {
        for text in [
            "fixed:0",
            "fixed:1000",
            "normal:-5,100",
            "pareto:0,1,3",
            "fixed:1e300",
        ] {
            let sizes = SizeDistribution::new(distribution(text), 4, 250);
            for bits in [0, 1, u64::MAX / 2, u64::MAX] {
                assert!((4..=250).contains(&sizes.len_of(bits)), "{text}");
            }
        }
        assert_eq!(
            SizeDistribution::new(distribution("fixed:9"), 5, 3).len_of(77),
            5
        );
    }

    #[test]
    fn a_fixed_distribution_is_always_its_length() {
        let sizes = SizeDistribution::new(distribution("fixed:200"), 0, 1_000_000);
        for bits in [0, 12_345, 1 << 63, u64::MAX] {
            assert_eq!(sizes.len_of(bits), 200);
        }
        assert_eq!(
            SizeDistribution::new(distribution("fixed:70000"), 0, 1_000_000).len_of(9),
            70_000
        );
    }
}
