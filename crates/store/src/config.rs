//! The configuration of a store.

use thiserror::Error;

use crate::limits::{LIMIT_PART, MEMORY_MAX, MEMORY_MIN};

/// The configuration of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The memory limit, in bytes, of segments, index, ghosts (hashes of evicted items) and
    /// miniatures (simulations of the eviction policies) together.
    pub memory_bytes: u64,
    /// The highest memory limit that [`set_limit`](crate::Store::set_limit) may set, in bytes. A
    /// value below `memory_bytes` has the effect of `memory_bytes`. The store reserves address
    /// space for this many bytes, but uses only as much memory as the current limit allows.
    pub memory_max: u64,
    /// The maximum size of an item, in bytes. As in memcached, the size of an item includes
    /// [`ITEM_OVERHEAD`](crate::limits::ITEM_OVERHEAD).
    pub item_max: u32,
    /// The seed of the hash function. A server uses a random seed, so that clients cannot
    /// construct keys with the same hash.
    pub hash_seed: u64,
    /// The expected number of threads that write concurrently. The threads are divided into groups,
    /// and each group appends to open segments of its own. There are as many groups as threads, but
    /// at most 16 (`STRIPES_MAX`), and fewer in a store of few segments.
    pub workers: usize,
    /// Whether the store evicts items to make space for new ones. If false, the store rejects a
    /// write for which no memory is free.
    pub evicts: bool,
    /// Whether to request huge pages if `memory_bytes` is below
    /// [`HUGE_FROM`](crate::limits::HUGE_FROM). A store of at least that size requests huge pages
    /// whatever the value of this field. In a store of any size,
    /// [`disable_huge_pages`](crate::Store::disable_huge_pages) ends the requests.
    pub huge_pages: bool,
}

impl Config {
    /// A limit of 64 MiB that cannot be raised, items of up to 1 MiB, one worker, and a fixed hash
    /// seed.
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

/// The error of creating a store or of changing its memory limit.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The memory is below [`MEMORY_MIN`].
    #[error("a store needs at least {MEMORY_MIN} bytes of memory, not {0}")]
    TooLittleMemory(u64),
    /// The memory is less than twice the maximum item size.
    #[error("items of {item_max} bytes need at least {needed} bytes of memory, not {memory}")]
    ItemTooLarge {
        /// The requested maximum item size, in bytes.
        item_max: u32,
        /// The requested memory, in bytes.
        memory: u64,
        /// The minimum memory for this maximum item size, in bytes.
        needed: u64,
    },
    /// The requested limit is below an eighth (1/`LIMIT_PART`) of [`Config::memory_bytes`]. The
    /// segment size was chosen for `memory_bytes` and cannot change, so a lower limit would allow
    /// too few segments.
    #[error("the store can be lowered to {least} bytes of memory, not {requested}")]
    LimitTooLow {
        /// The requested limit, in bytes.
        requested: u64,
        /// The lowest possible limit, in bytes.
        least: u64,
    },
    /// The requested limit is above [`Config::memory_max`] and above [`Config::memory_bytes`]. The
    /// store has reserved address space for the larger of the two only.
    #[error("the store was made for at most {most} bytes of memory, not {requested}")]
    LimitTooHigh {
        /// The requested limit, in bytes.
        requested: u64,
        /// The highest possible limit, in bytes.
        most: u64,
    },
    /// [`Config::memory_bytes`] or [`Config::memory_max`] is above [`MEMORY_MAX`]. The store could
    /// not address so much memory, because a location (the address of an item) has too few bits.
    #[error("a store addresses at most {MEMORY_MAX} bytes of memory, not {0}")]
    NotAddressable(u64),
    /// The kernel refused to reserve address space for the memory of the store.
    #[error("the address space cannot be reserved: {0}")]
    NoSpace(#[source] std::io::Error),
}

impl Config {
    /// Checks whether a store can be created with this configuration.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let most = self.memory_max.max(self.memory_bytes);
        if most > MEMORY_MAX {
            return Err(ConfigError::NotAddressable(most));
        }
        self.check_minimum(self.memory_bytes)
    }

    /// Checks whether the memory limit of a store of this configuration may be changed to `memory`
    /// bytes.
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

    /// Checks whether `memory` bytes are at least [`MEMORY_MIN`], the minimum of every store, and
    /// at least twice the maximum size of an item.
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
    fn memory_above_the_addressable_maximum_is_rejected_and_the_maximum_is_accepted() {
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
