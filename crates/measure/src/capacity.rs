//! The capacity of a server: its throughput in closed loop.

use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, median_of_trials};

/// One closed-loop trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CapacityTrial {
    /// Answers per second.
    pub achieved_rps: f64,
    /// The generator was the limit.
    pub generator_limited: bool,
}

/// A server's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The median achieved rate, requests per second, with its interval.
    pub rps: Estimate,
    /// Trials in which the generator was the limit.
    pub limited: usize,
    /// The generator was the limit in more than half of the trials: the capacity is at least this,
    /// and all trials count.
    pub at_least: bool,
}

impl Capacity {
    /// The capacity that the trials show. Generator-limited trials are excluded as long as half of
    /// the trials remain. With fewer left, one lucky trial could decide: then all trials count, and
    /// their median is a lower bound. None without trials, or where a rate is not finite.
    #[must_use]
    pub fn of(trials: &[CapacityTrial], confidence: f64) -> Option<Self> {
        let limited = trials
            .iter()
            .filter(|trial| trial.generator_limited)
            .count();
        let at_least = 2 * limited > trials.len();
        let rates: Vec<f64> = trials
            .iter()
            .filter(|trial| at_least || !trial.generator_limited)
            .map(|trial| trial.achieved_rps)
            .collect();
        Some(Self {
            rps: median_of_trials(&rates, confidence)?,
            limited,
            at_least,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(trials: &[(f64, bool)]) -> Option<Capacity> {
        let trials: Vec<CapacityTrial> = trials
            .iter()
            .map(|&(achieved_rps, generator_limited)| CapacityTrial {
                achieved_rps,
                generator_limited,
            })
            .collect();
        Capacity::of(&trials, 0.95)
    }

    #[test]
    fn the_median_counts_and_limited_trials_do_not() {
        let seen =
            capacity(&[(100.0, false), (50.0, true), (104.0, false), (90.0, false)]).unwrap();
        assert_eq!((seen.rps.value, seen.rps.samples), (100.0, 3));
        assert_eq!(
            (seen.rps.interval.low, seen.rps.interval.high),
            (90.0, 104.0)
        );
        assert_eq!((seen.limited, seen.at_least), (1, false));
    }

    #[test]
    fn one_unlimited_trial_of_five_does_not_decide() {
        let seen = capacity(&[
            (107.0, true),
            (104.0, true),
            (88.0, true),
            (80.0, true),
            (109.0, false),
        ])
        .unwrap();
        assert_eq!(
            (seen.rps.value, seen.limited, seen.at_least),
            (104.0, 4, true)
        );
        assert_eq!(seen.rps.samples, 5);
    }

    #[test]
    fn half_of_the_trials_are_enough() {
        let seen = capacity(&[(100.0, false), (50.0, true)]).unwrap();
        assert_eq!((seen.rps.value, seen.at_least), (100.0, false));
    }

    #[test]
    fn a_generator_that_limits_every_trial_gives_a_lower_bound() {
        let seen = capacity(&[(100.0, true), (102.0, true)]).unwrap();
        assert_eq!(
            (seen.rps.value, seen.limited, seen.at_least),
            (101.0, 2, true)
        );
        assert_eq!(capacity(&[]), None);
    }
}
