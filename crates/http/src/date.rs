//! Dates of header fields (RFC 9110, section 5.6.7).

use std::time::{Duration, UNIX_EPOCH};

/// The last second that has a date of four digits of a year: 9999-12-31, 23:59:59.
const LAST_S: u64 = 253_402_300_799;

/// A time, in seconds since 1970 in UTC, as in `Sun, 06 Nov 1994 08:49:37 GMT`. A time after the
/// year 9999 is shown as the last second of that year.
#[must_use]
pub fn format_date(unix_s: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST_S)))
}

/// The time of a date in any of the three formats of RFC 9110, in seconds since 1970 in UTC.
/// `None` if it is not a date, or before 1970.
#[must_use]
pub fn parse_date(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let time = httpdate::parse_http_date(text.trim_ascii()).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_formats_are_read_and_the_preferred_one_is_written() {
        // The example of RFC 9110, section 5.6.7.
        let unix_s = 784_111_777;
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(unix_s), "{text}");
        }
        assert_eq!(format_date(unix_s), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in ["", "yesterday", "Sun, 31 Feb 1994 08:49:37 GMT", "\u{e9}"] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
        assert_eq!(format_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
