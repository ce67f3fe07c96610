//! HTTP/1.1 for servers, without I/O: heads of requests, framing, ranges, conditions, dates, paths
//! and responses (RFC 9110 and RFC 9112).
//!
//! ```text
//! input ──▶ Heads::prepare ──▶ Request ──▶ decode_path     which document
//!                                     └──▶ Conditions      whether to send it, and which bytes
//! output ◀── Response, or Head and a body ◀── the service's answer
//! ```
//!
//! Values in, values out: no sockets, no clock, no knowledge of the services that use it. A
//! service passes the time as an argument.
//!
//! Invariants:
//! - No input makes a function panic.
//! - The result of parsing some input is final once it is not [`Parsed::Incomplete`]: more bytes
//!   after the input never change it.
//! - A request whose end is doubtful is rejected, and the connection ends with it. Otherwise a
//!   proxy in front of the server might see another request than the server (request smuggling).
//!
//! Bodies are of bounded length and part of the parsed request. Transfer codings, several ranges in
//! one response and trailers are not supported.

#![forbid(unsafe_code)]

mod conditions;
mod date;
#[doc(hidden)]
pub mod fuzzing;
mod heads;
mod host_names;
pub mod limits;
mod path;
mod range;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use conditions::{Conditions, Validators, Verdict};
pub use date::{format_date, parse_date};
pub use heads::{Heads, Pending, Prepared};
pub use host_names::HostNames;
pub use path::{PathError, decode_path, decode_percent, encode_path};
pub use range::{ByteRange, RangeRequest, parse_range};
pub use request::{Parsed, Rejection, Request};
pub use response::{Head, Persistence, Response, Status};
