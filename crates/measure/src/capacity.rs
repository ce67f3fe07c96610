//! What a server can do under infinite demand.

use serde::{Deserialize, Serialize};

use crate::interval::{Estimate, median_of_trials};

/// One trial under infinite demand.
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
    /// Trials left out because the generator was the limit.
    pub excluded: usize,
    /// The generator was the limit of every trial: the server can do at least this, and how much
    /// more is not known. Nothing is then left out.
    pub at_least: bool,
}

impl Capacity {
    /// The capacity that some trials show. Those that the generator limited are left out, unless
    /// there are no others. None of no trials, or where a rate is not a finite number.
    #[must_use]
    pub fn of(trials: &[CapacityTrial], confidence: f64) -> Option<Self> {
        let rates = |limited: bool| -> Vec<f64> {
            let chosen = trials
                .iter()
                .filter(|trial| trial.generator_limited == limited);
            chosen.map(|trial| trial.achieved_rps).collect()
        };
        let (free, limited) = (rates(false), rates(true));
        let at_least = free.is_empty();
        let rps = median_of_trials(if at_least { &limited } else { &free }, confidence)?;
        Some(Self {
            rps,
            excluded: if at_least { 0 } else { limited.len() },
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
        assert_eq!((seen.excluded, seen.at_least), (1, false));
    }

    #[test]
    fn a_generator_that_limits_every_trial_gives_a_lower_bound() {
        let seen = capacity(&[(100.0, true), (102.0, true)]).unwrap();
        assert_eq!(
            (seen.rps.value, seen.excluded, seen.at_least),
            (101.0, 0, true)
        );
        assert_eq!(capacity(&[]), None);
    }
}
