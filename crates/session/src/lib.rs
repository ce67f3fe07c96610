//! One client's conversation: bytes to protocol to store to bytes.
//!
//! A session owns no socket and reads no clock. Whoever runs it (a runtime, the simulator, a
//! test) gives it what has arrived and takes what is to be sent:
//!
//! ```text
//! runtime                                session                          store
//!   input ──────────── prepare(input) ──▶ parse, hash ── prefetch ─────▶  (buckets)
//!   … for every session of the burst …
//!   now, output ────── answer(…) ───────▶ execute in order ── read ────▶  copy or pin
//!   send(output) ◀──── Progress ───────── consumed, what it needs next
//! ```
//!
//! [`Progress::next`] says what the session needs: more input, room in the output, another turn,
//! memory that slower peers hold, bytes of an upload (which may be received straight into place,
//! [`Session::upload_buffer`]), or to be closed.
//!
//! Invariants: splitting the input differently never changes the output; nothing a client sends
//! makes it panic; between two calls it holds the input not at all and memory only as an upload;
//! what it adds to the output in one call is bounded ([`limits`]).

#![forbid(unsafe_code)]

mod answer;
mod control;
mod counters;
pub mod limits;
mod now;
mod output;
mod prepare;
mod session;
mod upload;

pub use control::ServerControl;
pub use counters::{Counter, CounterSnapshot, Counters};
pub use now::Now;
pub use output::Output;
pub use prepare::{Prepared, prefetch_first_bucket, prefetch_items, recycle};
pub use session::{Next, Progress, RequestContext, Session};
