//! The slow, obvious cache that every test may ask.
//!
//! [`Cache`] is what a store promises, over a `BTreeMap`: no memory limit, no eviction, no
//! threads, time as an argument. [`ModelSession`] is what a session promises: bytes in, bytes
//! out, over a `Cache`. It reads requests with `protocol::parse` and writes every answer by
//! itself, so that it can contradict the code it is compared with.
//!
//! Nothing here is meant to be fast, and nothing but tests may depend on it.
#![forbid(unsafe_code)]

mod base64;
pub mod cache;
pub mod session;

pub use cache::{ArithOutcome, Arithmetic, Cache, DeleteOutcome, Item, SetOutcome, Write};
pub use session::ModelSession;
