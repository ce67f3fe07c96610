//! When the generator, not the server, was the limit.

/// The generator's own lateness that a trial may have at its 99th percentile.
pub const LATENESS_LIMIT_NS: u64 = 50_000;

/// The lateness that a trial may have at its 99.9th percentile where that percentile of its
/// latencies is judged. Like the other limit it is fixed before any trial and looks at the
/// generator alone: one that grew with the latency measured would keep the slow trials and drop
/// the fast.
pub const LATENESS_P999_LIMIT_NS: u64 = 100_000;

/// Share of the time that the generator may be busy under infinite demand, where nothing is late.
pub const BUSY_LIMIT: f64 = 0.98;

/// Whether a trial whose generator was late by this much at the 99th percentile says more of the
/// generator than of the server. Lateness is the generator's own part of the slip: not the
/// socket's back-pressure, nor a connection at its depth.
#[must_use]
pub fn generator_limited(lateness_p99_ns: u64) -> bool {
    lateness_p99_ns > LATENESS_LIMIT_NS
}

/// Whether the 99.9th percentile of a trial whose generator was late by this much there says more
/// of the generator than of the server.
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
