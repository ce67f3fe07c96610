//! Durations and rates as people write them: `5s`, `300ms`, `200k`.

use std::time::Duration;

/// Reads a duration: a number and one of `ns us ms s m h`.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that names it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let scale_s = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" => {
            return Err(format!(
                "`{text}` lacks a unit: write `{text}s` or `{text}ms`"
            ));
        }
        _ => return Err(format!("`{text}`: the units are ns, us, ms, s, m and h")),
    };
    let value = positive(number, text)?;
    Duration::try_from_secs_f64(value * scale_s).map_err(|_| format!("`{text}` is too long"))
}

/// Reads a rate in requests per second: a number and nothing, `k` or `M`.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that names it.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let scale = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        _ => return Err(format!("`{text}`: the units of a rate are k and M")),
    };
    Ok(positive(number, text)? * scale)
}

/// A duration for people: `1 h 2 min`, `3 min 20 s`, `4.2 s`, `250 ms`.
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

/// A rate for people: `842 /s`, `12.5 k/s`, `1.20 M/s`.
#[must_use]
pub fn rate_text(rate_rps: f64) -> String {
    if rate_rps >= 1e6 {
        format!("{:.2} M/s", rate_rps / 1e6)
    } else if rate_rps >= 1e4 {
        format!("{:.1} k/s", rate_rps / 1e3)
    } else {
        format!("{rate_rps:.0} /s")
    }
}

/// A latency for people: `850 ns`, `73.1 µs`, `4.20 ms`, `1.50 s`.
#[must_use]
pub fn latency_text(latency_ns: u64) -> String {
    let ns = latency_ns as f64;
    match latency_ns {
        1_000_000_000.. => format!("{:.2} s", ns / 1e9),
        1_000_000.. => format!("{:.2} ms", ns / 1e6),
        1_000.. => format!("{:.1} µs", ns / 1e3),
        _ => format!("{latency_ns} ns"),
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn positive(number: &str, text: &str) -> Result<f64, String> {
    let value: f64 = number
        .replace('_', "")
        .parse()
        .map_err(|_| format!("`{text}` does not begin with a number"))?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(format!("`{text}` is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, ns) in [
            ("5s", 5_000_000_000),
            ("300ms", 300_000_000),
            ("1.5 s", 1_500_000_000),
            ("500us", 500_000),
            ("2m", 120_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text).unwrap().as_nanos(), ns, "{text}");
        }
    }

    #[test]
    fn a_wrong_duration_says_what_is_wrong() {
        assert_eq!(
            duration("5").unwrap_err(),
            "`5` lacks a unit: write `5s` or `5ms`"
        );
        assert_eq!(
            duration("5 years").unwrap_err(),
            "`5 years`: the units are ns, us, ms, s, m and h"
        );
        assert_eq!(
            duration("-5s").unwrap_err(),
            "`-5s`: the units are ns, us, ms, s, m and h"
        );
        assert_eq!(
            duration("s").unwrap_err(),
            "`s` does not begin with a number"
        );
        assert_eq!(
            duration("99999999999999999999h")
                .unwrap_err()
                .split(' ')
                .next_back(),
            Some("long")
        );
    }

    #[test]
    fn rates_are_read_with_their_units() {
        assert_eq!(rate("200k").unwrap(), 200_000.0);
        assert_eq!(rate("1_000").unwrap(), 1_000.0);
        assert_eq!(rate("1.5M").unwrap(), 1_500_000.0);
        assert!(rate("5g").is_err());
    }

    #[test]
    fn people_read_short_numbers() {
        assert_eq!(duration_text(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(duration_text(Duration::from_secs(3720)), "1 h 2 min");
        assert_eq!(duration_text(Duration::from_millis(4_230)), "4.2 s");
        assert_eq!(duration_text(Duration::from_millis(250)), "250 ms");
        assert_eq!(rate_text(842.0), "842 /s");
        assert_eq!(rate_text(12_500.0), "12.5 k/s");
        assert_eq!(latency_text(73_100), "73.1 µs");
    }
}
