//! Shows durations, rates, sizes and shares as text.

use std::time::Duration;

use crate::quantity::Quantity;

/// Returns a duration as text with three digits: `412 ns`, `1.84 ms`.
#[must_use]
pub fn show_duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        _ => spaced(&Quantity::Duration.words(ns as f64)),
    }
}

/// Returns a rate as text with three digits, without its unit: `950`, `203 k`, `1.25 M`.
#[must_use]
pub fn show_rate(rate_rps: f64) -> String {
    let words = spaced(&Quantity::Rate.words(rate_rps));
    words.trim_end_matches("/s").trim_end().to_owned()
}

/// For a terminal, where a no-break space serves nobody.
pub(crate) fn spaced(words: &str) -> String {
    words.replace('\u{a0}', " ")
}

/// Returns a duration of seconds, minutes or hours as text, in at most two units: `1 h 2 min`,
/// `3 min 20 s`, `4.2 s`, `250 ms`.
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

/// Returns a duration as [`crate::duration_ns`] parses it, exactly, in the largest unit without a
/// fraction: `5s`, `1500ns`.
#[must_use]
pub fn duration_argument(duration_ns: u64) -> String {
    for (unit, unit_ns) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if duration_ns.is_multiple_of(unit_ns) {
            return format!("{}{unit}", duration_ns / unit_ns);
        }
    }
    format!("{duration_ns}ns")
}

/// Returns a size as text, in the largest unit that does not exceed it, with one decimal if it is
/// not a whole number: `64 MiB`, `23.5 GiB`, `1023 bytes`.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let (factor, name) = Quantity::Bytes.unit(bytes as f64);
    match bytes as f64 / factor {
        _ if factor == 1.0 => format!("{bytes} bytes"),
        whole if whole.fract() == 0.0 => format!("{whole} {name}"),
        part => format!("{part:.1} {name}"),
    }
}

/// Returns a share from 0 to 1 as a percentage with at most two decimals: `95%`, `0.1%`, `97.53%`.
#[must_use]
pub fn show_share(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::duration_ns;

    #[test]
    fn durations_and_rates_are_shown_with_three_digits() {
        let durations = [
            (412, "412 ns"),
            (1_840_000, "1.84 ms"),
            (99_960, "100 µs"),
            (12_345, "12.3 µs"),
            (999_960, "1.00 ms"),
        ];
        for (ns, shown) in durations {
            assert_eq!(show_duration(ns), shown);
        }
        for (rate, shown) in [
            (950.0, "950"),
            (203_400.0, "203 k"),
            (1_250_000.0, "1.25 M"),
            (999_960.0, "1.00 M"),
        ] {
            assert_eq!(show_rate(rate), shown);
        }
    }

    #[test]
    fn long_durations_are_rounded_to_two_units() {
        let text = |ms| duration_text(Duration::from_millis(ms));
        assert_eq!(text(3_720_000), "1 h 2 min");
        assert_eq!(text(200_000), "3 min 20 s");
        assert_eq!(text(4_230), "4.2 s");
        assert_eq!(text(250), "250 ms");
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (64 << 20, "64 MiB"),
            ((1 << 30) + (1 << 29), "1.5 GiB"),
        ] {
            assert_eq!(show_size(bytes), text);
        }
    }

    #[test]
    fn shares_are_shown_with_at_most_two_decimals() {
        for (share, text) in [
            (0.0, "0%"),
            (0.001, "0.1%"),
            (0.029, "2.9%"),
            (0.975_26, "97.53%"),
            (1.0, "100%"),
        ] {
            assert_eq!(show_share(share), text);
        }
    }

    #[test]
    fn durations_are_passed_exactly() {
        for (ns, text) in [
            (5_000_000_000, "5s"),
            (300_000_000, "300ms"),
            (1_500, "1500ns"),
            (0, "0s"),
        ] {
            assert_eq!(duration_argument(ns), text);
        }
    }

    proptest! {
        /// Up to 2^53 ns (104 days), above which `f64` has not every integer.
        #[test]
        fn a_duration_passed_as_an_argument_is_the_same(ns in 0..1_u64 << 53) {
            prop_assert_eq!(duration_ns(&duration_argument(ns)).unwrap(), ns);
        }
    }
}
