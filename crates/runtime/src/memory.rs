//! Memory: one worker, run by its caller, whose connections are pipes in memory. It has no
//! descriptors, no threads and no clock: the time is an argument.
//!
//! ```text
//! caller: Client::send → Memory::run(now_ns) → Client::receive
//! ```
//!
//! The worker serves its connections by the code of `events` (`crate::readiness`), so tests and
//! simulations have the same bursts, bounds, back-pressure and completions. A pipe has a bounded
//! capacity, as a socket has.

mod accept;
mod pipe;
mod stop;
mod wake;
mod worker;

pub use pipe::Client;
pub use worker::Memory;
