//! The interface between a runtime and a service.
//!
//! A *service* is what a listener offers: the cache, or the admin page. A *runtime* has the threads
//! and the connections. Neither knows the other: a runtime is compiled for any [`Service`], and a
//! service runs under any runtime.
//!
//! ```text
//! runtime                                  service
//!   a worker starts ──── worker() ───────▶ Worker: its handles, counters, buffers
//!   a connection ─────── open() ─────────▶ Session: what it remembers of the connection
//!   a burst:   input ─── prepare(…) ─────▶ requests, parsed; their memory is prefetched
//!              output ── answer(…) ──────▶ replies; Progress says what the session needs next
//!   a completion ─────── complete(…) ────▶ the result of something begun by an earlier answer
//! ```
//!
//! [`Next`] lists what a session may wait for: its peer, space in the output, a turn, memory, or
//! the result of a [ticket](Ticket) such as a block read from a disk.
//!
//! This crate has no sockets, threads or clocks. The runtime passes the time as an argument, in
//! nanoseconds of a monotonic clock.

#![forbid(unsafe_code)]

mod completion;
pub mod limits;
mod output;
mod progress;
mod worker;

pub use completion::{Abandoned, Completed, ConnectionId, Mailbox, OpenTickets, Ticket, Tickets};
pub use output::{Output, Pin};
pub use progress::{Next, Progress};
pub use worker::{NoCompletion, NoPin, Service, Session, Worker, recycle};
