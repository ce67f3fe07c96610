//! The runtime `memory`: one worker whose connections are pipes in memory, for tests and
//! simulations. It has no descriptors, no threads and no clock. Its caller runs it and passes the
//! time as an argument.
//!
//! ```text
//! caller: Client::send → Memory::run(now_ns) → Client::receive
//! ```
//!
//! The worker serves its connections with the same code as the runtime `events`
//! (`crate::readiness`). So bursts, bounds, back-pressure and completions are the same. A pipe has
//! a bounded capacity, like a socket.

mod accept;
mod pipe;
mod stop;
mod wake;
mod worker;

pub use pipe::Client;
pub(crate) use wake::Flag;
pub use worker::Memory;
pub(crate) use worker::only_context;
