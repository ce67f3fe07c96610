//! The time in a run folder's name.

use std::time::{Duration, UNIX_EPOCH};

/// `YYYYMMDD-HHMMSS`, UTC.
pub(super) fn of(unix_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(unix_ns);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace(['-', ':', 'Z'], "").replace('T', "-")
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
