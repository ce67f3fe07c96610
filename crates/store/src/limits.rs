//! Every bound of the store, in one place.

/// Longest key in bytes.
pub const KEY_MAX: usize = 250;
/// What memcached counts as part of an item beside its key and value (header with CAS 56, the ends
/// of key and value 3): kept so that the same items are refused.
pub const ITEM_OVERHEAD: usize = 59;
/// What it counts for client flags other than 0.
pub const FLAGS_LEN: usize = 4;
/// Least memory a store can work in, in bytes.
pub const MEMORY_MIN: u64 = 1 << 20;
/// Most shards; the number is a power of two.
pub const SHARDS_MAX: usize = 1024;
/// Fewest shards.
pub const SHARDS_MIN: usize = 4;
/// Memory one shard is made for, in bytes.
pub const SHARD_MEMORY: u64 = 1 << 20;
/// Pins and unfinished uploads together hold at most this part of the memory (one eighth).
pub const HELD_PART: u64 = 8;
/// Items one locked step of eviction, or one step of maintenance, visits at most.
pub const STEP_ITEMS: usize = 64;
/// Longest text of a counter in bytes.
pub const COUNTER_MAX: usize = 20;
/// How often a change that depends on the present value is tried beside other writers before it is
/// made under the lock.
pub const REWRITE_ATTEMPTS: usize = 8;
