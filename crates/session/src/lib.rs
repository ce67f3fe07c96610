//! A *session* is the cache's side of one client connection, without I/O. It decodes requests,
//! executes them against the store, and encodes the replies.
//!
//! A session owns no socket and reads no clock. Its caller (a runtime or a test) receives the input
//! and sends the output. One pass through the steps below is a *turn* of the session. A *burst* is
//! the set of connections that a worker answers after one wake-up. A runtime prepares all sessions
//! of a burst before it answers the first:
//!
//! ```text
//! runtime                                session                          store
//!   input ──────────── prepare(input) ──▶ decode, hash ─ prefetch ─────▶  (buckets)
//!   … then, when every session of the burst is prepared, for each of them …
//!   now, output ────── answer(…) ───────▶ execute in order ── read ────▶  copy or pin
//!   send(output) ◀──── Progress ───────── bytes consumed, what the session needs next
//! ```
//!
//! [`Progress::next`] says what the session needs to continue. It may be more input, bytes of a
//! value (which may be received directly into the store's memory, [`upload_buffer`]), space in the
//! output, another turn, or store memory that is still in use for clients that receive slowly. It
//! may also be the result of a read from a disk or a memory pool. Or it says that the connection is
//! to be closed.
//!
//! [`Progress::next`]: service::Progress::next
//! [`upload_buffer`]: service::Session::upload_buffer
//!
//! A request passes through a decoder, execution and an encoder. Execution does not know the
//! protocol of the request:
//!
//! ```text
//! text/decode.rs ───┐ Operation  ┌────────────┐ item, Outcome ┌─ text/encode.rs
//! meta/decode.rs ───┼─▶ Prepared │ execute/   │──────────────▶┼─ meta/encode.rs
//! binary/decode.rs ─┘            └────────────┘               └─ binary/encode.rs
//!       │                                                            ▲
//!       └───── Encoder: the parts that only the reply needs ─────────┘
//! ```
//!
//! `protocols.rs` lists all protocols, and says how to add one. If a login is required, `login.rs`
//! decodes the input of a client until it has logged in. If the items are in a memory pool,
//! `pooled.rs` takes the place of `execute/`; the decoders and encoders are the same.
//!
//! Further terms of this crate:
//! - *tier*: the files below the store, which keep evicted items.
//! - *memory pool*: the memory of another host, in which a server can keep its items instead of in
//!   a store.
//! - *pin*: keeps a value in the store's memory while it is sent from there.
//! - *ticket*: stands for a result that a session waits for. When another thread completes the
//!   ticket, the session gets a turn.
//! - *stream*: the log lines about one kind of event. Its *watchers* are the clients that have sent
//!   `watch` with its name, and that receive these lines.
//!
//! Invariants:
//! - The output does not depend on how the input is split into pieces.
//! - No input makes a session panic.
//! - A request is decoded once, unless the turn for which it was decoded ends before the request is
//!   executed. Then a later turn decodes it again.
//! - Between two calls a session keeps no reference to the input. It holds memory of the store only
//!   during an upload.
//! - One call adds at most a bounded number of bytes to the output ([`limits`]).

#![forbid(unsafe_code)]

mod binary;
mod cache;
mod connections;
mod control;
mod counters;
mod dump_fields;
mod encode;
mod event_log;
mod execute;
pub mod fuzzing;
mod item_walk;
mod latency;
pub mod limits;
mod lines;
mod login;
mod memcached_statistics;
mod meta;
mod now;
mod operation;
mod outcome;
mod passwords;
mod pooled;
mod prefix_task;
mod prefixes;
mod prepare;
mod protocols;
mod registry;
mod session;
mod size_histogram;
#[cfg(test)]
mod tests;
mod text;
mod tier_reads;
#[cfg(test)]
mod toy;
mod upload;
mod visit_rate;
mod watching;

pub use cache::{CacheService, CacheWorker, ValuePin};
pub use connections::{Connections, ListeningKind, ListeningSocket};
pub use control::{Permissions, ServerControl, StatWriter};
pub use counters::{ClassCounter, ClassCounts, Counter, CounterSnapshot, Counters};
pub use event_log::LogConfig;
pub use latency::{
    ClassLatency, CommandClass, LATENCY_BOUNDS_NS, LATENCY_BUCKETS, LatencyRecording,
    LatencySnapshot,
};
pub use memcached_statistics::{
    FIXED_STATISTICS, OptionalPart, REPEATED_STATISTICS, ZERO_STATISTICS, is_of_memcached,
    is_uninformative,
};
pub use now::{Clock, ClockRefused, Now};
pub use passwords::{PasswordFormat, Passwords, PasswordsError};
pub use pooled::{PoolService, PoolSession, PoolWorker};
pub use prefixes::{PrefixCount, PrefixSums};
pub use prepare::{Prepared, prefetch_first_bucket, prefetch_items};
pub use protocols::{Access, AllowedProtocols};
pub use registry::CounterRegistry;
pub use session::{Output, RequestContext, Session};
pub use text::TextStats;
pub use tier_reads::{TierAccess, TierRead};
pub use watching::{LogCounts, WatchRefused, Watching};

/// The names of all eviction policies of the store. `stats curtail` shows the one that is in use.
#[must_use]
pub fn eviction_policies() -> [&'static str; store::eviction::POLICY_COUNT] {
    store::eviction::POLICIES
        .each_ref()
        .map(|policy| policy.name)
}
