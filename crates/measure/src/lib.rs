//! What latencies and rates mean: histograms, intervals, tests and checks.
//!
//! Values in, values out: no clock, no file, no thread; randomness is a seed. Nothing here corrects
//! for coordinated omission after the fact: the caller records from *intended* time or does not.
#![forbid(unsafe_code)]

mod histogram;
mod lateness;
mod littles_law;

pub use histogram::{Histogram, HistogramError};
pub use lateness::{LATENESS_LIMIT_NS, generator_limited};
pub use littles_law::{LITTLES_LAW_TOLERANCE, LittlesLaw, Outstanding};
