//! The offered load as numbers: the distributions of key lengths, value lengths, popularity and
//! arrivals, and the schedules drawn from them.
//!
//! Everything here is a pure function of its arguments and a seed. The same seed gives the same
//! sequence on every machine: random numbers are integers of a named generator ([`RandomStream`]),
//! and every logarithm and power comes from the `libm` crate. The machine's own C library would not
//! do, because its last bit differs between machines. Golden sequences in `tests/` hold this.
//!
//! ```text
//! Distribution ──► SizeDistribution ─► Keyspace   key and value of each record: lengths, bytes
//!  │ (fb_ia…)
//!  └─────────────► Arrivals ──────┐
//! Popularity ────► RecordSampler ─┴──► Schedule   time, connection, record, operation
//! WebFiles                              in place of a keyspace: the files of a web server
//! Ycsb, Zipfian, ScrambledZipfian       the core workloads of YCSB, record for record
//! ```
//!
//! The crate opens no socket, reads no clock and keeps no table that grows with the records.
#![forbid(unsafe_code)]

mod arrivals;
mod distribution;
mod keyspace;
mod lengths;
pub mod limits;
mod op;
mod popularity;
mod random_stream;
mod schedule;
mod script;
mod size;
#[cfg(test)]
mod tests;
mod web_files;
mod ycsb;

pub use arrivals::{Arrival, Arrivals, ArrivalsError, Superposition};
pub use distribution::{Distribution, DistributionError};
pub use keyspace::{KeyBuffer, Keyspace, KeyspaceError};
pub use lengths::{KeyShape, value_lengths};
pub use op::{Mix, MixError, Op};
pub use popularity::{Permutation, Popularity, PopularityError, RecordSampler};
pub use random_stream::{Purpose, RandomStream};
pub use schedule::{Demand, DemandError, Digest, PlannedRequest, Request, Requests, Schedule};
pub use script::{LineError, ScriptLine, words};
pub use size::SizeDistribution;
pub use web_files::{SizeClass, WebFiles, WebFilesError};
pub use ycsb::{ScrambledZipfian, Ycsb, YcsbError, Zipfian, ZipfianError};
