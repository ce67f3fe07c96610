//! The store of a cache: memory, index, eviction and expiry. It starts no threads, opens no
//! sockets, reads no clock, and is independent of the protocol. The caller passes the current time
//! to each operation.
//!
//! The interface is [`Worker`]. Each thread that uses the store has a worker of its own:
//!
//! - [`Worker::hash`] computes the hash of a key, and [`Worker::prefetch`] prefetches the memory
//!   that an operation on the key will access.
//! - [`Worker::read`] passes an item to a closure. The closure copies a small value, or takes a
//!   [`Pin`] of a large one.
//! - [`Worker::put`] writes a complete value. For a value that is still arriving,
//!   [`Worker::reserve`] returns memory to be filled in place, and [`Worker::publish`] makes the
//!   item visible.
//! - [`Worker::quiescent`] declares the end of a burst (the requests that a thread serves between
//!   two waits for input). After it, the thread holds no references into the store. Only a `Pin` or
//!   an [`Upload`] may outlive a burst. [`Worker::offline`] declares that the thread goes to sleep.
//!
//! Items are stored in a log, which is divided into segments. An index, which readers do not lock,
//! refers to them:
//!
//! ```text
//! hash ─► index: two buckets of eight words ─► location ─► block in a segment
//! log:        open segments · lists of free, sealed and retired segments
//! evacuation: copies live blocks out of the oldest segment, or an expired, flushed or sparse one
//! ```
//!
//! The modules are in layers, and each uses only modules below its own layer (`cargo xtask modules
//! store`):
//!
//! ```text
//! operations    read, put, upload, rewrite, delete, walk, restore: what requests do
//! evacuation    reclaims segments: which items stay, the eviction of others, waiting for memory
//! worker        the state of a thread, and the counters and checks that the layers above use
//! store         the parts that all workers share, and their statistics
//! log           segments: open ones for new blocks, lists of the others, the next to be evacuated
//! index         hash ─► location, which readers search without a lock
//! heap          blocks in segments, the live bytes and the holds of each
//! region        mapped memory
//! ```
//!
//! The layers `operations` and `evacuation` add their methods to [`Worker`]. The following modules
//! are outside the layers, and do not access the memory of items: the eviction policy, ghosts
//! (hashes of evicted items), miniatures (simulations of the policies), and the interface of a
//! tier, slower storage for evicted items.
//!
//! The path of a read is `operations/read.rs`, `index.rs`, `heap/block.rs`, `worker/access.rs`;
//! that of a write `operations/write.rs`, `evacuation.rs`, `log.rs`, `operations/insertion.rs`.
//!
//! Invariants:
//!
//! - Key and value of a published block never change.
//! - A location is dereferenced only by a worker that is online and has not been quiescent since it
//!   read the location from the index, or while the segment is held.
//! - Resident segments, index, ghosts and miniatures together stay at or below the memory limit,
//!   except while segments are still being evacuated after the limit was lowered.
//! - An operation visits at most [`limits::VISITS_MAX`] blocks and buckets in addition to those of
//!   its own keys, unless it writes more than 12 KiB, finds no free segment, or finds its place in
//!   an index that can grow full.
//! - An expired or flushed item is never returned.

mod config;
mod epochs;
mod evacuation;
mod eviction_policy;
mod expiry;
mod ghost;
mod heap;
mod index;
pub mod limits;
mod log;
mod lower_tier;
mod miniature;
mod miss;
mod operations;
mod page_maintenance;
mod prefetch;
mod region;
mod rejected;
mod spool;
mod statistics;
mod store;
mod sync;
// Two conditions, since clippy looks for `cfg(test)`.
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
#[cfg(all(test, loom))]
mod weak_memory;
mod worker;

/// The units that decide about eviction: the policies, the ghosts, and the miniatures that choose a
/// policy. The store acts on their decisions, and so can a simulation without a store.
pub mod eviction {
    pub use crate::eviction_policy::{
        EvictionDecision, EvictionPolicy, Lifetime, MeanLifetime, POLICIES, POLICY_COUNT, Part,
        leaves_ghost, next_part,
    };
    pub use crate::ghost::Ghosts;
    pub use crate::miniature::{
        Miniatures, Observation, SampleContext, SampleLimiter, SampledAccess, Traits,
    };
}

pub use config::{Config, ConfigError};
pub use expiry::Expiry;
pub use lower_tier::{LowerTier, Marks, SharedTier, TierAddress, TierItem};
pub use miss::Miss;
pub use operations::deletion::Deleted;
pub use operations::item::Item;
pub use operations::pin::Pin;
pub use operations::read::{Read, Recache};
pub use operations::request::{Mode, Published, Write};
pub use operations::upload::{Reserve, Upload};
pub use operations::walk::{Walk, WalkAction, WalkStep};
pub use operations::write::{
    Arithmetic, ArithmeticOutcome, CounterValue, Direction, ItemMark, MarkOutcome, Vivify,
};
pub use page_maintenance::{PageMaintenance, PageStep};
pub use rejected::Rejected;
pub use spool::Spooled;
pub use statistics::hot::{HotKey, HotKeys};
pub use statistics::size_class::{ClassStatistics, ItemSize, SizeClass, item_len};
pub use statistics::{EVICTED_AGES_S, Statistics};
pub use store::Store;
pub use worker::evicted::EvictedItem;
pub use worker::{KeyHash, Worker};
