//! What latencies and rates mean: histograms, intervals, tests and checks.
//!
//! Values in, values out: no clock, no file, no thread; randomness is a seed. Nothing here corrects
//! for coordinated omission after the fact: the caller records from *intended* time or does not.
//!
//! | question | answer |
//! |---|---|
//! | how were latencies distributed? | [`Histogram`] |
//! | and where some requests were never answered? | [`WithCensored`] |
//! | how sure is this percentile, this median of trials? | [`quantile_interval`],
//! [`median_of_trials`] |
//! | is A faster than B, and by how much? | [`RankTest`], [`ratio_of_medians`], [`paired_ratio`] |
//! | what can the server do, and where does its tail begin? | [`Capacity`], [`Knee`] |
//! | is that what it shall be? | [`verdict`] |
//! | can the numbers be right at all? | [`LittlesLaw`], [`generator_limited`] |
#![forbid(unsafe_code)]

mod capacity;
mod censored;
mod histogram;
mod interval;
mod knee;
mod lateness;
pub mod limits;
mod littles_law;
mod rank;
mod ratio;
mod target;

pub use capacity::{Capacity, CapacityTrial};
pub use censored::{Bounded, WithCensored};
pub use histogram::{Histogram, HistogramError};
pub use interval::{
    Estimate, Interval, histogram_quantile_interval, median, median_of_trials, quantile_interval,
};
pub use knee::{KNEE_FACTOR, Knee, TailPoint};
pub use lateness::{
    BUSY_LIMIT, LATENESS_LIMIT_NS, LATENESS_P999_LIMIT_NS, generator_limited,
    generator_limited_at_p999,
};
pub use littles_law::{LITTLES_LAW_TOLERANCE, LittlesLaw, Outstanding, OutstandingCount};
pub use rank::RankTest;
pub use ratio::{paired_ratio, ratio_of_medians};
pub use target::verdict;
