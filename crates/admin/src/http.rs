//! HTTP/1.1 without I/O, as far as a server of small read-only pages needs it (RFC 9112).
//!
//! Nothing here knows the pages, so another HTTP service can use the same parser.

pub mod request;
pub mod response;

pub use request::{Parsed, Rejection, Request};
pub use response::{Persistence, Response, Status};
