//! The configuration of a store.

use thiserror::Error;

use crate::limits::{LIMIT_PART, MEMORY_MAX, MEMORY_MIN};

/// The configuration of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Memory limit of items and index together, in bytes.
    pub memory_bytes: u64,
    /// Highest value to which the limit may be raised at run time, in bytes. A value below
    /// `memory_bytes` counts as `memory_bytes`. The difference is reserved as address space, and
    /// takes no memory.
    pub memory_max: u64,
    /// Largest item, in bytes, as memcached counts it: see
    /// [`ITEM_OVERHEAD`](crate::limits::ITEM_OVERHEAD).
    pub item_max: u32,
    /// Seed of the hash function. A server uses a random seed, so that clients cannot craft
    /// collisions.
    pub hash_seed: u64,
    /// Number of threads that write concurrently. Each gets its own open segments if memory allows.
    pub workers: usize,
    /// Whether to evict items for new ones. Otherwise a write that does not fit is rejected.
    pub evicts: bool,
    /// Request huge pages even for a small memory. For a large memory they are requested anyway,
    /// until [`disable_huge_pages`](crate::Store::disable_huge_pages) is called.
    pub huge_pages: bool,
}

impl Config {
    /// 64 MiB, items of up to 1 MiB, one worker, and a predictable hash.
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

/// An invalid configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The memory is below [`MEMORY_MIN`].
    #[error("a store needs at least {MEMORY_MIN} bytes of memory, not {0}")]
    TooLittleMemory(u64),
    /// The memory does not hold two items of the largest size.
    #[error("items of {item_max} bytes need at least {needed} bytes of memory, not {memory}")]
    ItemTooLarge {
        /// The requested largest item, in bytes.
        item_max: u32,
        /// The requested memory, in bytes.
        memory: u64,
        /// The memory that such items need, in bytes.
        needed: u64,
    },
    /// The limit is too low for the segment size chosen at creation.
    #[error("the store can be lowered to {least} bytes of memory, not {requested}")]
    LimitTooLow {
        /// The requested limit, in bytes.
        requested: u64,
        /// The lowest possible limit, in bytes.
        least: u64,
    },
    /// The limit is above the reserved address space.
    #[error("the store was made for at most {most} bytes of memory, not {requested}")]
    LimitTooHigh {
        /// The requested limit, in bytes.
        requested: u64,
        /// The highest possible limit, in bytes.
        most: u64,
    },
    /// The memory is larger than a location can address.
    #[error("a store addresses at most {MEMORY_MAX} bytes of memory, not {0}")]
    NotAddressable(u64),
    /// The system does not provide the address space.
    #[error("no room in the address space: {0}")]
    NoSpace(#[source] std::io::Error),
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let most = self.memory_max.max(self.memory_bytes);
        if most > MEMORY_MAX {
            return Err(ConfigError::NotAddressable(most));
        }
        self.check_minimum(self.memory_bytes)
    }

    /// Checks whether a store of this configuration can work with this memory.
    pub(crate) fn check_limit(&self, memory: u64) -> Result<(), ConfigError> {
        let most = self.memory_max.max(self.memory_bytes);
        if memory > most {
            return Err(ConfigError::LimitTooHigh {
                requested: memory,
                most,
            });
        }
        let least = self.memory_bytes / LIMIT_PART;
        if memory < least {
            return Err(ConfigError::LimitTooLow {
                requested: memory,
                least,
            });
        }
        self.check_minimum(memory)
    }

    fn check_minimum(&self, memory: u64) -> Result<(), ConfigError> {
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
    fn memory_above_the_range_of_locations_is_rejected() {
        for (memory_bytes, memory_max) in [(64 << 20, MEMORY_MAX + 1), (MEMORY_MAX + 1, 0)] {
            let config = Config {
                memory_bytes,
                memory_max,
                ..Config::DEFAULT
            };
            let rejected = Store::new(config).map(drop);
            let most = memory_bytes.max(memory_max);
            assert!(
                matches!(rejected, Err(ConfigError::NotAddressable(requested)) if requested == most)
            );
        }
        let largest = Config {
            memory_max: MEMORY_MAX,
            ..Config::DEFAULT
        };
        assert!(largest.check().is_ok());
    }
}
