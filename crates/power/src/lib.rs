//! The energy of a server under a latency objective.
//!
//! ```text
//!  model ── settings ─▶ energy, p99          in virtual time, without I/O
//! ```
//!
//! [`model`] is pure: values in, values out, and a seed.
#![forbid(unsafe_code)]

pub mod limits;
pub mod model;
