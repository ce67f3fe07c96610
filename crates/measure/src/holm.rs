//! Many comparisons at once: the p-values of Holm and Bonferroni.

/// The step-down adjusted p-values of several tests, in the order of the tests (Holm, *A Simple
/// Sequentially Rejective Multiple Test Procedure*, Scandinavian Journal of Statistics 6, 1979).
///
/// The i-th smallest of m p-values is multiplied by m − i + 1; none is less than a smaller one's
/// adjusted value, or more than 1. Rejecting every hypothesis whose adjusted value is at most α
/// rejects any true one with a probability of at most α, however the tests depend on each other. It
/// rejects all that Bonferroni's correction (m times each) does, and more. The adjusted values
/// depend on all tests: they must include those that showed nothing.
///
/// None where a value is not between 0 and 1.
#[must_use]
pub fn holm(p_values: &[f64]) -> Option<Vec<f64>> {
    if !p_values.iter().all(|p| (0.0..=1.0).contains(p)) {
        return None;
    }
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least = 0.0_f64;
    for (smaller, &test) in order.iter().enumerate() {
        let remaining = (p_values.len() - smaller) as f64;
        least = least.max(remaining * p_values[test]).min(1.0);
        adjusted[test] = least;
    }
    Some(adjusted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(seen: &[f64], expected: &[f64]) {
        assert_eq!(seen.len(), expected.len());
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(seen.iter().zip(expected).all(is_near), "{seen:?}");
    }

    #[test]
    fn four_tests_by_hand() {
        // Ascending: 0.005 × 4, 0.01 × 3, 0.03 × 2, 0.04 × 1, of which the last is raised to 0.06.
        let seen = holm(&[0.01, 0.04, 0.03, 0.005]).unwrap();
        near(&seen, &[0.03, 0.06, 0.06, 0.02]);
    }

    #[test]
    fn one_test_stays_as_it_is() {
        assert_eq!(holm(&[0.03]), Some(vec![0.03]));
        assert_eq!(holm(&[]), Some(vec![]));
    }

    #[test]
    fn no_value_exceeds_one_and_equal_ones_stay_equal() {
        near(&holm(&[0.6, 0.4, 0.9]).unwrap(), &[1.0, 1.0, 1.0]);
        near(&holm(&[0.02, 0.02, 0.02]).unwrap(), &[0.06, 0.06, 0.06]);
        near(&holm(&[0.0, 1.0]).unwrap(), &[0.0, 1.0]);
    }

    #[test]
    fn invalid_values_are_refused() {
        for invalid in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(holm(&[0.5, invalid]), None);
        }
    }

    /// The procedure of the paper: test the smallest against α ÷ m, the next against α ÷ (m − 1)
    /// and so on; stop at the first that is not rejected.
    fn rejected(p_values: &[f64], alpha: f64) -> Vec<bool> {
        let mut order: Vec<usize> = (0..p_values.len()).collect();
        order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
        let mut rejected = vec![false; p_values.len()];
        for (at, &test) in order.iter().enumerate() {
            if (p_values.len() - at) as f64 * p_values[test] > alpha {
                break;
            }
            rejected[test] = true;
        }
        rejected
    }

    proptest! {
        #[test]
        fn it_rejects_what_the_procedure_rejects(
            p_values in prop::collection::vec(0.0..=0.2_f64, 0..30),
            alpha in 0.001..0.999_f64,
        ) {
            let adjusted = holm(&p_values).unwrap();
            let by_adjusted: Vec<bool> = adjusted.iter().map(|&p| p <= alpha).collect();
            prop_assert_eq!(by_adjusted, rejected(&p_values, alpha));
        }

        #[test]
        fn values_lie_between_the_given_ones_and_bonferroni_in_the_same_order(
            p_values in prop::collection::vec(0.0..=1.0_f64, 1..30),
        ) {
            let adjusted = holm(&p_values).unwrap();
            let count = p_values.len() as f64;
            for (&p, &own) in p_values.iter().zip(&adjusted) {
                prop_assert!(p <= own && own <= 1.0 && own <= (count * p).min(1.0) + 1e-12);
                for (&other, &others) in p_values.iter().zip(&adjusted) {
                    prop_assert!(p > other || own <= others);
                }
            }
        }
    }
}
