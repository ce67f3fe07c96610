//! Offered load: schedule to connections to records.
//!
//! [`prefill()`] puts the records on the servers, [`run()`] offers a load and measures. The
//! schedule is drawn from a seed before the run; every latency is kept from the time a request was
//! *intended* to leave and from the time it did. What the generator itself was late by is kept
//! apart, and what was never answered is counted, not forgotten.
//!
//! The instrument shares nothing with the servers it measures but the protocol and the kernel.

#![forbid(unsafe_code)]

mod aggregate;
mod config;
mod connection;
mod engine;
mod error;
mod schedule_source;

pub mod limits;
mod metrics;
mod opening;
mod prefill;
mod run;
mod server_watch;
mod stall_detector;
pub mod summary;
pub mod text;
mod timeline;
pub mod units;
mod waiting;
mod wire;

pub use config::{Config, ConfigError, Protocol, Rate, Target};
pub use error::Error;
pub use metrics::Recorded;
pub use prefill::{Prefill, Progress, prefill};
pub use run::{Second, run, run_recorded};
pub use summary::Summary;
