//! The knee of a server: the load above which its tail latency leaves the plateau.
//!
//! ```text
//! p99 │                      ●      limit = factor × plateau
//!     │- - - - - - - - - - - - -
//!     │              ●  ▲
//!     │  ●  ●  ●  ●     └─ the tail has left;  the knee is the level before
//!     └──────────────────────────── load level
//!       plateau
//! ```
//!
//! The points of a level are its repeats; the level counts by their median. Generator-limited
//! points are excluded, and so is a whole level where they are more than half: the few remaining
//! points are a biased choice. A level without points is ignored. The *plateau* is the median of
//! the lowest third of the levels (rounded up). The *knee* is the highest level whose median is at
//! most `factor` × plateau: a bump that the tail returns from is not a knee. The tail leaves the
//! plateau at the next level; if there is none, it stayed there over the whole measured range.

use serde::{Deserialize, Serialize};

use crate::interval::median;
use crate::limits::KNEE_LEVELS_MIN;

/// The default ratio of tail to plateau above which the tail has left the plateau. A serial server
/// with exponential service, whose p99 is ln 100 ÷ (μ − λ), leaves it near a load of 0.75.
pub const KNEE_FACTOR: f64 = 3.0;

/// The tail of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TailPoint {
    /// Load level or offered rate: any measure of demand.
    pub level: f64,
    /// 99th percentile of the response time in nanoseconds, or another measure of which lower
    /// values are better.
    pub tail: f64,
    /// The generator was the limit.
    pub generator_limited: bool,
}

/// A server's knee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The last level before the tail leaves its plateau.
    pub level: f64,
    /// The next level that counts, at which the tail has left the plateau. None: it never did, and
    /// the knee is the highest level that counts.
    pub leaves_at: Option<f64>,
    /// The plateau, in the unit of the tails.
    pub plateau_ns: f64,
    /// The greatest median of a level on the plateau.
    pub limit_ns: f64,
    /// Levels that count.
    pub levels: usize,
    /// Excluded levels between the knee and `leaves_at`: the generator was the limit in more than
    /// half of their points, so the true knee may lie at one of them.
    pub unknown_above: usize,
}

impl Knee {
    /// The knee that the trials of one server show, at a factor of at least 1 ([`KNEE_FACTOR`]).
    /// None with fewer than three levels.
    #[must_use]
    pub fn of(points: &[TailPoint], factor: f64) -> Option<Self> {
        let (medians, unknown) = medians_by_level(points);
        if medians.len() < KNEE_LEVELS_MIN || factor.is_nan() {
            return None;
        }
        let lowest: Vec<f64> = medians
            .iter()
            .take(medians.len().div_ceil(3))
            .map(|&(_, p99_ns)| p99_ns)
            .collect();
        let plateau_ns = median(&lowest)?;
        let limit_ns = plateau_ns * factor.max(1.0);
        // At least one level lies at or below the plateau's median, so a last one exists.
        let last = medians
            .iter()
            .rposition(|&(_, p99_ns)| p99_ns <= limit_ns)?;
        let level = medians[last].0;
        let leaves_at = medians.get(last + 1).map(|&(level, _)| level);
        let end = leaves_at.unwrap_or(f64::INFINITY);
        let above = |at: &&f64| level < **at && **at < end;
        Some(Self {
            level,
            leaves_at,
            plateau_ns,
            limit_ns,
            levels: medians.len(),
            unknown_above: unknown.iter().filter(above).count(),
        })
    }
}

/// In ascending order: (level, median p99) of the levels that count, and the excluded levels.
fn medians_by_level(points: &[TailPoint]) -> (Vec<(f64, f64)>, Vec<f64>) {
    let mut points: Vec<&TailPoint> = points
        .iter()
        .filter(|point| point.level.is_finite())
        .collect();
    points.sort_by(|a, b| a.level.total_cmp(&b.level));
    let (mut medians, mut unknown) = (Vec::new(), Vec::new());
    for level in points.chunk_by(|a, b| a.level == b.level) {
        let at = level[0].level;
        let tails: Vec<f64> = level
            .iter()
            .filter(|point| !point.generator_limited)
            .map(|point| point.tail)
            .collect();
        match median(&tails).filter(|_| 2 * tails.len() >= level.len()) {
            Some(p99_ns) => medians.push((at, p99_ns)),
            None => unknown.push(at),
        }
    }
    (medians, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [f64; 8] = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0];

    /// Three repeats a level around a p99 in microseconds.
    fn points(tails_us: &[(f64, u64)]) -> Vec<TailPoint> {
        let repeats = |&(level, tail_us): &(f64, u64)| {
            [95, 100, 130].map(|percent| TailPoint {
                level,
                tail: (tail_us * 10 * percent) as f64,
                generator_limited: false,
            })
        };
        tails_us.iter().flat_map(repeats).collect()
    }

    fn curve(tails_us: [u64; 8]) -> Vec<TailPoint> {
        points(&LEVELS.into_iter().zip(tails_us).collect::<Vec<_>>())
    }

    #[test]
    fn a_tail_that_rises_leaves_after_its_knee() {
        let knee = Knee::of(&curve([100, 110, 120, 150, 290, 900, 9000, 90_000]), 3.0).unwrap();
        assert_eq!((knee.level, knee.leaves_at), (0.8, Some(0.9)));
        assert_eq!(
            (knee.plateau_ns, knee.limit_ns, knee.levels),
            (110_000.0, 330_000.0, 8)
        );
    }

    #[test]
    fn order_of_points_does_not_matter() {
        let mut all = curve([100, 110, 120, 150, 290, 900, 9000, 90_000]);
        let knee = Knee::of(&all, 3.0);
        all.reverse();
        assert_eq!(Knee::of(&all, 3.0), knee);
    }

    #[test]
    fn a_tail_that_stays_flat_never_leaves() {
        let knee = Knee::of(&curve([100, 110, 120, 110, 130, 140, 150, 200]), 3.0).unwrap();
        assert_eq!((knee.level, knee.leaves_at), (1.0, None));
    }

    #[test]
    fn a_bump_that_the_tail_returns_from_is_no_knee() {
        let knee = Knee::of(&curve([100, 110, 900, 120, 130, 140, 800, 9000]), 3.0).unwrap();
        assert_eq!((knee.level, knee.leaves_at), (0.9, Some(0.95)));
    }

    #[test]
    fn one_slow_lowest_level_does_not_make_the_plateau() {
        let knee = Knee::of(&curve([2000, 110, 120, 110, 130, 140, 800, 9000]), 3.0).unwrap();
        assert_eq!((knee.plateau_ns, knee.level), (120_000.0, 0.9));
    }

    #[test]
    fn generator_limited_points_are_excluded() {
        let mut all = curve([100, 110, 120, 150, 290, 900, 9000, 90_000]);
        for point in all.iter_mut().filter(|point| point.level >= 0.9) {
            point.generator_limited = true;
        }
        let knee = Knee::of(&all, 3.0).unwrap();
        assert_eq!((knee.level, knee.leaves_at), (0.8, None));
        assert_eq!((knee.levels, knee.unknown_above), (5, 3));
    }

    #[test]
    fn a_mostly_generator_limited_level_is_excluded() {
        // Two of three limited; the third happened to be slow.
        let mut all = curve([100, 110, 120, 9000, 130, 900, 9000, 90_000]);
        for (index, point) in all.iter_mut().enumerate() {
            let limited_at_0_7 = point.level == 0.7 && index % 3 < 2;
            let limited_at_0_9 = point.level == 0.9 && index % 3 < 2;
            point.generator_limited = limited_at_0_7 || limited_at_0_9;
        }
        let knee = Knee::of(&all, 3.0).unwrap();
        assert_eq!((knee.level, knee.leaves_at), (0.8, Some(0.95)));
        // Level 0.9 lies between the knee and 0.95; level 0.7, below the knee, changes nothing.
        assert_eq!((knee.levels, knee.unknown_above), (6, 1));
    }

    #[test]
    fn a_level_counts_with_half_of_its_points() {
        let mut all = curve([100, 110, 120, 150, 290, 900, 9000, 90_000]);
        for (index, point) in all.iter_mut().enumerate() {
            point.generator_limited = index % 3 == 0;
        }
        let knee = Knee::of(&all, 3.0).unwrap();
        assert_eq!((knee.levels, knee.unknown_above), (8, 0));
    }

    #[test]
    fn two_levels_are_too_few() {
        assert_eq!(Knee::of(&points(&[(0.2, 100), (0.9, 9000)]), 3.0), None);
        assert_eq!(Knee::of(&[], 3.0), None);
        let limited = TailPoint {
            level: 0.5,
            tail: 1.0,
            generator_limited: true,
        };
        assert_eq!(Knee::of(&[limited; 9], 3.0), None);
    }

    #[test]
    fn a_queue_leaves_where_theory_says() {
        // p99 = ln 100 ÷ (μ − λ), plateau between the levels 0.2 and 0.4 of six.
        let tail = |load: f64| (4605.0 / (1.0 - load)) as u64;
        let levels = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9].map(|load| (load, tail(load)));
        let knee = Knee::of(&points(&levels), KNEE_FACTOR).unwrap();
        assert_eq!((knee.level, knee.leaves_at), (0.7, Some(0.8)));
    }
}
