//! The statistics of latencies and rates: histograms, confidence intervals, tests and checks.
//!
//! Pure functions of values: no clock, no file, no thread; randomness comes from a seed. Nothing
//! here corrects for coordinated omission afterwards: callers record latencies from the *intended*
//! time.
//!
//! | question | answer |
//! |---|---|
//! | how are the latencies distributed? | [`Histogram`] |
//! | the same, where some requests were never answered? | [`WithCensored`] |
//! | how certain is this percentile, this median of trials? | [`quantile_interval`],
//! [`median_of_trials`] |
//! | is A faster than B, and by how much? | [`RankTest`], [`ratio_of_medians`], [`paired_ratio`] |
//! | what is the server's capacity, and at which load does its tail latency rise? | [`Capacity`], [`Knee`] |
//! | which rate keeps a latency objective? | [`Search`] |
//! | is the target met? | [`verdict`] |
//! | are the measurements consistent? | [`LittlesLaw`], [`generator_limited`] |
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
mod search;
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
pub use search::{
    Search, SearchEnd, SearchError, SearchLimit, SearchOptions, SearchTrial, Sustained, Verdict,
};
pub use target::verdict;
