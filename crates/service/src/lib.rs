//! The interface between a runtime and a service.
//!
//! A *service* answers the requests on the connections of a listener: the cache, or the admin
//! pages. A *runtime* has the threads and the connections. Neither depends on the other, because
//! a runtime is generic over the [`Service`], and a service runs under any runtime.
//!
//! ```text
//! runtime                                  service
//!   a worker starts ──── worker() ───────▶ Worker: the service's state of that worker
//!   a connection ─────── open() ─────────▶ Session: the service's state of that connection
//!   a burst:   input ─── prepare(…) ─────▶ parses requests and prefetches the memory they need
//!              output ── answer(…) ──────▶ writes replies; Progress: what the session needs next
//!   a completion ─────── complete(…) ────▶ takes the result for which an earlier request waits
//! ```
//!
//! A *burst* is the set of connections that one wait of a worker returned. In a burst each session
//! has one *turn*: a call of `prepare` and then of `answer`. [`Next`] lists what a session may need
//! before its next turn: bytes from its peer, space in the output, memory, or the result of a
//! [ticket](Ticket), such as a block read from a disk.
//!
//! This crate has no sockets, threads or clocks. The runtime passes the time as an argument, in
//! nanoseconds of a monotonic clock.

#![forbid(unsafe_code)]

mod completion;
mod endpoint;
mod file_range;
pub mod limits;
mod output;
mod progress;
mod worker;

pub use completion::{Abandoned, Completed, ConnectionId, Mailbox, OpenTickets, Ticket, Tickets};
pub use endpoint::{Endpoint, address_text};
pub use file_range::{FileRange, FileRest};
pub use output::{Output, Pin};
pub use progress::{Next, Progress};
pub use worker::{NoCompletion, NoPin, Service, Session, Worker, recycle};
