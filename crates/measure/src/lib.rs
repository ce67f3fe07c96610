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
//! | how certain is this median? | [`median_of_trials`] |
//! | is A faster than B, and by how much? | [`RankTest`], [`paired_ratio`] |
//! | how many repeats would decide that? | [`pooled_spread`], [`repeats_to_decide`] |
//! | where does the level of a series of runs change? | [`change_points`] |
//! | which of many comparisons are significant? | [`holm`] |
//! | which settings are best in two measures at once? | [`pareto_front`] |
//! | do requests become ready in batches? | [`Burstiness`] |
//! | do small requests wait for large ones? | [`service_inversion`], [`SizeDeciles`] |
//! | what is the server's capacity, and at which load does its tail latency rise? | [`Capacity`], [`Knee`] |
//! | which rate keeps a latency objective? | [`Search`] |
//! | is the target met? | [`verdict`] |
//! | are the measurements consistent? | [`LittlesLaw`], [`generator_limited`] |
//! | did a store answer as one copy of its data would? | [`check_linearizable`] |
#![forbid(unsafe_code)]

mod burstiness;
mod capacity;
mod censored;
mod change_points;
mod histogram;
mod holm;
mod interval;
mod knee;
mod lateness;
pub mod limits;
mod linearizability;
mod littles_law;
mod pareto;
mod rank;
mod ratio;
mod repeats;
mod search;
mod service_inversion;
mod size_deciles;
mod target;
#[cfg(test)]
mod tests;

pub use burstiness::Burstiness;
pub use capacity::{Capacity, CapacityTrial};
pub use censored::{Bounded, WithCensored};
pub use change_points::{ChangePoint, change_points};
pub use histogram::{Histogram, HistogramError};
pub use holm::holm;
pub use interval::{Estimate, Interval, median, median_of_trials};
pub use knee::{KNEE_FACTOR, Knee, TailPoint};
pub use lateness::{
    BUSY_LIMIT, LATENESS_LIMIT_NS, LATENESS_P999_LIMIT_NS, generator_limited,
    generator_limited_at_p999,
};
pub use linearizability::{Action, Call, Fault, Rejection, check_linearizable};
pub use littles_law::{LITTLES_LAW_TOLERANCE, LittlesLaw, Outstanding, OutstandingCount};
pub use pareto::{Better, pareto_front};
pub use rank::RankTest;
pub use ratio::paired_ratio;
pub use repeats::{POWER, pooled_spread, repeats_to_decide};
pub use search::{
    Search, SearchEnd, SearchError, SearchLimit, SearchOptions, SearchTrial, Sustained, Verdict,
};
pub use service_inversion::{SizedLatency, service_inversion};
pub use size_deciles::SizeDeciles;
pub use target::verdict;
