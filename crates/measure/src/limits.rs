//! The bounds of statistics.

/// Maximum number of samples of one group in a rank test, which compares all pairs.
pub const RANK_SAMPLES_MAX: usize = 2000;

/// Up to this many pairs, the rank test's null distribution is exact.
pub const RANK_EXACT_PAIRS_MAX: usize = 2500;

/// Maximum number of size classes; a drawing of more is not readable.
pub const SIZE_CLASSES_MAX: usize = 64;

/// Fewest levels for a knee: with fewer, a plateau cannot be told from a slope.
pub const KNEE_LEVELS_MIN: usize = 3;

/// Maximum number of trials of a search.
pub const SEARCH_TRIALS_MAX: usize = 1000;

/// Trials at the median of the belief before the ends of the interval are certified. They prove
/// little themselves; more of them cost more than they help.
pub const SEARCH_BISECTIONS_MAX: usize = 3;

/// Invalid trials at one rate that make it a limit. Fewer could be a passing disturbance.
pub const SEARCH_LIMIT_TRIALS: usize = 3;

/// Invalid trials in succession that end a search: six limits, on its way down to rates that the
/// generator can offer, or a disturbance that lasts for half of the usual trials.
pub const SEARCH_INVALID_RUN_MAX: usize = 20;

/// Steps of one search for an order of calls: some seconds of work.
pub const LINEARIZABILITY_STEPS_MAX: usize = 50_000_000;

/// States that one such search remembers: 64 MB with their table.
pub const LINEARIZABILITY_STATES_MAX: usize = 1 << 21;

/// Calls and steps of the searches that shorten a history that is wrong: a second of work.
pub const LINEARIZABILITY_SHRINK_STEPS_MAX: usize = 3_000_000;

/// Calls that the message of a rejection shows.
pub const LINEARIZABILITY_SHOWN_MAX: usize = 16;

/// Fewest permutations of a test for a change of level.
pub const CHANGE_PERMUTATIONS: usize = 1999;

/// Maximum number of them, for a small probability of a false report.
pub const CHANGE_PERMUTATIONS_MAX: usize = 20_000;

/// Maximum number of values in a series that is tested for changes.
pub const CHANGE_SERIES_MAX: usize = 1000;
/// Least repeats that decide anything: with three of each cell, the p-value of ranks is at least
/// 0.1.
pub const REPEATS_MIN: u32 = 4;
/// Repeats that are worth naming.
pub const REPEATS_MAX: u32 = 1_000;
