//! What a store is made with.

use thiserror::Error;

use crate::limits::{LIMIT_PART, MEMORY_MAX, MEMORY_MIN};

/// What a store is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Most memory of items and index together, in bytes.
    pub memory_bytes: u64,
    /// What that may be raised to while it runs; less than `memory_bytes` stands for
    /// `memory_bytes`. It is address space, not memory.
    pub memory_max: u64,
    /// Largest item, in bytes, as memcached counts it: see
    /// [`ITEM_OVERHEAD`](crate::limits::ITEM_OVERHEAD).
    pub item_max: u32,
    /// Seeds the hash, so that nobody can craft keys that collide. Random in a server.
    pub hash_seed: u64,
    /// Threads that will write at a time, so that they need not share open segments.
    pub workers: usize,
    /// Items leave to make room for others; otherwise what does not fit is refused.
    pub evicts: bool,
    /// Ask the kernel for huge pages though the memory is small; where it is not, they are asked
    /// for in any case, until [`refuse_huge_pages`](crate::Store::refuse_huge_pages).
    pub huge_pages: bool,
}

impl Config {
    /// 64 MiB, items of up to 1 MiB, for one worker, and a hash anybody can reckon.
    pub const DEFAULT: Self = Self {
        memory_bytes: 64 << 20,
        memory_max: 0,
        item_max: 1 << 20,
        hash_seed: 0,
        workers: 1,
        evicts: true,
        huge_pages: false,
    };
}

/// A configuration no store can work with.
#[derive(Debug, Error)]
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
    /// The store was made for more: its segments are too large.
    #[error("the store can be lowered to {least} bytes of memory, not {asked}")]
    TooLittleOfIt {
        /// The memory asked for.
        asked: u64,
        /// The least it can be lowered to.
        least: u64,
    },
    /// The store was made for less.
    #[error("the store was made for at most {most} bytes of memory, not {asked}")]
    TooMuchMemory {
        /// The memory asked for.
        asked: u64,
        /// The most it was made for.
        most: u64,
    },
    /// More than a location can address.
    #[error("a store addresses at most {MEMORY_MAX} bytes of memory, not {0}")]
    NotAddressable(u64),
    /// The system refuses so much address space.
    #[error("no room in the address space: {0}")]
    NoSpace(#[source] std::io::Error),
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let most = self.memory_max.max(self.memory_bytes);
        if most > MEMORY_MAX {
            return Err(ConfigError::NotAddressable(most));
        }
        self.check_least(self.memory_bytes)
    }

    /// Whether a store made with this can work with so much memory.
    pub(crate) fn check_limit(&self, memory: u64) -> Result<(), ConfigError> {
        let most = self.memory_max.max(self.memory_bytes);
        if memory > most {
            return Err(ConfigError::TooMuchMemory {
                asked: memory,
                most,
            });
        }
        let least = self.memory_bytes / LIMIT_PART;
        if memory < least {
            return Err(ConfigError::TooLittleOfIt {
                asked: memory,
                least,
            });
        }
        self.check_least(memory)
    }

    fn check_least(&self, memory: u64) -> Result<(), ConfigError> {
        if memory < MEMORY_MIN {
            return Err(ConfigError::TooLittleMemory(memory));
        }
        let needed = 2 * u64::from(self.item_max);
        if memory < needed {
            return Err(ConfigError::ItemTooLarge {
                item_max: self.item_max,
                memory,
                needed,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn memory_that_no_location_reaches_is_refused() {
        for (memory_bytes, memory_max) in [(64 << 20, MEMORY_MAX + 1), (MEMORY_MAX + 1, 0)] {
            let config = Config {
                memory_bytes,
                memory_max,
                ..Config::DEFAULT
            };
            let rejected = Store::new(config).map(drop);
            let most = memory_bytes.max(memory_max);
            assert!(matches!(rejected, Err(ConfigError::NotAddressable(asked)) if asked == most));
        }
        let largest = Config {
            memory_max: MEMORY_MAX,
            ..Config::DEFAULT
        };
        assert!(largest.check().is_ok());
    }
}
