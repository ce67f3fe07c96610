//! Burstiness of a server with a process per connection: the fraction of runnable processes.
//!
//! Where requests block together, they also become runnable together, and most of them wait for a
//! processor. The measure is from Ruan & Pai, *Understanding and Addressing Blocking-Induced
//! Network Server Latency*, USENIX ATC 2006; that of an event-driven server is
//! [`Burstiness`](crate::Burstiness).

use serde::{Deserialize, Serialize};

use crate::interval::{median_of_sorted, sorted};

/// The processes of a process-driven server at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnableSample {
    /// Running or ready to run.
    pub runnable: u32,
    /// All.
    pub processes: u32,
}

/// The fraction of a server's processes that are runnable, over samples at equal distances in time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunnableFraction {
    /// Number of samples.
    pub samples: usize,
    /// Mean, 0 to 1.
    pub mean: f64,
    /// Median, 0 to 1.
    pub median: f64,
    /// Greatest, 0 to 1.
    pub max: f64,
    /// Samples by tenth: [0, 0.1), [0.1, 0.2) and so on to [0.9, 1]. A server that blocks together
    /// is bimodal, which neither mean nor median shows.
    pub tenths: [u64; 10],
}

impl RunnableFraction {
    /// The fraction over a series of samples. None without samples, or where one has no process or
    /// more runnable ones than processes.
    #[must_use]
    pub fn of(samples: &[RunnableSample]) -> Option<Self> {
        let is_possible =
            |sample: &RunnableSample| sample.processes > 0 && sample.runnable <= sample.processes;
        if !samples.iter().all(is_possible) {
            return None;
        }
        let mut tenths = [0; 10];
        for sample in samples {
            let tenth = u64::from(sample.runnable) * 10 / u64::from(sample.processes);
            tenths[tenth.min(9) as usize] += 1;
        }
        let fraction = |at: &RunnableSample| f64::from(at.runnable) / f64::from(at.processes);
        let sorted = sorted(&samples.iter().map(fraction).collect::<Vec<_>>())?;
        Some(Self {
            samples: sorted.len(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            median: median_of_sorted(&sorted),
            max: *sorted.last()?,
            tenths,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn processes_that_block_together_are_bimodal() {
        let sample = |runnable| RunnableSample {
            runnable,
            processes: 20,
        };
        let seen = RunnableFraction::of(&[0, 1, 20, 0, 19].map(sample)).unwrap();
        assert_eq!((seen.samples, seen.median, seen.max), (5, 0.05, 1.0));
        assert!((seen.mean - 0.4).abs() < 1e-12);
        assert_eq!(seen.tenths, [3, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(RunnableFraction::of(&[sample(21)]), None);
        assert_eq!(RunnableFraction::of(&[]), None);
        let none = RunnableSample {
            runnable: 0,
            processes: 0,
        };
        assert_eq!(RunnableFraction::of(&[none]), None);
    }

    proptest! {
        #[test]
        fn every_sample_is_in_its_tenth(
            pairs in prop::collection::vec((0..500_u32, 1..500_u32), 1..60),
        ) {
            let samples: Vec<RunnableSample> = pairs
                .iter()
                .map(|&(runnable, processes)| RunnableSample {
                    runnable: runnable.min(processes),
                    processes,
                })
                .collect();
            let seen = RunnableFraction::of(&samples).unwrap();
            prop_assert_eq!(seen.tenths.iter().sum::<u64>(), samples.len() as u64);
            prop_assert!(seen.mean <= seen.max + 1e-12 && seen.median <= seen.max);
            let half = samples.iter().filter(|at| 2 * at.runnable >= at.processes).count();
            prop_assert_eq!(seen.tenths[5..].iter().sum::<u64>(), half as u64);
        }
    }
}
