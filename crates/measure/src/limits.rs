//! The bounds of statistics.

/// Resamples of a bootstrap.
pub const BOOTSTRAP_RESAMPLES: usize = 4000;

/// Fewest samples in a group for a bootstrap: with fewer, its interval covers less than it states.
pub const BOOTSTRAP_SAMPLES_MIN: usize = 8;

/// Maximum number of samples of one group in a rank test, which compares all pairs.
pub const RANK_SAMPLES_MAX: usize = 2000;

/// Up to this many pairs, the rank test's null distribution is exact.
pub const RANK_EXACT_PAIRS_MAX: usize = 2500;

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
