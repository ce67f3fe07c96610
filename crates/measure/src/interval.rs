//! Confidence intervals that assume nothing about the shape of a distribution.
//!
//! Of n independent samples, the number below the true quantile q is binomial (n, q). So the l-th
//! and the u-th smallest enclose the quantile with a probability that the binomial distribution
//! gives exactly, for any distribution of the samples (David & Nagaraja, *Order Statistics*,
//! section 7.1).

use std::fmt;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

/// A confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The confidence attained. Order statistics allow only certain values: it is at least the
    /// requested one where the samples suffice, and less otherwise (three trials give their range,
    /// at 0.75).
    pub confidence: f64,
}

impl Interval {
    /// Whether a value lies in it, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its confidence interval.
    pub interval: Interval,
    /// The number of samples; of the smaller group, where there are two.
    pub samples: usize,
}

impl fmt::Display for Estimate {
    /// Prints `1.03 [1.01, 1.06]`, with two decimals or the formatter's precision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Interval { low, high, .. } = self.interval;
        write!(
            f,
            "{:.digits$} [{low:.digits$}, {high:.digits$}]",
            self.value
        )
    }
}

/// The median. None without values, or where one is not finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    Some(median_of_sorted(&sorted(values)?))
}

/// The median of trials with its interval at a confidence (such as 0.95). None without trials, or
/// where one is not finite.
#[must_use]
pub fn median_of_trials(values: &[f64], confidence: f64) -> Option<Estimate> {
    let sorted = sorted(values)?;
    let interval = interval_of_sorted(&sorted, 0.5, confidence)?;
    Some(Estimate {
        value: median_of_sorted(&sorted),
        interval,
        samples: sorted.len(),
    })
}

/// The values in ascending order. None without values, or where one is not finite.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The median of ascending values, at least one.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        f64::midpoint(sorted[half - 1], sorted[half])
    }
}

fn interval_of_sorted(sorted: &[f64], q: f64, confidence: f64) -> Option<Interval> {
    let ranks = Ranks::of(sorted.len() as u64, q, confidence)?;
    let at = |rank: u64| sorted.get(rank as usize - 1).copied();
    Some(Interval {
        low: at(ranks.low)?,
        high: at(ranks.high)?,
        confidence: ranks.confidence,
    })
}

/// The ranks of the order statistics that enclose a quantile, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranks {
    low: u64,
    high: u64,
    confidence: f64,
}

impl Ranks {
    /// The narrowest ranks with a probability of at most (1 − confidence) ÷ 2 beyond either end;
    /// the least and the greatest sample where there are too few samples for that.
    fn of(count: u64, q: f64, confidence: f64) -> Option<Self> {
        if count == 0 || !(q > 0.0 && q < 1.0 && confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let below = Binomial::new(q, count).ok()?;
        let beyond = (1.0 - confidence) / 2.0;
        let low = below.inverse_cdf(beyond).max(1);
        let high = (below.inverse_cdf(1.0 - beyond) + 1).min(count);
        let confidence = (below.cdf(high - 1) - below.cdf(low - 1)).max(0.0);
        Some(Self {
            low,
            high,
            confidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_shows_its_interval() {
        let estimate = median_of_trials(&[1.031, 1.008, 1.064], 0.95).unwrap();
        assert_eq!(estimate.to_string(), "1.03 [1.01, 1.06]");
        assert_eq!(format!("{estimate:.0}"), "1 [1, 1]");
    }

    #[test]
    fn ranks_match_published_tables() {
        let ranks = |count, q| {
            let ranks = Ranks::of(count, q, 0.95).unwrap();
            (
                ranks.low,
                ranks.high,
                (ranks.confidence * 1e3).round() / 1e3,
            )
        };
        // Medians at 95 %: the sign test's table.
        assert_eq!(ranks(15, 0.5), (4, 12, 0.965));
        assert_eq!(ranks(6, 0.5), (1, 6, 0.969));
        assert_eq!(ranks(3, 0.5), (1, 3, 0.75));
        assert_eq!(ranks(1, 0.5), (1, 1, 0.0));
        let (low, high, confidence) = ranks(1_000_000, 0.99);
        assert!(
            low.abs_diff(989_805) < 3 && high.abs_diff(990_196) < 3,
            "{low} {high}"
        );
        assert!((confidence - 0.95).abs() < 2e-3);
    }

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
    }
}
