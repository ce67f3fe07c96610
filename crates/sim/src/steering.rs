//! Clover's clients, a memory, and a middlebox between them, verb by verb.
//!
//! ```text
//! client thread ─▶ core of the middlebox ─▶ memory ─▶ the same core ─▶ client thread
//!  one processor    packets in turn           atomics in turn for each address
//! ```
//!
//! A key is a chain of versions of which the last is current (Tsai, Shan & Zhang, "Disaggregating
//! persistent memory and controlling them remotely", ATC 2020). A client remembers the last version
//! that it has seen of each key. A read is a READ there; if the version is not the last one, the
//! client reads on, from a shortcut that Clover keeps to a recent version ([`Costs::lag`]). A write
//! is a WRITE of a new version, and a compare-and-swap that appends it; if the version was not the
//! last one, the client reads on until it finds the last one, and tries again there.
//!
//! The middlebox (Grant & Snoeren, WORDS 2021) changes the target of compare-and-swaps and READs to
//! the last version that it has forwarded, in five steps ([`Step`]). What a step costs is a number
//! of nanoseconds a packet; what it saves follows from the model.
//!
//! Not modelled: loss of packets, wrong predictions (verbs reach the memory in the order in which
//! they have left the middlebox), garbage collection, and the metadata server.

mod config;
mod costs;
mod engine;
pub mod published;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Step};
pub use costs::Costs;
pub use engine::simulate;

use measure::Histogram;

/// What a simulation measured, after its warm-up.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// Operations a second: the sum of each thread's own rate, as it was published.
    pub threads_rps: f64,
    /// Operations a second: all, by the time that they took.
    pub total_rps: f64,
    /// From the first verb of an operation to its end, in nanoseconds.
    pub reads: Histogram,
    /// The same of writes.
    pub writes: Histogram,
    /// Compare-and-swaps that appended, of all. None: there were none.
    pub swap_success: Option<f64>,
    /// Verbs of an operation, mean.
    pub verbs: f64,
    /// Bytes on the link of an operation, with all headers, mean.
    pub bytes: f64,
    /// Share of the time in which the busiest core of the middlebox worked.
    pub core_busy: f64,
}
