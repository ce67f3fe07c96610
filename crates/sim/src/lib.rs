//! Remote memory in virtual time.
//!
//! [`steering`] computes how fast clients of a chained key-value store are, and what a middlebox
//! that steers their verbs changes: each verb costs time at the client, at a core of the middlebox,
//! on the link and at the memory. It models costs, not packets.
//!
//! [`world`] runs the state machines of `pool` and `middlebox` on a seeded network, where all that
//! may go wrong does, and judges what the clients were answered.
//!
//! Nothing here reads a clock: the same settings and seed give the same result on every machine.

#![forbid(unsafe_code)]

pub mod limits;
pub mod steering;
#[cfg(test)]
mod tests;
pub mod world;
