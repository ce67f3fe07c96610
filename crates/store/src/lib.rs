//! The store: memory, index, eviction, expiry. It has no threads, sockets, protocol or clock; time
//! is an argument.
//!
//! The interface is [`Worker`]: each thread that uses the store has one. Through it a thread hashes
//! and prefetches ([`Worker::prefetch`]), reads ([`Worker::read`] passes an item to a closure,
//! which copies a small value or takes an owned [`Pin`] of a large one), and writes.
//! [`Worker::put`] writes a complete value. For a value that is still arriving, [`Worker::reserve`]
//! returns memory to be filled in place, and [`Worker::publish`] makes it visible. A worker
//! declares when it holds no references of a burst any more ([`Worker::quiescent`]) and when it
//! sleeps ([`Worker::offline`]). Only a `Pin` or an [`Upload`] may outlive a burst.
//!
//! The implementation is a log of segments under an index that readers do not lock:
//!
//! ```text
//! hash ─► index: two buckets of eight words ─► location ─► block in a segment
//! log:        open segments · lists of free, sealed and retired segments
//! evacuation: copies live blocks out of the oldest, expired, flushed or sparse segment
//! ```
//!
//! A good order for reading is `worker.rs`, `read.rs`, `index.rs`, `heap.rs`, `upload.rs`,
//! `write.rs`, `insertion.rs`, `log.rs`, `evacuate.rs`.
//!
//! Invariants: the bytes of a published block are never written. A location is dereferenced only by
//! a worker that is online and has not been quiescent since it read the location from the index, or
//! that holds the segment. Resident segments, index, ghosts and miniatures together stay at or
//! below the memory limit. An operation visits at most [`limits::VISITS_MAX`] blocks and buckets in
//! addition to those of its own keys, unless it writes more than 12 KiB or finds no free segment.
//! An expired or flushed item is never returned.

mod config;
mod counters;
mod decimal;
mod epochs;
mod evacuate;
mod eviction_policy;
mod ghost;
mod heap;
mod holes;
mod hot;
mod index;
mod insertion;
mod item;
pub mod limits;
mod log;
mod miniature;
mod page_maintenance;
mod pin;
mod prefetch;
mod read;
mod region;
mod rewrite;
mod segment_holds;
mod statistics;
mod store;
mod sync;
mod upload;
#[cfg(all(test, loom))]
mod weak_memory;
mod worker;
mod write;

pub use config::{Config, ConfigError};
pub use hot::{HotKey, HotKeys};
pub use item::{Expiry, Item};
pub use page_maintenance::{PageMaintenance, PageStep};
pub use pin::Pin;
pub use read::{Miss, Read, Recache};
pub use statistics::{EVICTED_AGES_S, Statistics};
pub use store::Store;
pub use upload::{Rejected, Reserve, Upload};
pub use worker::{KeyHash, Worker};
pub use write::{
    Arithmetic, ArithmeticOutcome, CounterValue, Deleted, Direction, ItemMark, MarkOutcome, Mode,
    Published, Vivify, Write,
};
