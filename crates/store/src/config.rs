//! What a store is made with.

use thiserror::Error;

use crate::limits::{KEY_MAX, MEMORY_MIN};

/// What a store is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Most memory of items and index together, in bytes.
    pub memory_bytes: u64,
    /// Longest value, in bytes.
    pub value_max: u32,
    /// Seeds the hash, so that nobody can craft keys that collide. Random in a server.
    pub hash_seed: u64,
}

/// A configuration no store can work with.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Less than [`MEMORY_MIN`].
    #[error("a store needs at least {MEMORY_MIN} bytes of memory, not {0}")]
    TooLittleMemory(u64),
    /// The longest value fits less than twice.
    #[error("items of {value_max} bytes need at least {needed} bytes of memory, not {memory}")]
    ItemTooLarge {
        /// The longest value asked for.
        value_max: u32,
        /// The memory asked for.
        memory: u64,
        /// The memory it would need.
        needed: u64,
    },
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.memory_bytes < MEMORY_MIN {
            return Err(ConfigError::TooLittleMemory(self.memory_bytes));
        }
        let needed = 2 * (u64::from(self.value_max) + KEY_MAX as u64);
        if self.memory_bytes < needed {
            return Err(ConfigError::ItemTooLarge {
                value_max: self.value_max,
                memory: self.memory_bytes,
                needed,
            });
        }
        Ok(())
    }
}
