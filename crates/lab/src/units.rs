//! Durations of minutes and hours as text. [`load::units`] formats shorter ones and parses all
//! quantities.

use std::time::Duration;

/// A duration as text: `1 h 2 min`, `3 min 20 s`, `4.2 s`, `250 ms`.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        3600.. => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        60.. => format!("{} min {} s", seconds / 60, seconds % 60),
        1.. => format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0),
        0 => format!("{} ms", duration.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_to_two_units() {
        assert_eq!(duration_text(Duration::from_secs(3720)), "1 h 2 min");
        assert_eq!(duration_text(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(duration_text(Duration::from_millis(4_230)), "4.2 s");
        assert_eq!(duration_text(Duration::from_millis(250)), "250 ms");
    }
}
