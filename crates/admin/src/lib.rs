//! The admin service: metrics, health and statistics over HTTP, on an address of its own.
//!
//! ```text
//! runtime          http::Request        session          pages                 server
//!   input ───────▶ parse ─────────────▶ route ─────────▶ metrics, JSON, … ◀─── Source
//!   output ◀────── http::Response ◀──────┘
//! ```
//!
//! The service runs on a runtime with one worker of its own, beside the one of the cache. A page
//! reads the counters that the cache's workers write. It takes one lock that a request may take,
//! for some loads: that of the segment lists, which a writer takes when it needs a new segment.
//!
//! Invariants:
//! - No input makes a session panic, and splitting the input differently never changes the output.
//! - The memory of a connection is bounded ([`limits`]): a head of 8 KiB, and one page beyond
//!   [`OUTPUT_SOFT_MAX`](service::limits::OUTPUT_SOFT_MAX).
//! - It changes nothing: every page is read-only.
//!
//! It does not authenticate, encrypt, compress, or serve files.

#![forbid(unsafe_code)]

mod connection;
mod figures;
pub mod limits;
mod pages;
mod source;
#[cfg(test)]
mod tests;
mod worker;

pub use connection::HttpSession;
pub use source::Source;
pub use worker::{AdminService, AdminWorker};
