//! The operating system's edge: readiness, completions, sockets, clocks, processors, children,
//! counters, and what the machine says of itself.
//!
//! Everything that must speak to Linux directly does so here, and hands out safe types. Nothing
//! in this crate knows what a cache is. Where `unsafe` stands, a `SAFETY` line names the
//! invariant; every other crate but `store` forbids it.

pub mod child;
pub mod clock;
pub mod cost;
pub mod daemon;
pub mod datagram;
pub mod limits;
pub mod machine;
pub mod poll;
pub mod privileges;
pub mod ring;
pub mod signals;
pub mod socket;
pub mod thread;
