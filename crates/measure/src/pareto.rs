//! The Pareto front: the settings that no other one beats in both of two measures.
//!
//! ```text
//! latency │ ●     ○
//!  (lower │       ○           ● on the front
//!  better)│    ●     ○        ○ dominated: another point is as good in both, better in one
//!         │       ●      ○
//!         │            ●
//!         └───────────────── memory (lower better)
//! ```

use serde::{Deserialize, Serialize};

/// The better direction of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Such as latency or memory.
    Lower,
    /// Such as throughput or hit ratio.
    Higher,
}

impl Better {
    /// The value on a scale on which lower is better.
    fn cost(self, value: f64) -> f64 {
        // Sums turn −0 into 0, from which the total order would tell it apart.
        match self {
            Self::Lower => value + 0.0,
            Self::Higher => 0.0 - value,
        }
    }
}

/// The indices of the points (x, y) that no other point dominates, from the best x to the best y,
/// in O(n log n). One point dominates another if it is at least as good in both measures and better
/// in one (Pareto; the algorithm is that of Kung, Luccio & Preparata, *On Finding the Maxima of a
/// Set of Vectors*, Journal of the ACM 22, 1975, for two dimensions). Equal points do not dominate
/// each other: all of them are on the front or none is, in ascending order of index.
///
/// The front knows nothing of uncertainty: points whose intervals overlap may be on it by chance.
/// None where a value is not finite. Empty without points.
#[must_use]
pub fn pareto_front(points: &[(f64, f64)], x: Better, y: Better) -> Option<Vec<usize>> {
    let is_finite = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    if !points.iter().all(is_finite) {
        return None;
    }
    let cost = |index: usize| (x.cost(points[index].0), y.cost(points[index].1));
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| {
        let (one, other) = (cost(a), cost(b));
        let by_x = one.0.total_cmp(&other.0);
        by_x.then(one.1.total_cmp(&other.1)).then(a.cmp(&b))
    });
    let mut front = Vec::new();
    // The last point of the front: of all points before, it is the best in y.
    let mut last = None;
    for index in order {
        let own = cost(index);
        if last.is_none_or(|last: (f64, f64)| own.1 < last.1 || own == last) {
            front.push(index);
            last = Some(own);
        }
    }
    Some(front)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Better::{Higher, Lower};
    use super::*;

    #[test]
    fn dominated_points_are_left_out() {
        let points = [(3.0, 3.0), (1.0, 5.0), (2.0, 4.0), (2.0, 6.0), (4.0, 3.0)];
        assert_eq!(pareto_front(&points, Lower, Lower), Some(vec![1, 2, 0]));
        assert_eq!(pareto_front(&points, Higher, Higher), Some(vec![4, 3]));
        assert_eq!(pareto_front(&points, Higher, Lower), Some(vec![4]));
        assert_eq!(pareto_front(&points, Lower, Higher), Some(vec![1, 3]));
    }

    #[test]
    fn equal_points_are_kept_together() {
        let points = [(1.0, 2.0), (2.0, 1.0), (1.0, 2.0), (2.0, 2.0), (2.0, 2.0)];
        assert_eq!(pareto_front(&points, Lower, Lower), Some(vec![0, 2, 1]));
        assert_eq!(pareto_front(&points, Higher, Higher), Some(vec![3, 4]));
    }

    #[test]
    fn a_point_that_is_equal_in_one_measure_and_worse_in_the_other_is_dominated() {
        assert_eq!(
            pareto_front(&[(1.0, 2.0), (2.0, 2.0)], Lower, Lower),
            Some(vec![0])
        );
        assert_eq!(
            pareto_front(&[(1.0, 2.0), (1.0, 1.0)], Lower, Lower),
            Some(vec![1])
        );
    }

    #[test]
    fn zeros_of_both_signs_are_equal() {
        let points = [(0.0, 1.0), (-0.0, 1.0), (1.0, 0.0), (1.0, -0.0)];
        for (x, y) in [(Lower, Lower), (Higher, Higher)] {
            let mut front = pareto_front(&points, x, y).unwrap();
            front.sort_unstable();
            assert_eq!(front, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn no_points_have_an_empty_front_and_invalid_ones_none() {
        assert_eq!(pareto_front(&[], Lower, Lower), Some(vec![]));
        assert_eq!(pareto_front(&[(f64::NAN, 1.0)], Lower, Lower), None);
        assert_eq!(pareto_front(&[(1.0, f64::INFINITY)], Lower, Lower), None);
    }

    fn better() -> impl Strategy<Value = Better> {
        prop_oneof![Just(Lower), Just(Higher)]
    }

    proptest! {
        #[test]
        fn it_is_the_set_of_points_that_none_dominates(
            points in prop::collection::vec((-6..6_i32, -6..6_i32), 0..40),
            x in better(),
            y in better(),
        ) {
            let points: Vec<(f64, f64)> =
                points.iter().map(|&(x, y)| (f64::from(x), f64::from(y))).collect();
            let is_as_good = |better: Better, one: f64, other: f64| match better {
                Lower => one <= other,
                Higher => one >= other,
            };
            let dominates = |one: (f64, f64), other: (f64, f64)| {
                is_as_good(x, one.0, other.0) && is_as_good(y, one.1, other.1) && one != other
            };
            let expected: Vec<usize> = (0..points.len())
                .filter(|&at| !points.iter().any(|&other| dominates(other, points[at])))
                .collect();
            let mut front = pareto_front(&points, x, y).unwrap();
            for pair in front.windows(2) {
                prop_assert!(is_as_good(x, points[pair[0]].0, points[pair[1]].0));
                prop_assert!(is_as_good(y, points[pair[1]].1, points[pair[0]].1));
            }
            front.sort_unstable();
            prop_assert_eq!(front, expected);
        }
    }
}
