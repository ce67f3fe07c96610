//! What is simulated.

use thiserror::Error;
use workload::Ycsb;

use super::Costs;
use crate::limits::{CORES_MAX, KEYS_MAX, OPERATIONS_MAX, OUTSTANDING_MAX, THREADS_MAX};

/// What the middlebox does. Each step does what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It forwards.
    None,
    /// Compare-and-swaps go to the last version.
    Writes,
    /// READs too.
    Reads,
    /// All verbs of a key go over one queue pair of the server.
    Mapping,
    /// Compare-and-swaps become WRITEs, which memory does not serialise by address.
    Conversion,
}

impl Step {
    /// The steps with their names in experiments.
    pub const ALL: [(&'static str, Self); 5] = [
        ("clover", Self::None),
        ("write-steering", Self::Writes),
        ("read-steering", Self::Reads),
        ("mapping", Self::Mapping),
        ("conversion", Self::Conversion),
    ];

    /// Its index, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Client threads.
    pub threads: u32,
    /// Operations that a thread has outstanding.
    pub outstanding: u32,
    /// Reads and writes.
    pub workload: Ycsb,
    /// Exponent of Zipf's law over the keys; 0: all keys are equally popular.
    pub theta: f64,
    /// Number of keys.
    pub keys: u32,
    /// Length of a value in bytes.
    pub value_len: u32,
    /// What the middlebox does.
    pub step: Step,
    /// Only so many of the most popular keys are steered; none: all.
    pub hottest: Option<u32>,
    /// Whether looked-up verbs are also steered. False: the look-up costs, and changes nothing.
    pub is_steering: bool,
    /// Cores of the middlebox. The packets of a key are all on one.
    pub cores: u32,
    /// What all cost.
    pub costs: Costs,
    /// Operations that are simulated; the first half is the warm-up.
    pub operations: u64,
    /// Of the keys and the mix.
    pub seed: u64,
}

/// Why something cannot be simulated. Messages continue "failed to simulate: ".
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// A number is out of bounds.
    #[error("`{name}` is {value}, not {least} to {most}")]
    Bounds {
        /// Which.
        name: &'static str,
        /// The number.
        value: f64,
        /// Its least value.
        least: f64,
        /// Its greatest value.
        most: f64,
    },
}

impl Config {
    /// # Errors
    /// A number is out of bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        let bounds = [
            (
                "threads",
                f64::from(self.threads),
                1.0,
                f64::from(THREADS_MAX),
            ),
            (
                "outstanding",
                f64::from(self.outstanding),
                1.0,
                f64::from(OUTSTANDING_MAX),
            ),
            ("theta", self.theta, 0.0, workload::limits::THETA_MAX),
            ("keys", f64::from(self.keys), 1.0, f64::from(KEYS_MAX)),
            ("cores", f64::from(self.cores), 1.0, f64::from(CORES_MAX)),
            (
                "operations",
                self.operations as f64,
                100.0,
                OPERATIONS_MAX as f64,
            ),
            ("value-bytes", f64::from(self.value_len), 0.0, 1e6),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::Bounds {
                    name,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }
}
