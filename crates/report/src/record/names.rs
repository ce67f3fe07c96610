//! Names that have the same meaning in every run that has them. The findings on capacities, knees
//! and tails go by them.

/// The factor whose values are servers.
pub const SERVER: &str = "server";
/// The factor that is a share of the capacity measured before.
pub const LEVEL: &str = "level";
/// The factor that is an offered rate, per second.
pub const RATE: &str = "rate";
/// The stage whose trials measure capacities, before the last stage.
pub const CAPACITY: &str = "capacity";
/// The setting that is the offered rate of a trial, however it was chosen.
pub const OFFERED_RPS: &str = "offered_rps";
/// The setting that is the median capacity of a trial's cell.
pub const CAPACITY_RPS: &str = "capacity_rps";
/// The metric of answered requests per second.
pub const ACHIEVED_RPS: &str = "achieved_rps";
/// The 99th percentile of the time from the intended moment of a request to its answer.
pub const RESPONSE_P99_NS: &str = "response_p99_ns";
/// The artefact with the histogram of those times.
pub const RESPONSE: &str = "response";
/// Outstanding requests, counted over time.
pub const OUTSTANDING_MEAN: &str = "outstanding_mean";
/// The bound of the replies that had arrived and were not yet read, which widens Little's law.
pub const OUTSTANDING_UNREAD: &str = "outstanding_unread";
/// Outstanding requests as they follow from response times, by Little's law.
pub const OUTSTANDING_EXPECTED: &str = "outstanding_expected";
