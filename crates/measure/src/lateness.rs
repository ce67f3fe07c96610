//! Whether the generator, not the server, was the limit of a trial.
//!
//! A search for the sustained throughput uses trials with a late generator too, where its lateness
//! cannot have decided the verdict (`load::judge`).

/// The greatest 99th percentile of the generator's own lateness in a valid trial.
pub const LATENESS_LIMIT_NS: u64 = 50_000;

/// The greatest 99.9th percentile of lateness in a trial whose 99.9th percentile of latency is
/// used. Both limits are fixed before any trial and concern the generator alone: a limit that grew
/// with the measured latency would keep slow trials and drop fast ones.
pub const LATENESS_P999_LIMIT_NS: u64 = 100_000;

/// The greatest share of time that the generator may be busy in closed loop, where lateness is not
/// defined.
pub const BUSY_LIMIT: f64 = 0.98;

/// Whether the generator limited a trial, by the 99th percentile of its lateness. Lateness is the
/// generator's own part of the slip; waiting for a full socket or for a connection at its depth is
/// not part of it.
#[must_use]
pub fn generator_limited(lateness_p99_ns: u64) -> bool {
    lateness_p99_ns > LATENESS_LIMIT_NS
}

/// Whether the generator limited the 99.9th percentile of a trial, by that percentile of its
/// lateness.
#[must_use]
pub fn generator_limited_at_p999(lateness_p999_ns: u64) -> bool {
    lateness_p999_ns > LATENESS_P999_LIMIT_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_microseconds_pass_and_one_nanosecond_more_does_not() {
        assert!(!generator_limited(50_000));
        assert!(generator_limited(50_001));
    }

    #[test]
    fn at_the_999th_a_hundred_pass() {
        assert!(!generator_limited_at_p999(100_000));
        assert!(generator_limited_at_p999(100_001));
    }
}
