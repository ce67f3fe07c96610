//! When the generator, not the server, was the limit.

/// The generator's own lateness that a trial may have at its 99th percentile.
pub const LATENESS_LIMIT_NS: u64 = 50_000;

/// Share of the time that the generator may be busy under infinite demand, where nothing is late.
pub const BUSY_LIMIT: f64 = 0.98;

/// Whether a trial whose generator was late by this much at the 99th percentile says more of the
/// generator than of the server. Lateness is the generator's own part of the slip: not the
/// socket's back-pressure, nor a connection at its depth.
#[must_use]
pub fn generator_limited(lateness_p99_ns: u64) -> bool {
    lateness_p99_ns > LATENESS_LIMIT_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_microseconds_pass_and_one_nanosecond_more_does_not() {
        assert!(!generator_limited(50_000));
        assert!(generator_limited(50_001));
    }
}
