//! The time in a run folder's name.

use jiff::Timestamp;

/// `YYYYMMDD-HHMMSS`, UTC.
pub(super) fn of(unix_ns: u64) -> String {
    // Every `u64` of nanoseconds is before the year 2555.
    let time = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX);
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_have_their_stamps() {
        for (seconds, stamp) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_795_226_123, "20261121-015523"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(of(seconds * 1_000_000_000), stamp);
        }
    }
}
