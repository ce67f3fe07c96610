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
