//! A tier below the store: items that leave memory by eviction, in a log on files.
//!
//! ```text
//! worker ── evicts ──▶ append ─▶ write buffer ─▶ thread that writes ─▶ device
//!           publish ─▶ index: hash ─▶ address            (a segment at a time)
//! worker ── misses ──▶ find ──▶ address ─▶ queue ─▶ reader ─▶ record, verified
//!           restore ◀──────────────────────────────────────┘
//! ```
//!
//! The tier is a ring of segments (`ring.rs`). Evicted items are appended to open segments in
//! memory (`buffers.rs`), and a thread writes full ones. The oldest segment is reused first. An
//! item that is read is written back into memory by its worker, and its copy stays current until
//! the item changes. When such an item is evicted again, nothing is written, unless its copy is so
//! old that it would soon be lost.
//!
//! Invariants:
//! - No worker waits for a device. If the device is slow, items are dropped and counted.
//! - A read returns the bytes of the wanted item or nothing. A record has a checksum, its key and
//!   the number of its segment, which is never used twice.
//! - A copy is removed from the index when its item changes, under the lock of the item's index
//!   class in the store, so no old value is ever read again. What is on the device does not matter:
//!   without the index there are no items.
//! - After an orderly stop the index is saved (`saved.rs`) and the next process continues; after a
//!   crash the tier is empty.
//! - Sizes are fixed at the start: index, buffers, and the queue of reads.

#![forbid(unsafe_code)]

mod buffers;
mod counters;
mod device;
mod index;
pub mod limits;
mod little_endian;
mod readers;
mod record;
mod restart;
mod ring;
mod saved;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod tier;
mod write_rate;

pub use counters::Statistics;
pub use device::{Device, FileDevice};
pub use readers::{Readers, Reply, Request};
pub use record::Record;
pub use restart::{Continued, Stopped};
pub use tier::{Rules, RulesError, Tier};
