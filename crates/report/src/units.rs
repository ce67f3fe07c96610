//! Numbers as text: three significant digits and a unit, joined by a no-break space.

use std::time::{Duration, UNIX_EPOCH};

/// Three significant digits, no exponent: `0.00312`, `1.24`, `12.4`, `124`, `1240`.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            "0".to_owned()
        } else {
            "–".to_owned()
        };
    }
    let magnitude = value.abs().log10().floor() as i32;
    // Rounding may carry into the next magnitude: 9.996 is 10.0, not 10.00.
    let step = 10f64.powi(magnitude - 2);
    let rounded = (value / step).round() * step;
    let decimals = (2 - rounded.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{rounded:.decimals$}")
}

/// The quantity of a number, which determines its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Per second.
    Rate,
    /// Nanoseconds.
    Duration,
    /// Memory.
    Bytes,
    /// 0 to 1, shown in per cent.
    Share,
    /// A ratio, without a unit.
    Factor,
}

impl Quantity {
    /// `412 µs`.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::Share => share(value),
            Self::Factor => self.digits(value, 1.0),
            Self::Rate | Self::Duration | Self::Bytes => {
                let (factor, unit) = self.unit(value);
                format!("{}\u{a0}{unit}", self.digits(value, factor))
            }
        }
    }

    /// `20 k/s`: a value that was chosen, without trailing zeros.
    pub(crate) fn exact(self, value: f64) -> String {
        match self {
            Self::Share => format!("{}\u{a0}%", plain_tick(value * 100.0)),
            Self::Factor => plain_tick(value),
            Self::Rate | Self::Duration | Self::Bytes => {
                let (factor, unit) = self.unit(value);
                format!("{}\u{a0}{unit}", plain_tick(value / factor))
            }
        }
    }

    /// `[398, 431]`: a range in the unit that [`Quantity::words`] chooses for `value`.
    pub(crate) fn range(self, value: f64, low: f64, high: f64) -> String {
        let (factor, _) = self.unit(value);
        format!(
            "[{}, {}]",
            self.digits(low, factor),
            self.digits(high, factor)
        )
    }

    fn digits(self, value: f64, factor: f64) -> String {
        match self {
            Self::Share => share(value).replace("\u{a0}%", ""),
            // Two decimals of a small ratio would be few significant digits.
            Self::Factor if value != 0.0 && value.abs() < 0.1 => number(value),
            Self::Factor if value < 100.0 => format!("{value:.2}"),
            Self::Factor | Self::Rate | Self::Duration | Self::Bytes => number(value / factor),
        }
    }

    /// The largest unit in which the value is at least 1, as (factor, name).
    fn unit(self, value: f64) -> (f64, &'static str) {
        const KIB: f64 = 1024.0;
        let units: &[(f64, &str)] = match self {
            Self::Rate => &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")],
            Self::Duration => &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")],
            Self::Bytes => &[
                (1.0, "B"),
                (KIB, "KiB"),
                (KIB * KIB, "MiB"),
                (KIB * KIB * KIB, "GiB"),
            ],
            Self::Share | Self::Factor => &[(1.0, "")],
        };
        // 999.6 k is 1.00 M once rounded.
        let filled = |&&(factor, _): &&(f64, &str)| value.abs() >= factor * 0.9995;
        units.iter().rev().find(filled).copied().unwrap_or(units[0])
    }
}

/// `181 k/s`.
pub(crate) fn rate(rate_rps: f64) -> String {
    Quantity::Rate.words(rate_rps)
}

/// `412 µs`.
pub(crate) fn duration(duration_ns: f64) -> String {
    Quantity::Duration.words(duration_ns)
}

/// A round number for an axis, without trailing zeros.
pub(crate) fn plain_tick(value: f64) -> String {
    // Six decimals hide the rounding error of summed steps of 0.1.
    let fixed = format!("{value:.6}");
    let fixed = fixed.trim_end_matches('0').trim_end_matches('.');
    match fixed {
        "0" | "-0" if value != 0.0 => small_tick(value),
        _ => fixed.to_owned(),
    }
}

/// A number that six decimals show as 0: `0.0000001`, `1e-12`.
fn small_tick(value: f64) -> String {
    // Six digits hide the rounding error here too.
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded.abs() {
        magnitude if magnitude < 1e-9 => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

/// `150 k`: all labels of an axis use the unit of its end.
pub(crate) fn rate_tick(rate_rps: f64, greatest_rps: f64) -> String {
    match greatest_rps {
        _ if rate_rps == 0.0 => "0".to_owned(),
        greatest if greatest >= 2e6 => format!("{}\u{a0}M", plain_tick(rate_rps / 1e6)),
        greatest if greatest >= 2e3 => format!("{}\u{a0}k", plain_tick(rate_rps / 1e3)),
        _ => plain_tick(rate_rps),
    }
}

/// `200 µs`.
pub(crate) fn duration_tick(duration_ns: f64) -> String {
    let (factor, unit) = match duration_ns {
        ns if ns >= 0.9995e9 => (1e9, "s"),
        ns if ns >= 0.9995e6 => (1e6, "ms"),
        ns if ns >= 0.9995e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    format!("{}\u{a0}{unit}", plain_tick(duration_ns / factor))
}

/// `256 MiB`.
pub(crate) fn bytes_tick(bytes: f64) -> String {
    let (factor, unit) = Quantity::Bytes.unit(bytes);
    format!("{}\u{a0}{unit}", plain_tick(bytes / factor))
}

/// The prefix of a value that is a lower bound.
pub(crate) fn lower_bound(is_lower_bound: bool) -> &'static str {
    if is_lower_bound { "≥" } else { "" }
}

/// A range such as `[398, 431]` whose high end is marked if it is a lower bound: `[398, ≥431]`.
pub(crate) fn bounded_range(range: &str, is_lower_bound: bool) -> String {
    match range.rsplit_once(", ") {
        Some((low, high)) if is_lower_bound => format!("{low}, {}{high}", lower_bound(true)),
        _ => range.to_owned(),
    }
}

/// `64.0 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    Quantity::Bytes.words(bytes)
}

/// `3.2 %`; `0 %` only for exactly zero.
pub(crate) fn share(share: f64) -> String {
    if share < 0.0 {
        return format!("-{}", self::share(-share));
    }
    match share * 100.0 {
        0.0 => "0\u{a0}%".to_owned(),
        percent if percent < 0.01 => "<\u{a0}0.01\u{a0}%".to_owned(),
        percent if percent < 1.0 => format!("{percent:.2}\u{a0}%"),
        percent if percent < 99.9 => format!("{percent:.1}\u{a0}%"),
        percent if percent < 100.0 => format!("{percent:.3}\u{a0}%"),
        percent => format!("{percent:.0}\u{a0}%"),
    }
}

/// `95 %`: a share that was chosen, not measured.
pub(crate) fn percent(share: f64) -> String {
    format!("{}\u{a0}%", plain_tick((share * 1000.0).round() / 10.0))
}

/// `0.9`, `1.0`, `0.95`.
pub(crate) fn level(level: f64) -> String {
    let text = level.to_string();
    if text.contains('.') {
        text
    } else {
        format!("{text}.0")
    }
}

/// `15 360`: groups of three digits, joined by no-break spaces.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of things: in full if it is whole, else three significant digits.
pub(crate) fn plain_count(number: f64) -> String {
    let is_whole = number >= 0.0 && number.fract() == 0.0 && number < 1e15;
    match is_whole {
        true => count(number as u64),
        false => self::number(number),
    }
}

/// `2026-11-21 01:12 UTC`, from nanoseconds of Unix time.
pub(crate) fn moment(unix_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(unix_ns);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let (day, time) = text.split_once('T').unwrap_or_default();
    format!("{day} {} UTC", time.get(..5).unwrap_or_default())
}

/// `1 trial`, `2 trials`.
#[must_use]
pub fn plural(count: u64, noun: &str) -> String {
    format!(
        "{} {noun}{}",
        self::count(count),
        if count == 1 { "" } else { "s" }
    )
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// `text` cut to at most `characters`, with an ellipsis if cut, and without control characters.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    let mut clean = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut short: String = clean.by_ref().take(characters).collect();
    if clean.next().is_some() {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(words: &str) -> String {
        words.replace('\u{a0}', " ")
    }

    #[test]
    fn numbers_carry_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.003_123, "0.00312"),
            (0.999_6, "1.00"),
            (1.236, "1.24"),
            (9.996, "10.0"),
            (99.96, "100"),
            (123.6, "124"),
            (-1.236, "-1.24"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn units_change_where_the_rounded_number_does() {
        assert_eq!(plain(&rate(850.0)), "850 /s");
        assert_eq!(plain(&rate(999.4)), "999 /s");
        assert_eq!(plain(&rate(999.6)), "1.00 k/s");
        assert_eq!(plain(&rate(181_234.0)), "181 k/s");
        assert_eq!(plain(&rate(1_204_000.0)), "1.20 M/s");
        assert_eq!(plain(&duration(412_345.0)), "412 µs");
        assert_eq!(plain(&duration(1.0)), "1.00 ns");
        assert_eq!(plain(&duration(0.0)), "0 ns");
        assert_eq!(plain(&bytes(67_108_864.0)), "64.0 MiB");
    }

    #[test]
    fn a_range_is_in_the_unit_of_its_middle() {
        assert_eq!(
            Quantity::Duration.range(1.15e6, 897e3, 1.29e6),
            "[0.897, 1.29]"
        );
        assert_eq!(Quantity::Rate.range(242e3, 240e3, 244e3), "[240, 244]");
        assert_eq!(Quantity::Share.range(0.998, 0.997, 1.0), "[99.7, 100]");
        assert_eq!(Quantity::Factor.range(1.0, 0.987, 123.4), "[0.99, 123]");
    }

    #[test]
    fn a_small_ratio_is_not_zero() {
        assert_eq!(Quantity::Factor.words(0.0), "0.00");
        assert_eq!(Quantity::Factor.words(0.001_234), "0.00123");
        assert_eq!(Quantity::Factor.words(0.123), "0.12");
        assert_eq!(Quantity::Factor.range(0.05, 0.004, 0.2), "[0.00400, 0.20]");
    }

    #[test]
    fn the_high_end_of_a_bounded_range_is_marked() {
        assert_eq!(bounded_range("[1, 2]", true), "[1, ≥2]");
        assert_eq!(bounded_range("[1, 2]", false), "[1, 2]");
    }

    #[test]
    fn ticks_have_no_trailing_zeros() {
        assert_eq!(plain_tick(0.1 + 0.2), "0.3");
        assert_eq!(plain_tick(100.0), "100");
        assert_eq!(plain_tick(0.0), "0");
        assert_eq!(plain_tick(1e-7), "0.0000001");
        assert_eq!(plain_tick(3.0 * -1e-7), "-0.0000003");
        assert_eq!(plain_tick(2e-12), "2e-12");
        assert_eq!(plain(&rate_tick(150_000.0, 250_000.0)), "150 k");
        assert_eq!(plain(&rate_tick(500_000.0, 2_500_000.0)), "0.5 M");
        assert_eq!(
            plain(&duration_tick(10f64.powf(5.0 + 2f64.log10()))),
            "200 µs"
        );
        assert_eq!(plain(&duration_tick(10f64.powf(6.0))), "1 ms");
    }

    #[test]
    fn a_share_is_zero_per_cent_only_if_it_is_zero() {
        assert_eq!(plain(&share(0.0)), "0 %");
        assert_eq!(plain(&share(-0.032)), "-3.2 %");
        assert_eq!(plain(&share(0.000_01)), "< 0.01 %");
        assert_eq!(plain(&share(0.032)), "3.2 %");
        assert_eq!(plain(&share(0.9999)), "99.990 %");
        assert_eq!(plain(&share(1.0)), "100 %");
    }

    #[test]
    fn dates_respect_leap_years() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_827_696_000_000_000), "2000-02-29 12:34 UTC");
        assert_eq!(moment(1_795_223_563_000_000_000), "2026-11-21 01:12 UTC");
    }

    #[test]
    fn names_are_cut_with_an_ellipsis() {
        assert_eq!(shortened("memcached", 9), "memcached");
        assert_eq!(shortened("memcached", 4), "mem…");
        assert_eq!(shortened("a\nb", 9), "a\u{fffd}b");
    }
}
