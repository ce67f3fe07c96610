//! One client connection without I/O: decodes requests, executes them against the store, encodes
//! replies.
//!
//! A session owns no socket and reads no clock. Its caller (a runtime or a test) passes in the
//! received bytes and sends the output:
//!
//! ```text
//! runtime                                session                          store
//!   input ──────────── prepare(input) ──▶ decode, hash ─ prefetch ─────▶  (buckets)
//!   … for every session of the burst …
//!   now, output ────── answer(…) ───────▶ execute in order ── read ────▶  copy or pin
//!   send(output) ◀──── Progress ───────── bytes consumed, next need
//! ```
//!
//! [`Progress::next`] says what the session needs to continue: more input, bytes of an upload
//! (which may be received directly into the store's memory, [`upload_buffer`]), space in the
//! output, another turn, memory that slower peers hold, or to be closed.
//!
//! [`Progress::next`]: service::Progress::next
//! [`upload_buffer`]: service::Session::upload_buffer
//!
//! A request passes a decoder, execution and an encoder, of which only decoder and encoder know its
//! protocol:
//!
//! ```text
//! text/decode.rs ─┐ Operation  ┌────────────┐ item, Outcome ┌─ text/encode.rs
//! meta/decode.rs ─┴─▶ Prepared │ execute/   │──────────────▶┴─ meta/encode.rs
//!       │                      └────────────┘                        ▲
//!       └─────────── Encoder: what only the reply needs ────────────────┘
//! ```
//!
//! `protocols.rs` is the one place that names all protocols, and says what a new one needs.
//!
//! Invariants:
//! - Splitting the input differently never changes the output.
//! - No input makes a session panic.
//! - No request is decoded twice, unless a turn ended before it.
//! - Between two calls a session keeps no reference to the input, and holds store memory only for
//!   an unfinished upload.
//! - One call adds a bounded amount to the output ([`limits`]).

#![forbid(unsafe_code)]

mod cache;
mod control;
mod counters;
mod encode;
mod execute;
mod latency;
pub mod limits;
mod lines;
mod meta;
mod now;
mod operation;
mod outcome;
mod prefixes;
mod prepare;
mod protocols;
mod registry;
mod session;
mod text;
#[cfg(test)]
mod toy;
mod upload;

pub use cache::{CacheService, CacheWorker, ValuePin};
pub use control::{Permissions, ServerControl, StatWriter};
pub use counters::{Counter, CounterSnapshot, Counters};
pub use latency::{
    ClassLatency, CommandClass, LATENCY_BOUNDS_NS, LATENCY_BUCKETS, LatencySnapshot,
};
pub use now::{Clock, Now};
pub use prefixes::{PrefixCount, PrefixSums};
pub use prepare::{Prepared, prefetch_first_bucket, prefetch_items};
pub use registry::CounterRegistry;
pub use session::{Output, RequestContext, Session};
pub use text::TextStats;
