//! The time in a run folder's name.

/// `YYYYMMDD-HHMMSS`, UTC.
pub(super) fn of(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}",
        second / 3_600,
        second % 3_600 / 60,
        second % 60
    )
}

/// Days since 1970 as a date of the Gregorian calendar. Years begin in March, so that the leap
/// day is a year's last and a month's first day is a linear formula of its number (Hinnant,
/// "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let since_era = days + 719_468;
    let (era, day_of_era) = (since_era / 146_097, since_era % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
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
