//! The bounds of statistics.

/// Resamples of a bootstrap.
pub const BOOTSTRAP_RESAMPLES: usize = 4000;

/// A bootstrap of fewer samples in a group than this would promise more than it keeps.
pub const BOOTSTRAP_SAMPLES_MIN: usize = 8;

/// Most samples of one group in a rank test: all pairs are looked at.
pub const RANK_SAMPLES_MAX: usize = 2000;

/// Up to this many pairs, the rank test's null distribution is exact.
pub const RANK_EXACT_PAIRS_MAX: usize = 2500;

/// Levels without which there is no telling a plateau from a slope.
pub const KNEE_LEVELS_MIN: usize = 3;
