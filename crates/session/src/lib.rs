//! One client connection without I/O: parses requests, executes them against the store, writes
//! replies.
//!
//! A session owns no socket and reads no clock. Its caller (a runtime or a test) passes in the
//! received bytes and sends the output:
//!
//! ```text
//! runtime                                session                          store
//!   input ──────────── prepare(input) ──▶ parse, hash ── prefetch ─────▶  (buckets)
//!   … for every session of the burst …
//!   now, output ────── answer(…) ───────▶ execute in order ── read ────▶  copy or pin
//!   send(output) ◀──── Progress ───────── bytes consumed, next need
//! ```
//!
//! [`Progress::next`] says what the session needs to continue: more input, bytes of an upload
//! (which may be received directly into the store's memory, [`Session::upload_buffer`]), space in
//! the output, another turn, memory that slower peers hold, or to be closed.
//!
//! Invariants:
//! - Splitting the input differently never changes the output.
//! - No input makes a session panic.
//! - Between two calls a session keeps no reference to the input, and holds store memory only for
//!   an unfinished upload.
//! - One call adds a bounded amount to the output ([`limits`]).

#![forbid(unsafe_code)]

mod answer;
mod control;
mod counters;
pub mod limits;
mod now;
mod output;
mod prefixes;
mod prepare;
mod session;
mod upload;

pub use control::{Permissions, ServerControl};
pub use counters::{Counter, CounterSnapshot, Counters};
pub use now::Now;
pub use output::Output;
pub use prefixes::{PrefixCount, PrefixSums};
pub use prepare::{Prepared, prefetch_first_bucket, prefetch_items, recycle};
pub use session::{Next, Progress, RequestContext, Session};
