//! Memory, index, eviction, expiry. No threads, no sockets, no protocol, no clock: time is an
//! argument.
//!
//! The seam is [`Worker`]: every thread that touches the store holds one of its own. Through it
//! a thread hashes and prefetches ([`Worker::prefetch`]), reads ([`Worker::read`] shows an item
//! to a closure, which copies a small value or takes an owned [`Pin`] of a large one), and
//! writes ([`Worker::reserve`] hands out memory to be filled in place, [`Worker::publish`] makes
//! it visible). A worker says when it holds nothing of a burst any more
//! ([`Worker::quiescent`]) and when it sleeps ([`Worker::offline`]); what must outlive a burst is
//! a `Pin` or an [`Upload`].
//!
//! Behind the seam stands, for now, the simplest thing that is right:
//!
//! ```text
//! Store ── shards[hash] ── Mutex ── table: hash → slot        (hashbrown)
//!            │                      slots: key's block, CAS, times, neighbours in the LRU list
//!            └ ledger: bytes used, bytes pinned, limit         (shared by all shards)
//! block = Arc<[u8]>: key, then value; immutable once published
//! ```
//!
//! Invariants: a block that is published is never written; at most one shard is locked at a
//! time; no lock is held across a system call or, but for the last resort of `rewrite.rs`, while a
//! block is allocated or freed; what the ledger counts stays at or below the limit; an item past
//! its time or its flush is never shown.

mod config;
mod drain;
mod epochs;
mod ghost;
mod heap;
mod holds;
mod index;
mod item;
pub mod limits;
mod log;
mod number;
mod pin;
mod prefetch;
mod read;
mod region;
mod rewrite;
mod statistics;
mod store;
mod sync;
mod tally;
mod upload;
mod worker;
mod write;

pub use config::{Config, ConfigError};
pub use item::{Expiry, Item};
pub use pin::Pin;
pub use read::{Miss, Read};
pub use statistics::Statistics;
pub use store::Store;
pub use upload::{Refused, Reserve, Upload};
pub use worker::{KeyHash, Worker};
pub use write::{
    ArithOutcome, Arithmetic, Counted, Deleted, Direction, Mode, Published, Vivify, Write,
};
