//! The ETC pool of Facebook, as published.
//!
//! Atikoglu et al., SIGMETRICS 2012, section 5: key sizes after a generalised extreme value
//! distribution; value sizes of 0 to 14 bytes by their own shares (table 3), the others after a
//! generalised Pareto distribution; gaps between requests, in microseconds, after a generalised
//! Pareto distribution.

use super::Distribution;

/// Lengths of keys.
pub(super) const KEY: Distribution = Distribution::Gev {
    location: 30.7984,
    scale: 8.20449,
    shape: 0.078_688,
};

/// Gaps between requests.
pub(super) const ARRIVAL: Distribution = Distribution::Pareto {
    location: 0.0,
    scale: 16.0292,
    shape: 0.154_971,
};

/// Lengths of values from 15 on.
const LONG_VALUE: Distribution = Distribution::Pareto {
    location: 15.0,
    scale: 214.476,
    shape: 0.348_238,
};

/// The shares of values of 0 to 14 bytes: in units of 1/100 000, so that sums are exact.
const SHORT_VALUES: [u32; 15] = [
    536, 47, 17_820, 9_239, 18, 2_740, 65, 606, 23, 837, 837, 8_989, 92, 326, 1_980,
];

/// The share of values below 15 bytes.
const SHORT_SHARE: f64 = sum(SHORT_VALUES.len()) as f64 / UNITS;

const UNITS: f64 = 100_000.0;

pub(super) fn value_quantile(p: f64) -> f64 {
    if p >= SHORT_SHARE {
        // Rounding must not give a value below the least, nor the infinite upper end.
        return LONG_VALUE.quantile(((p - SHORT_SHARE) / (1.0 - SHORT_SHARE)).min(1.0 - 1e-16));
    }
    let mut below = 0;
    for (length, share) in SHORT_VALUES.iter().enumerate() {
        below += share;
        if p <= f64::from(below) / UNITS {
            return length as f64;
        }
    }
    SHORT_VALUES.len() as f64
}

pub(super) fn value_cdf(x: f64) -> f64 {
    if x < 0.0 {
        return 0.0;
    }
    if x < SHORT_VALUES.len() as f64 {
        return f64::from(sum(x as usize + 1)) / UNITS;
    }
    SHORT_SHARE + (1.0 - SHORT_SHARE) * LONG_VALUE.cdf(x)
}

pub(super) fn value_mean() -> Option<f64> {
    let short: f64 = (0_u32..)
        .zip(SHORT_VALUES)
        .map(|(length, share)| f64::from(length * share))
        .sum();
    LONG_VALUE
        .mean()
        .map(|long| short / UNITS + (1.0 - SHORT_SHARE) * long)
}

/// The sum of the shares of the first `count` lengths.
const fn sum(count: usize) -> u32 {
    let mut total = 0;
    let mut i = 0;
    while i < count {
        total += SHORT_VALUES[i];
        i += 1;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_are_the_published_share() {
        assert_eq!(sum(15), 44_155);
        assert!((value_cdf(14.0) - 0.44155).abs() < 1e-12);
        assert_eq!(value_cdf(-0.1), 0.0);
    }

    #[test]
    fn a_value_of_two_bytes_is_the_commonest() {
        assert_eq!(value_quantile(0.01), 2.0);
        assert_eq!(value_quantile(0.18), 2.0);
        assert_eq!(value_quantile(0.19), 3.0);
        assert!(value_quantile(0.4416) >= 15.0);
        assert!(value_quantile(1.0 - 1e-16).is_finite());
    }
}
