//! What a store is made with.

use thiserror::Error;

use crate::limits::MEMORY_MIN;

/// What a store is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Most memory of items and index together, in bytes.
    pub memory_bytes: u64,
    /// Largest item, in bytes, as memcached counts it: see
    /// [`ITEM_OVERHEAD`](crate::limits::ITEM_OVERHEAD).
    pub item_max: u32,
    /// Seeds the hash, so that nobody can craft keys that collide. Random in a server.
    pub hash_seed: u64,
}

/// A configuration no store can work with.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Less than [`MEMORY_MIN`].
    #[error("a store needs at least {MEMORY_MIN} bytes of memory, not {0}")]
    TooLittleMemory(u64),
    /// The largest item fits less than twice.
    #[error("items of {item_max} bytes need at least {needed} bytes of memory, not {memory}")]
    ItemTooLarge {
        /// The largest item asked for.
        item_max: u32,
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
        let needed = 2 * u64::from(self.item_max);
        if self.memory_bytes < needed {
            return Err(ConfigError::ItemTooLarge {
                item_max: self.item_max,
                memory: self.memory_bytes,
                needed,
            });
        }
        Ok(())
    }
}
