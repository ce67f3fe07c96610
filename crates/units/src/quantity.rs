//! Quantities as text for people: three significant digits and a unit.

/// The quantity of a number, which determines its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
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
    #[must_use]
    pub fn words(self, value: f64) -> String {
        match self {
            Self::Share => percent(value),
            Self::Factor => self.digits(value, 1.0),
            Self::Rate | Self::Duration | Self::Bytes => {
                let (factor, unit) = self.unit(value);
                format!("{}\u{a0}{unit}", self.digits(value, factor))
            }
        }
    }

    /// `20 k/s`: a value that was chosen, without trailing zeros.
    #[must_use]
    pub fn exact(self, value: f64) -> String {
        match self {
            Self::Share => format!("{}\u{a0}%", plain(value * 100.0)),
            Self::Factor => plain(value),
            Self::Rate | Self::Duration | Self::Bytes => {
                let (factor, unit) = self.unit(value);
                format!("{}\u{a0}{unit}", plain(value / factor))
            }
        }
    }

    /// `[398, 431]`: a range in the unit that [`Quantity::words`] chooses for `value`.
    #[must_use]
    pub fn range(self, value: f64, low: f64, high: f64) -> String {
        let (factor, _) = self.unit(value);
        format!(
            "[{}, {}]",
            self.digits(low, factor),
            self.digits(high, factor)
        )
    }

    fn digits(self, value: f64, factor: f64) -> String {
        match self {
            Self::Share => percent(value).replace("\u{a0}%", ""),
            // Two decimals of a small ratio would be few significant digits.
            Self::Factor if value != 0.0 && value.abs() < 0.1 => number(value),
            Self::Factor if value < 100.0 => format!("{value:.2}"),
            Self::Factor | Self::Rate | Self::Duration | Self::Bytes => number(value / factor),
        }
    }

    /// The largest unit in which the value is at least 1, as (factor, name).
    pub(crate) fn unit(self, value: f64) -> (f64, &'static str) {
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

/// Three significant digits, no exponent: `0.00312`, `1.24`, `12.4`, `124`, `1240`.
#[must_use]
pub fn number(value: f64) -> String {
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

/// A round number, as for an axis, without trailing zeros: `0.3`, `100`, `1e-12`.
#[must_use]
pub fn plain(value: f64) -> String {
    // Six decimals hide the rounding error of summed steps of 0.1.
    let fixed = format!("{value:.6}");
    let fixed = fixed.trim_end_matches('0').trim_end_matches('.');
    match fixed {
        "0" | "-0" if value != 0.0 => small(value),
        _ => fixed.to_owned(),
    }
}

/// A number that six decimals show as 0: `0.0000001`, `1e-12`.
fn small(value: f64) -> String {
    // Six digits hide the rounding error here too.
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded.abs() {
        magnitude if magnitude < 1e-9 => format!("{rounded:e}"),
        _ => rounded.to_string(),
    }
}

/// `3.2 %`; `0 %` only for exactly zero.
fn percent(share: f64) -> String {
    if share < 0.0 {
        return format!("-{}", percent(-share));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::spaced;

    fn rate(value: f64) -> String {
        Quantity::Rate.words(value)
    }

    fn duration(value: f64) -> String {
        Quantity::Duration.words(value)
    }

    fn bytes(value: f64) -> String {
        Quantity::Bytes.words(value)
    }

    fn share(value: f64) -> String {
        Quantity::Share.words(value)
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
        assert_eq!(spaced(&rate(850.0)), "850 /s");
        assert_eq!(spaced(&rate(999.4)), "999 /s");
        assert_eq!(spaced(&rate(999.6)), "1.00 k/s");
        assert_eq!(spaced(&rate(181_234.0)), "181 k/s");
        assert_eq!(spaced(&rate(1_204_000.0)), "1.20 M/s");
        assert_eq!(spaced(&duration(412_345.0)), "412 µs");
        assert_eq!(spaced(&duration(1.0)), "1.00 ns");
        assert_eq!(spaced(&duration(0.0)), "0 ns");
        assert_eq!(spaced(&bytes(67_108_864.0)), "64.0 MiB");
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
    fn ticks_have_no_trailing_zeros() {
        assert_eq!(plain(0.1 + 0.2), "0.3");
        assert_eq!(plain(100.0), "100");
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(1e-7), "0.0000001");
        assert_eq!(plain(3.0 * -1e-7), "-0.0000003");
        assert_eq!(plain(2e-12), "2e-12");
        let duration = |log10: f64| spaced(&Quantity::Duration.exact(10f64.powf(log10)));
        assert_eq!(duration(5.0 + 2f64.log10()), "200 µs");
        assert_eq!(duration(6.0), "1 ms");
        assert_eq!(spaced(&Quantity::Duration.exact(-5e6)), "-5 ms");
        assert_eq!(spaced(&Quantity::Bytes.exact(268_435_456.0)), "256 MiB");
    }

    #[test]
    fn a_share_is_zero_per_cent_only_if_it_is_zero() {
        assert_eq!(spaced(&share(0.0)), "0 %");
        assert_eq!(spaced(&share(-0.032)), "-3.2 %");
        assert_eq!(spaced(&share(0.000_01)), "< 0.01 %");
        assert_eq!(spaced(&share(0.032)), "3.2 %");
        assert_eq!(spaced(&share(0.9999)), "99.990 %");
        assert_eq!(spaced(&share(1.0)), "100 %");
    }
}
