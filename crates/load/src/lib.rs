//! The load generator.
//!
//! [`prefill()`] stores the records on the servers; [`run()`] offers a load and measures latencies.
//! The schedule is generated from a seed. Latency is recorded twice: from the time at which a
//! request was *intended* to leave (response time) and from the time at which it left (service
//! time). The generator's own lateness is recorded separately. Requests never answered count as
//! censored. [`search()`] repeats runs to find the highest rate that keeps a latency objective.
//!
//! What is requested and when ([`workload`], or a script), what is recorded (the engine and its
//! metrics), how requests travel (a carrier) and how they are written (a wire) are apart:
//!
//! ```text
//! schedule ─┐            ┌─ carrier: persistent, udp, one_shot ─┐
//! requests ─┼─► engine ──┤                                      ├─► server
//! script ───┘     │      └─ wire: text, meta ───────────────────┘
//!                 └─► windows ─► summary: by operation, and together
//! ```
//!
//! The engine is compiled once for each carrier and wire: no request pays for the choice.
//!
//! The generator shares only the protocol and the kernel with the servers it measures, so that a
//! fault of the server cannot hide in the instrument.

#![forbid(unsafe_code)]

pub mod agents;
mod aggregate;
mod batch;
mod carrier;
mod config;
mod engine;
mod error;
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
mod stall_detector;
pub mod summary;
pub mod text;
mod timeline;
pub mod units;
mod waiting;
mod wire;

pub use config::{CarrierKind, Config, ConfigError, Protocol, Rate, Target};
pub use error::Error;
pub use measuring::{MeasuringClient, MeasuringReport};
pub use merge::MergeError;
pub use metrics::Recorded;
pub use part::Part;
pub use prefill::{Prefill, Progress, prefill};
pub use run::{run, run_measured, run_recorded};
pub use search::{Objective, Searched, search};
pub use second::Second;
pub use summary::Summary;
