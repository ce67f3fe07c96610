//! Parses durations, rates, sizes, counts and shares with units (`500us`, `200k`, `64MiB`).

/// The error for a text that is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}; give {example}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// The units of durations, each with its length in nanoseconds.
const DURATIONS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("", 1e9),
];

/// The suffixes of rates and counts, each with its factor.
const RATES: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];

/// The units of sizes, each with its length in bytes.
const SIZES: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("k", 1e3),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("M", 1e6),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("G", 1e9),
    ("GB", 1e9),
    ("GiB", 1_073_741_824.0),
];

/// Parses a duration such as `500us`, `1.5ms`, `5s` or `2min` and returns it in nanoseconds. A
/// number without a unit is in seconds.
///
/// # Errors
/// The text is not of this form, or the duration exceeds a century.
pub fn duration_ns(text: &str) -> Result<u64, UnitError> {
    let what = (
        "duration",
        "a number with ns, us, ms, s, min or h, such as 500us",
    );
    let ns = parse_scaled(text, DURATIONS, what)?;
    to_integer(text, ns, 3.2e18, what)
}

/// Parses a rate such as `200k`, `1.5M` or `20000` and returns it in requests per second.
///
/// # Errors
/// The text is not of this form, or the rate is not above zero.
pub fn rate_rps(text: &str) -> Result<f64, UnitError> {
    let what = (
        "rate",
        "requests per second above 0 with k or M if wanted, such as 200k",
    );
    let rate = parse_scaled(text, RATES, what)?;
    if rate > 0.0 {
        Ok(rate)
    } else {
        Err(error(text, what))
    }
}

/// Parses a size such as `64MiB`, `100kB` or `4096` and returns it in bytes.
///
/// # Errors
/// The text is not of this form.
pub fn size_bytes(text: &str) -> Result<u64, UnitError> {
    let what = (
        "size",
        "bytes with kB, KiB, MB, MiB, GB or GiB if wanted, such as 64MiB",
    );
    let bytes = parse_scaled(text, SIZES, what)?;
    to_integer(text, bytes, 9.2e18, what)
}

/// Parses a count such as `1M` (records) or `15360` (connections).
///
/// # Errors
/// The text is not a number with an optional suffix k, M or G, or the count is not a whole number.
pub fn count(text: &str) -> Result<u64, UnitError> {
    let what = ("count", "a whole number with k or M if wanted, such as 1M");
    let number = parse_scaled(text, RATES, what)?;
    if number.fract() != 0.0 {
        return Err(error(text, what));
    }
    to_integer(text, number, 9e15, what)
}

/// Parses a share such as `0.1%` or `0.001` and returns it as a number from 0 to 1.
///
/// # Errors
/// The text is not of this form, or the share is above 1.
pub fn share(text: &str) -> Result<f64, UnitError> {
    let what = (
        "share",
        "a percentage or a number from 0 to 1, such as 0.1%",
    );
    let share = parse_scaled(text, &[("", 1.0), ("%", 0.01)], what)?;
    if share <= 1.0 {
        Ok(share)
    } else {
        Err(error(text, what))
    }
}

/// What a text should be, for an error message: the kind of quantity, and the accepted form.
type Expected = (&'static str, &'static str);

/// Parses a number, followed by one of `units` with its factor. Returns the number × the factor.
fn parse_scaled(text: &str, units: &[(&str, f64)], expected: Expected) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(split);
    let scale = units.iter().find(|(name, _)| *name == unit.trim());
    let number = digits.replace('_', "").parse::<f64>();
    match (number, scale) {
        (Ok(number), Some((_, scale))) if number.is_finite() => Ok(number * scale),
        _ => Err(error(text, expected)),
    }
}

/// Rounds a number of at most `max` to an integer.
fn to_integer(text: &str, number: f64, max: f64, expected: Expected) -> Result<u64, UnitError> {
    if number <= max {
        Ok(number.round() as u64)
    } else {
        Err(error(text, expected))
    }
}

/// Returns the error for a text that is not the expected quantity. The error shows at most 60
/// characters of the text.
fn error(text: &str, (what, example): Expected) -> UnitError {
    UnitError {
        text: text.chars().take(60).collect(),
        what,
        example,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_units_are_parsed() {
        for (text, ns) in [
            ("500us", 500_000),
            ("1.5 ms", 1_500_000),
            ("5s", 5_000_000_000),
            ("5", 5_000_000_000),
            ("2min", 120_000_000_000),
            ("0", 0),
            ("17ns", 17),
        ] {
            assert_eq!(duration_ns(text).unwrap(), ns, "{text}");
        }
    }

    #[test]
    fn rates_counts_and_sizes_with_units_are_parsed() {
        assert_eq!(rate_rps("200k").unwrap(), 200_000.0);
        assert_eq!(rate_rps("1.5M").unwrap(), 1_500_000.0);
        assert_eq!(count("1M").unwrap(), 1_000_000);
        assert_eq!(count("15_360").unwrap(), 15_360);
        assert_eq!(size_bytes("64MiB").unwrap(), 64 << 20);
        assert_eq!(size_bytes("100kB").unwrap(), 100_000);
    }

    #[test]
    fn shares_and_percentages_are_parsed() {
        assert_eq!(share("0.1%").unwrap(), 0.001);
        assert_eq!(share("0.02").unwrap(), 0.02);
        assert_eq!(share("0").unwrap(), 0.0);
        for bad in ["101%", "2", "-1%", "%", "1 %%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parse_error_names_the_text_and_the_accepted_form() {
        assert_eq!(
            duration_ns("5 parsecs").unwrap_err().to_string(),
            "`5 parsecs` is not a duration; give a number with ns, us, ms, s, min or h, such as 500us"
        );
        for bad in ["", "-1", "k", "1e400", "0", "NaN", "1..2"] {
            assert!(rate_rps(bad).is_err(), "{bad}");
        }
        assert!(count("1.5").is_err());
        assert!(duration_ns("99999999999h").is_err());
    }
}
