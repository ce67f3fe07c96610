//! Ratios within pairs of trials.

use crate::interval::{Estimate, median_of_trials};

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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn impossible_values_have_no_ratio() {
        assert_eq!(paired_ratio(&[(1.0, 0.0)], 0.95), None);
        assert_eq!(paired_ratio(&[], 0.95), None);
    }
}
