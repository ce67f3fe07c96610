//! How many repeats decide a difference.

/// Standard normal quantiles of 0.975 and 0.8: a two-sided test at 5 % that sees a difference four
/// times in five.
const TEST: f64 = 1.96 + 0.842;
/// Normal samples that the rank-sum test needs for each of a t-test: π ÷ 3 (Hollander, Wolfe &
/// Chicken, section 4.1).
const RANKS: f64 = std::f64::consts::PI / 3.0;
/// The fewest trials of each side with which the exact test reaches 5 %.
const FEWEST: f64 = 4.0;

/// The number of trials of each side with which the rank-sum test of two groups shows a ratio of
/// 1 + `effect` four times in five, by the spread of the trials so far. None: a group has fewer
/// than three, or a value that is not above 0.
#[must_use]
pub fn repeats_to_show(first: &[f64], second: &[f64], effect: f64) -> Option<u32> {
    let variance = (variance_of_logs(first)? + variance_of_logs(second)?) / 2.0;
    let shift = effect.ln_1p();
    let repeats = 2.0 * RANKS * variance * (TEST / shift).powi(2);
    (repeats.is_finite() && shift != 0.0).then(|| repeats.ceil().max(FEWEST) as u32)
}

fn variance_of_logs(values: &[f64]) -> Option<f64> {
    let is_fit = values.len() >= 3 && values.iter().all(|it| it.is_finite() && *it > 0.0);
    if !is_fit {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|it| it.ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    Some(logs.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RankTest;

    /// A trial around `mean` with a standard deviation of 4 %: the sum of twelve uniform numbers.
    fn trial(state: &mut u64, mean: f64) -> f64 {
        let uniform = |state: &mut u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005);
            *state = state.wrapping_add(1_442_695_040_888_963_407);
            (*state >> 11) as f64 / (1u64 << 53) as f64
        };
        let normal: f64 = (0..12).map(|_| uniform(state)).sum::<f64>() - 6.0;
        mean * (1.0 + 0.04 * normal)
    }

    fn trials(state: &mut u64, mean: f64, count: u32) -> Vec<f64> {
        (0..count).map(|_| trial(state, mean)).collect()
    }

    #[test]
    fn so_many_repeats_see_the_effect_four_times_in_five() {
        let mut state = 7;
        let pilot = [trials(&mut state, 1.0, 200), trials(&mut state, 1.0, 200)];
        let repeats = repeats_to_show(&pilot[0], &pilot[1], 0.05).unwrap();
        assert!((9..=15).contains(&repeats), "{repeats}");
        let seen = (0..1_000).filter(|_| {
            let sides = [1.0, 1.05].map(|mean| trials(&mut state, mean, repeats));
            RankTest::of(&sides[0], &sides[1], 0.95).unwrap().p_value < 0.05
        });
        let seen = seen.count();
        assert!((740..=880).contains(&seen), "{seen}");
    }

    #[test]
    fn few_trials_and_zeros_promise_nothing() {
        assert_eq!(repeats_to_show(&[1.0, 1.1], &[1.0, 1.1, 1.2], 0.05), None);
        assert_eq!(repeats_to_show(&[0.0, 1.1, 1.2], &[1.0; 3], 0.05), None);
        assert_eq!(repeats_to_show(&[1.0; 3], &[1.0; 3], 0.05), Some(4));
    }
}
