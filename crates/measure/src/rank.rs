//! Compares two groups by ranks alone; assumes no normality.
//!
//! Wilcoxon's rank-sum test (Mann & Whitney's U; Mann & Whitney 1947), its effect size A₁₂ (Vargha
//! & Delaney 2000) and the shift that goes with it (Hodges & Lehmann 1963; Hollander, Wolfe &
//! Chicken, *Nonparametric Statistical Methods*, sections 4.1 to 4.3).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::interval::{Estimate, Interval, median_of_sorted, sorted};
use crate::limits::{RANK_EXACT_PAIRS_MAX, RANK_SAMPLES_MAX};

/// Two groups compared by ranks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankTest {
    /// Pairs (one value of each group) in which the first is greater; ties count half.
    pub u: f64,
    /// The probability of a difference at least this large if the groups have the same distribution
    /// (two-sided). Exact for up to 2500 pairs without ties; otherwise the normal approximation,
    /// corrected for ties.
    pub p_value: f64,
    /// The probability that a value of the first group exceeds one of the second: 0.5 for equal
    /// distributions.
    pub a12: f64,
    /// First − second: the median difference over all pairs.
    pub shift: Estimate,
    /// First ÷ second: the median ratio over all pairs. None where a value is not positive.
    pub ratio: Option<Estimate>,
}

impl RankTest {
    /// Compares two groups. None where one is empty, has more than [`RANK_SAMPLES_MAX`] values or
    /// one that is not a finite number, or where the confidence is not between 0 and 1.
    #[must_use]
    pub fn of(first: &[f64], second: &[f64], confidence: f64) -> Option<Self> {
        let (first, second) = (sorted(first)?, sorted(second)?);
        let too_many = first.len().max(second.len()) > RANK_SAMPLES_MAX;
        if too_many || !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let null = Null::new(first.len(), second.len());
        let pairs = (first.len() * second.len()) as f64;
        let u = pairs_won(&first, &second);
        let mut both = [first.as_slice(), second.as_slice()].concat();
        both.sort_by(f64::total_cmp);
        let shift = null.middle_of_pairs(&first, &second, confidence);
        let ratio = (both[0] > 0.0).then(|| {
            let logs = |values: &[f64]| values.iter().map(|x| x.ln()).collect::<Vec<f64>>();
            null.middle_of_pairs(&logs(&first), &logs(&second), confidence)
                .map(f64::exp)
        });
        Some(Self {
            u,
            p_value: null.p_value(u, &both),
            a12: u / pairs,
            shift,
            ratio,
        })
    }
}

impl Estimate {
    /// The estimate on another scale; `to` must be increasing.
    fn map(self, to: impl Fn(f64) -> f64) -> Self {
        let Interval {
            low,
            high,
            confidence,
        } = self.interval;
        let interval = Interval {
            low: to(low),
            high: to(high),
            confidence,
        };
        Self {
            value: to(self.value),
            interval,
            samples: self.samples,
        }
    }
}

/// The number of pairs in which the first is greater, ties as halves. Both inputs are ascending.
fn pairs_won(first: &[f64], second: &[f64]) -> f64 {
    first
        .iter()
        .map(|a| {
            let below = second.partition_point(|b| b < a);
            let to = second.partition_point(|b| b <= a);
            (below + to) as f64 / 2.0
        })
        .sum()
}

/// The null distribution of U: for two groups of these sizes with the same distribution.
struct Null {
    first: usize,
    second: usize,
    /// P(U ≤ u) for u from 0; empty where it is approximated.
    cumulative: Vec<f64>,
}

impl Null {
    fn new(first: usize, second: usize) -> Self {
        let exact = first * second <= RANK_EXACT_PAIRS_MAX;
        let cumulative = if exact {
            exact_cumulative(first, second)
        } else {
            Vec::new()
        };
        Self {
            first,
            second,
            cumulative,
        }
    }

    fn pairs(&self) -> usize {
        self.first * self.second
    }

    fn p_value(&self, u: f64, both_sorted: &[f64]) -> f64 {
        let ties = ties(both_sorted);
        // The smaller tail: U and its mirror image have the same distribution.
        let least = u.min(self.pairs() as f64 - u);
        if ties == 0.0 && !self.cumulative.is_empty() {
            return (2.0 * self.cdf(least)).min(1.0);
        }
        let deviation = self.deviation(ties);
        if deviation == 0.0 {
            return 1.0;
        }
        let off = (self.pairs() as f64 / 2.0 - least - 0.5).max(0.0);
        (2.0 * normal_cdf(-off / deviation)).min(1.0)
    }

    /// The median over all pairs of first − second, with its interval by the null distribution of
    /// U: the l-th of the ascending differences from either end, with P(U < l) at most (1 −
    /// confidence) ÷ 2.
    fn middle_of_pairs(&self, first: &[f64], second: &[f64], confidence: f64) -> Estimate {
        let mut differences: Vec<f64> = first
            .iter()
            .flat_map(|a| second.iter().map(move |b| a - b))
            .collect();
        differences.sort_by(f64::total_cmp);
        let beyond = (1.0 - confidence) / 2.0;
        let half = self.pairs().div_ceil(2);
        let (mut inside, mut outside) = (1, half.max(1) + 1);
        // Binary search for the greatest such l; 1 where none is.
        while outside - inside > 1 {
            let l = usize::midpoint(inside, outside);
            if self.cdf(l as f64 - 1.0) <= beyond {
                inside = l;
            } else {
                outside = l;
            }
        }
        let attained = (1.0 - 2.0 * self.cdf(inside as f64 - 1.0)).max(0.0);
        Estimate {
            value: median_of_sorted(&differences),
            interval: Interval {
                low: differences[inside - 1],
                high: differences[differences.len() - inside],
                confidence: attained,
            },
            samples: self.first.min(self.second),
        }
    }

    /// P(U ≤ u), without ties.
    fn cdf(&self, u: f64) -> f64 {
        if u < 0.0 {
            return 0.0;
        }
        if self.cumulative.is_empty() {
            return normal_cdf((u + 0.5 - self.pairs() as f64 / 2.0) / self.deviation(0.0));
        }
        self.cumulative.get(u as usize).copied().unwrap_or(1.0)
    }

    /// The standard deviation of U; `ties` is the sum of t³ − t over groups of t equal values.
    fn deviation(&self, ties: f64) -> f64 {
        let all = (self.first + self.second) as f64;
        let spread = all + 1.0 - ties / (all * (all - 1.0));
        (self.pairs() as f64 / 12.0 * spread).max(0.0).sqrt()
    }
}

/// P(U ≤ u), by recursion over the group of the greatest value: with probability m ÷ (m + n) it
/// belongs to the first group and is then the greater in all its n pairs.
fn exact_cumulative(first: usize, second: usize) -> Vec<f64> {
    let len = first * second + 1;
    // chances[n]: the distribution of U for the current m and n.
    let mut chances = vec![vec![0.0; len]; second + 1];
    for law in &mut chances {
        law[0] = 1.0;
    }
    for m in 1..=first {
        let before = chances.clone();
        for n in 1..=second {
            let wins = m as f64 / (m + n) as f64;
            let (done, rest) = chances.split_at_mut(n);
            for (u, chance) in rest[0].iter_mut().enumerate().take(m * n + 1) {
                let won = if u >= n { before[n][u - n] } else { 0.0 };
                *chance = wins * won + (1.0 - wins) * done[n - 1][u];
            }
        }
    }
    let mut total = 0.0;
    chances[second]
        .iter()
        .map(|chance| {
            total += chance;
            total
        })
        .collect()
}

/// The sum of t³ − t over groups of t equal values. Ascending.
fn ties(sorted: &[f64]) -> f64 {
    let cube = |group: &[f64]| (group.len() as f64).powi(3) - group.len() as f64;
    sorted.chunk_by(|a, b| a == b).map(cube).sum()
}

fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_law_is_that_of_the_tables() {
        // C(6, 3) = 20 orders: U of 0, 1, 2, 3, … in 1, 1, 2, 3, … of them.
        let expected = [1.0, 2.0, 4.0, 7.0, 10.0, 13.0, 16.0, 18.0, 19.0, 20.0];
        for (seen, orders) in exact_cumulative(3, 3).iter().zip(expected) {
            assert!((seen - orders / 20.0).abs() < 1e-12);
        }
        // Critical values at 5 %, two-sided: 64 for 15 and 15, 23 for 10 and 10.
        for (n, critical) in [(15, 64), (10, 23)] {
            let law = exact_cumulative(n, n);
            assert!(law[critical] <= 0.025 && law[critical + 1] > 0.025, "{n}");
        }
        // Two groups of unequal size: C(7, 2) = 21.
        let unequal = exact_cumulative(2, 5);
        assert!((unequal[0] - 1.0 / 21.0).abs() < 1e-12 && (unequal[10] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn groups_apart_are_told_apart() {
        let test = RankTest::of(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], 0.95).unwrap();
        assert_eq!((test.u, test.a12), (9.0, 1.0));
        assert!((test.p_value - 0.1).abs() < 1e-12);
        assert_eq!(test.shift.value, 3.0);
        // Three against three can say no more than 0.9: the range of all differences.
        let interval = test.shift.interval;
        assert_eq!((interval.low, interval.high), (1.0, 5.0));
        assert!((interval.confidence - 0.9).abs() < 1e-12);
        let ratio = test.ratio.unwrap();
        assert!((ratio.value - 2.5).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn ties_are_halves_and_equal_groups_are_alike() {
        let test = RankTest::of(&[1.0; 5], &[1.0; 5], 0.95).unwrap();
        assert_eq!((test.a12, test.p_value, test.shift.value), (0.5, 1.0, 0.0));
        let test = RankTest::of(&[1.0, 2.0], &[2.0, 3.0], 0.95).unwrap();
        assert_eq!(test.u, 0.5);
        assert!(
            RankTest::of(&[-1.0, 2.0], &[2.0, 3.0], 0.95)
                .unwrap()
                .ratio
                .is_none()
        );
    }

    #[test]
    fn the_normal_approximation_is_close_to_the_exact_distribution() {
        let exact = Null::new(50, 50);
        let normal = Null {
            cumulative: Vec::new(),
            ..Null::new(50, 50)
        };
        for u in [900.0, 965.0, 1000.0, 1100.0, 1249.0] {
            assert!((exact.cdf(u) - normal.cdf(u)).abs() < 1e-3, "{u}");
        }
    }

    #[test]
    fn invalid_groups_are_not_compared() {
        assert_eq!(RankTest::of(&[], &[1.0], 0.95), None);
        assert_eq!(RankTest::of(&[1.0], &[f64::INFINITY], 0.95), None);
        assert_eq!(RankTest::of(&[1.0], &[1.0], 1.0), None);
        assert_eq!(
            RankTest::of(&[1.0; RANK_SAMPLES_MAX + 1], &[1.0], 0.95),
            None
        );
        let least = RankTest::of(&[2.0], &[1.0], 0.95).unwrap();
        assert_eq!((least.p_value, least.shift.interval.confidence), (1.0, 0.0));
    }
}
