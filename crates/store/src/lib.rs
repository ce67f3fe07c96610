//! Memory, index, eviction, expiry. No threads, no sockets, no protocol, no clock: time is an
//! argument.
//!
//! The seam is [`Worker`]: every thread that touches the store holds one of its own. Through it
//! a thread hashes and prefetches ([`Worker::prefetch`]), reads ([`Worker::read`] shows an item to
//! a closure, which copies a small value or takes an owned [`Pin`] of a large one), and writes
//! ([`Worker::put`] a value at hand; for one on its way [`Worker::reserve`] hands out memory to be
//! filled in place and [`Worker::publish`] makes it visible). A worker says when it holds nothing
//! of a burst any more ([`Worker::quiescent`]) and when it sleeps ([`Worker::offline`]); what must
//! outlive a burst is a `Pin` or an [`Upload`].
//!
//! Behind the seam stands a log of segments under an index that readers do not lock:
//!
//! ```text
//! hash ─► index: two buckets of eight words ─► location ─► block in a segment
//! log:   lanes (open segments) · segment lists (free, sealed, retired segments)
//! drain: the oldest, expired, flushed or sparse segment: its blocks are copied behind the newest,
//!        or leave
//! ```
//!
//! `worker.rs`, `read.rs`, `index.rs`, `heap.rs`, `upload.rs`, `write.rs`, `position.rs`, `log.rs`,
//! `evacuate.rs` is a good order to read in. Invariants: the bytes of a block that is published are
//! never written; a location is looked at only by a worker that is online and has not been
//! quiescent since the index gave it, or that holds the segment; segments that may be resident,
//! index, ghosts and miniatures together stay at or below the limit; no operation visits more than
//! [`limits::VISITS_MAX`] blocks and buckets beside those it names, but for one that writes more
//! than 12 KiB or finds no segment at all; an item past its time or its flush is never shown.

mod config;
mod counters;
mod epochs;
mod evacuate;
mod eviction_policy;
mod ghost;
mod heap;
mod holds;
mod holes;
mod hot;
mod index;
mod insertion;
mod item;
pub mod limits;
mod log;
mod miniature;
mod number;
mod page_maintenance;
mod pin;
mod prefetch;
mod read;
mod region;
mod rewrite;
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
    ArithOutcome, Arithmetic, Counted, Deleted, Direction, Mark, Marked, Mode, Published, Vivify,
    Write,
};
