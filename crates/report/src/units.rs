//! Numbers, lists and names as the page's text; quantities are those of the crate `units`.

use std::time::{Duration, UNIX_EPOCH};

pub(crate) use ::units::{Quantity, number, plain};

/// `181 k/s`.
pub(crate) fn rate(rate_rps: f64) -> String {
    Quantity::Rate.words(rate_rps)
}

/// `150 k`: all labels of an axis use the unit of its end.
pub(crate) fn rate_tick(rate_rps: f64, greatest_rps: f64) -> String {
    match greatest_rps {
        _ if rate_rps == 0.0 => "0".to_owned(),
        greatest if greatest >= 2e6 => format!("{}\u{a0}M", plain(rate_rps / 1e6)),
        greatest if greatest >= 2e3 => format!("{}\u{a0}k", plain(rate_rps / 1e3)),
        _ => plain(rate_rps),
    }
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
    Quantity::Share.words(share)
}

/// `95 %`: a share that was chosen, not measured.
pub(crate) fn percent(share: f64) -> String {
    format!("{}\u{a0}%", plain((share * 1000.0).round() / 10.0))
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

    #[test]
    fn the_labels_of_an_axis_have_the_unit_of_its_end() {
        assert_eq!(rate_tick(150_000.0, 250_000.0), "150\u{a0}k");
        assert_eq!(rate_tick(500_000.0, 2_500_000.0), "0.5\u{a0}M");
        assert_eq!(rate_tick(0.0, 2_500_000.0), "0");
    }

    #[test]
    fn the_high_end_of_a_bounded_range_is_marked() {
        assert_eq!(bounded_range("[1, 2]", true), "[1, ≥2]");
        assert_eq!(bounded_range("[1, 2]", false), "[1, 2]");
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
