//! A simple reference cache that tests compare with.
//!
//! [`Cache`] specifies the store over a `BTreeMap`, without memory limit, eviction and threads.
//! Time is an argument. [`ModelSession`] specifies the session: it turns the bytes of a client
//! into replies from a `Cache`. It parses requests with `protocol::parse`, but writes every reply
//! with code of its own, so that it can contradict the code under test.
//!
//! Speed does not matter here, and only tests may depend on this crate.

#![forbid(unsafe_code)]

mod base64;
pub mod cache;
pub mod session;

pub use cache::{Arithmetic, ArithmeticOutcome, Cache, DeleteOutcome, Item, SetOutcome, Write};
pub use session::ModelSession;
