//! The load generator.
//!
//! [`prefill()`] stores the records on the servers. [`run()`] offers a load and measures latencies.
//! [`search()`] repeats runs to find the highest rate at which a latency objective is met.
//!
//! The schedule of a run is generated from a seed. Two latencies of each request are recorded. The
//! *response time* counts from the time at which the request was intended to be sent. The *service
//! time* counts from the time at which it was sent. The generator's own *lateness* is recorded
//! separately. For a request without an answer, a lower bound of its latency is recorded (the
//! request is *censored*).
//!
//! Five concerns are separate. [`workload`] or a script determines the requests and their times.
//! The *engine* decides when to send, and records the measurements. A *carrier* transports requests
//! and answers. A *wire* encodes requests and parses answers. A *window* holds the measurements of
//! a section of the run, usually a second.
//!
//! ```text
//! schedule ─┐            ┌─ carrier: persistent, renewed, udp, … ──────────────┐
//! requests ─┼─► engine ──┤                                                     ├─► server
//! script ───┘     │      └─ wire: text, meta, binary, textile, http ───────────┘
//!                 └─► windows ─► summary: by operation, by size of file, and together
//! ```
//!
//! The engine is compiled separately for each carrier. The wire is a value.
//!
//! The generator shares no code with the server, except the crates `protocol`, `workload`,
//! `measure`, `units` and `sys`. Therefore the generator can detect an error in any other code of
//! the server, because the generator does not contain that code.

#![forbid(unsafe_code)]

pub mod agents;
mod aggregate;
mod arrivals;
mod batch;
mod carrier;
mod config;
mod engine;
mod error;
pub mod fuzzing;
mod schedule_source;
mod script;
mod second;

pub mod limits;
mod measuring;
mod merge;
mod metrics;
mod opening;
mod part;
mod prefill;
mod run;
pub mod search;
mod server_watch;
mod sized_sample;
mod stall_detector;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod text;
mod timeline;
mod waiting;
mod wire;

pub use config::{CarrierKind, Config, ConfigError, Lengths, Protocol, Rate, Target};
pub use error::Error;
pub use measuring::{MeasuringClient, MeasuringReport};
pub use merge::MergeError;
pub use metrics::Recorded;
pub use part::Part;
pub use prefill::{Prefill, Progress, prefill};
pub use run::{run, run_measured, run_recorded};
pub use search::{Objective, SearchResult, search};
pub use second::Second;
pub use summary::Summary;
