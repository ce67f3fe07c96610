//! Where the level of a series changes.
//!
//! Pettitt's test (*A Non-parametric Approach to the Change-point Problem*, Applied Statistics 28,
//! 1979) with each place's rank sum standardized, so that changes near the ends are found too, and
//! with the null distribution by permutation, so that short series and ties need no approximation.
//! Ranks say whether there is a change, and not exactly where: it lies where the values deviate
//! least from the medians of both sides. Several changes are found by binary segmentation: the
//! parts on both sides of a change are tested in turn.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::interval::median;
use crate::limits::{CHANGE_PERMUTATIONS, CHANGE_PERMUTATIONS_MAX, CHANGE_SERIES_MAX};

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value of the new level.
    pub at: usize,
    /// The share of permutations of the tested part with a change at least as large.
    pub p_value: f64,
}

/// The changes of level in a series of independent values, in order.
///
/// A series without any has one reported with a probability of at most `alpha`: only if the whole
/// series is found to change are its parts tested. The same seed gives the same result. None where
/// a value is not a finite number, with more than [`CHANGE_SERIES_MAX`] values, or where `alpha` is
/// not between 0 and 1. Of fewer than eight values none differ enough for an `alpha` of 5 %.
#[must_use]
pub fn change_points(values: &[f64], alpha: f64, seed: u64) -> Option<Vec<ChangePoint>> {
    let is_valid = values.iter().all(|value| value.is_finite());
    if !is_valid || values.len() > CHANGE_SERIES_MAX || !(alpha > 0.0 && alpha < 1.0) {
        return None;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut found = Vec::new();
    let mut parts = Vec::from([(0, values.len())]);
    while let Some((start, end)) = parts.pop() {
        let Some(change) = change(&values[start..end], alpha, &mut random) else {
            continue;
        };
        let at = start + change.at;
        found.push(ChangePoint { at, ..change });
        parts.extend([(start, at), (at, end)]);
    }
    found.sort_by_key(|change| change.at);
    Some(found)
}

/// The largest change of a series, if it is significant.
fn change(values: &[f64], alpha: f64, random: &mut Xoshiro256PlusPlus) -> Option<ChangePoint> {
    if values.len() < 2 {
        return None;
    }
    let mut ranks = centred_ranks(values);
    let largest = largest_sum(&ranks);
    // Enough for p-values well below alpha.
    let enough = (20.0 / alpha).ceil() as usize;
    let permutations = enough.clamp(CHANGE_PERMUTATIONS, CHANGE_PERMUTATIONS_MAX);
    let mut as_large = 1;
    for _ in 0..permutations {
        for left in (1..ranks.len()).rev() {
            ranks.swap(left, index_below(left + 1, random));
        }
        // Sums of the same ranks in another order may differ in their last bits.
        as_large += usize::from(largest_sum(&ranks) >= largest * (1.0 - 1e-9));
    }
    let p_value = as_large as f64 / (permutations + 1) as f64;
    (p_value <= alpha && largest > 0.0).then(|| ChangePoint {
        at: least_deviation(values),
        p_value,
    })
}

/// The place at which two medians fit best: with the least sum of absolute deviations from them.
/// The greatest and the least tenth of the values (at least one each) count as the next one does:
/// an outlier at an end would be the best place of all.
fn least_deviation(values: &[f64]) -> usize {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    let tenth = (values.len() / 10).max(1).min((values.len() - 1) / 2);
    let (low, high) = (ascending[tenth], ascending[values.len() - 1 - tenth]);
    let values: Vec<f64> = values.iter().map(|value| value.clamp(low, high)).collect();
    let deviation = |part: &[f64]| -> f64 {
        let middle = median(part).unwrap_or_default();
        part.iter().map(|value| (value - middle).abs()).sum()
    };
    let places =
        (1..values.len()).map(|at| (at, deviation(&values[..at]) + deviation(&values[at..])));
    let best = places.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0, |(at, _)| at)
}

/// The ranks less their mean; equal values share the middle of theirs.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    let middle = (values.len() - 1) as f64 / 2.0;
    let rank = |value: &f64| {
        let first = ascending.partition_point(|other| other < value);
        let end = ascending.partition_point(|other| other <= value);
        (first + end - 1) as f64 / 2.0 - middle
    };
    values.iter().map(rank).collect()
}

/// The largest deviation of the sum of the ranks before a place, in standard deviations but for a
/// factor that is the same for all places.
fn largest_sum(ranks: &[f64]) -> f64 {
    let count = ranks.len() as f64;
    let mut sum = 0.0;
    let mut largest = 0.0_f64;
    for at in 1..ranks.len() {
        sum += ranks[at - 1];
        let before = at as f64;
        largest = largest.max(f64::abs(sum) / (before * (count - before)).sqrt());
    }
    largest
}

/// A random index below `count`.
fn index_below(count: usize, random: &mut Xoshiro256PlusPlus) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` values of a normal-like distribution around `level` (a sum of twelve uniform ones).
    fn noise(level: f64, spread: f64, count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut uniform = || index_below(1 << 20, random) as f64 / f64::from(1 << 20);
        let mut value = || level + spread * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0);
        (0..count).map(|_| value()).collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        let found = change_points(values, 0.05, 1).unwrap();
        found.iter().map(|change| change.at).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut values = noise(100.0, 1.0, 20, &mut random);
        values.extend(noise(108.0, 1.0, 15, &mut random));
        values.extend(noise(95.0, 1.0, 10, &mut random));
        assert_eq!(places(&values), [20, 35]);
    }

    #[test]
    fn a_few_values_far_apart_are_a_change() {
        assert_eq!(
            places(&[1.1, 1.0, 1.3, 1.2, 5.3, 5.0, 5.4, 5.1, 5.2, 5.5]),
            [4]
        );
        assert_eq!(places(&[1.1, 1.0, 1.2, 5.3, 5.0, 5.1, 5.2]), [0; 0]);
        assert_eq!(places(&[3.0; 50]), [0; 0]);
        assert_eq!(places(&[]), [0; 0]);
        assert_eq!(places(&[1.0]), [0; 0]);
    }

    #[test]
    fn one_outlier_is_no_change() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut values = noise(100.0, 1.0, 30, &mut random);
        values[14] = 1e9;
        assert_eq!(places(&values), [0; 0]);
    }

    #[test]
    fn outliers_at_the_ends_do_not_move_a_change() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut values = noise(100.0, 1.0, 10, &mut random);
        values.extend(noise(108.0, 1.0, 10, &mut random));
        for at in [0, 19] {
            let mut values = values.clone();
            values[at] = 1e9;
            assert_eq!(places(&values), [10], "{at}");
        }
    }

    #[test]
    fn series_without_a_change_have_one_reported_as_often_as_stated() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut reported = 0;
        for seed in 0..400 {
            let values = noise(100.0, 5.0, 12, &mut random);
            let found = change_points(&values, 0.05, seed).unwrap();
            reported += usize::from(!found.is_empty());
        }
        // 20 are expected; three standard deviations are 13.
        assert!((7..=33).contains(&reported), "{reported}");
    }

    #[test]
    fn a_change_of_two_deviations_is_mostly_found() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        let found = (0..100).filter(|&seed| {
            let mut values = noise(100.0, 1.0, 10, &mut random);
            values.extend(noise(102.0, 1.0, 10, &mut random));
            !change_points(&values, 0.05, seed).unwrap().is_empty()
        });
        let found = found.count();
        assert!(found > 85, "{found}");
    }

    #[test]
    fn what_is_no_series_has_no_result() {
        assert_eq!(change_points(&[1.0, f64::NAN], 0.05, 1), None);
        assert_eq!(change_points(&[1.0, 2.0], 0.0, 1), None);
        assert_eq!(change_points(&[1.0; CHANGE_SERIES_MAX + 1], 0.05, 1), None);
    }
}
