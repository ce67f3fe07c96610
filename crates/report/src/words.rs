//! Numbers as a person reads them: three significant digits and a unit.

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

/// `value` in the largest of `units` (factor, name) it fills, smallest unit first.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let mut best = units.first().copied().unwrap_or((1.0, ""));
    for &(factor, name) in units {
        // 999.6 k is 1.00 M once rounded.
        if value.abs() >= factor * 0.9995 {
            best = (factor, name);
        }
    }
    format!("{}{}", number(value / best.0), best.1)
}

/// `181 k/s`.
pub(crate) fn rate(rate_rps: f64) -> String {
    format!(
        "{}/s",
        scaled(
            rate_rps,
            &[(1.0, " "), (1e3, " k"), (1e6, " M"), (1e9, " G")]
        )
    )
}

/// `412 µs`.
pub(crate) fn duration(duration_ns: f64) -> String {
    scaled(
        duration_ns,
        &[(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")],
    )
}

/// A round number at an axis: no digits it does not need.
pub(crate) fn plain_tick(value: f64) -> String {
    // Six decimals swallow what adding up steps of 0.1 leaves behind.
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `150 k`, all of an axis in the unit of its end.
pub(crate) fn rate_tick(rate_rps: f64, greatest_rps: f64) -> String {
    match greatest_rps {
        _ if rate_rps == 0.0 => "0".to_owned(),
        greatest if greatest >= 2e6 => format!("{} M", plain_tick(rate_rps / 1e6)),
        greatest if greatest >= 2e3 => format!("{} k", plain_tick(rate_rps / 1e3)),
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
    format!("{} {unit}", plain_tick(duration_ns / factor))
}

/// `64.0 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    let units = [
        (1.0, " B"),
        (KIB, " KiB"),
        (KIB * KIB, " MiB"),
        (KIB * KIB * KIB, " GiB"),
        (KIB * KIB * KIB * KIB, " TiB"),
    ];
    scaled(bytes, &units)
}

/// `3.2 %`, and never `0 %` of something that is there.
pub(crate) fn share(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent if percent < 99.9 => format!("{percent:.1} %"),
        percent if percent < 100.0 => format!("{percent:.3} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// `1.14×`.
pub(crate) fn ratio(ratio: f64) -> String {
    if ratio < 100.0 {
        format!("{ratio:.2}×")
    } else {
        format!("{}×", number(ratio))
    }
}

/// `15 360`: groups of three, held together by no-break spaces.
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

/// `2026-11-21 01:12 UTC`, of nanoseconds of Unix time.
pub(crate) fn moment(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Hinnant, "chrono-compatible low-level date algorithms", civil_from_days: years begin in
    // March, so that the leap day is the last; eras are of 400 years.
    let shifted = days + 719_468;
    let day_of_era = shifted % 146_097;
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
    let year = year_of_era + shifted / 146_097 * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60,
        minutes % 60
    )
}

/// `1 trial`, `2 trials`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
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

/// At most `characters` of a text, an ellipsis where it was cut; no control characters.
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
        assert_eq!(rate(850.0), "850 /s");
        assert_eq!(rate(999.4), "999 /s");
        assert_eq!(rate(999.6), "1.00 k/s");
        assert_eq!(rate(181_234.0), "181 k/s");
        assert_eq!(rate(1_204_000.0), "1.20 M/s");
        assert_eq!(duration(412_345.0), "412 µs");
        assert_eq!(duration(1.0), "1.00 ns");
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(bytes(67_108_864.0), "64.0 MiB");
    }

    #[test]
    fn ticks_carry_no_idle_digits() {
        assert_eq!(plain_tick(0.1 + 0.2), "0.3");
        assert_eq!(plain_tick(100.0), "100");
        assert_eq!(rate_tick(150_000.0, 250_000.0), "150 k");
        assert_eq!(rate_tick(500_000.0, 2_500_000.0), "0.5 M");
        assert_eq!(duration_tick(10f64.powf(5.0 + 2f64.log10())), "200 µs");
        assert_eq!(duration_tick(10f64.powf(6.0)), "1 ms");
    }

    #[test]
    fn shares_say_nothing_only_of_nothing() {
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(0.000_01), "< 0.01 %");
        assert_eq!(share(0.032), "3.2 %");
        assert_eq!(share(0.9999), "99.990 %");
        assert_eq!(share(1.0), "100 %");
    }

    #[test]
    fn moments_know_leap_years() {
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
