//! Units of factors and metrics, and numbers in them as text.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::{self, Quantity};

/// The unit of a factor or metric. In files it is text: one of those in the table, or any other,
/// which is shown as it is.
///
/// | text | unit |
/// |---|---|
/// | `/s` | per second |
/// | `ns`, `us`, `ms`, `s` | time |
/// | `B`, `KiB`, `MiB`, `GiB` | bytes |
/// | `share` | 0 to 1, shown in per cent |
/// | `ratio` | a quotient, without a unit |
/// | `count` | a number of things |
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Unit {
    text: String,
}

/// The quantity of a unit's numbers, and the factor that converts them to its base unit.
type Known = (Quantity, f64);

impl Unit {
    /// Per second.
    #[must_use]
    pub fn per_second() -> Self {
        Self::from("/s".to_owned())
    }

    /// Nanoseconds.
    #[must_use]
    pub fn nanoseconds() -> Self {
        Self::from("ns".to_owned())
    }

    /// A number of things.
    #[must_use]
    pub fn count() -> Self {
        Self::from("count".to_owned())
    }

    /// Bytes.
    #[must_use]
    pub fn bytes() -> Self {
        Self::from("B".to_owned())
    }

    /// A share from 0 to 1.
    #[must_use]
    pub fn share() -> Self {
        Self::from("share".to_owned())
    }

    /// A quotient.
    #[must_use]
    pub fn ratio() -> Self {
        Self::from("ratio".to_owned())
    }

    /// Its text in files.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the numbers count things: they are shown in full.
    #[must_use]
    pub fn is_count(&self) -> bool {
        self.text == "count"
    }

    fn known(&self) -> Option<Known> {
        Some(match self.text.as_str() {
            "/s" => (Quantity::Rate, 1.0),
            "ns" => (Quantity::Duration, 1.0),
            "us" => (Quantity::Duration, 1e3),
            "ms" => (Quantity::Duration, 1e6),
            "s" => (Quantity::Duration, 1e9),
            "B" => (Quantity::Bytes, 1.0),
            "KiB" => (Quantity::Bytes, 1024.0),
            "MiB" => (Quantity::Bytes, 1_048_576.0),
            "GiB" => (Quantity::Bytes, 1_073_741_824.0),
            "share" => (Quantity::Share, 1.0),
            "ratio" => (Quantity::Factor, 1.0),
            _ => return None,
        })
    }

    /// A number with its unit, three significant digits: `412 µs`, `3.2 J`.
    #[must_use]
    pub fn words(&self, number: f64) -> String {
        match self.known() {
            Some((quantity, factor)) => quantity.words(number * factor),
            None if self.is_count() => units::plain_count(number),
            None => self.joined(&units::number(number)),
        }
    }

    /// A number that was chosen, not measured, with its unit and without trailing zeros: `20 k/s`,
    /// `50 %`.
    #[must_use]
    pub fn exact(&self, number: f64) -> String {
        match self.known() {
            Some((quantity, factor)) => quantity.exact(number * factor),
            None if self.is_count() => units::plain_count(number),
            None => self.joined(&units::plain(number)),
        }
    }

    /// A number as the label of an axis that ends at `greatest`. Labels of units that are not in
    /// the table are without the unit, which the axis has in its title.
    pub(crate) fn tick(&self, number: f64, greatest: f64) -> String {
        match self.known() {
            _ if number == 0.0 => "0".to_owned(),
            Some((Quantity::Rate, factor)) => units::rate_tick(number * factor, greatest * factor),
            Some((Quantity::Duration | Quantity::Bytes | Quantity::Share, _)) => self.exact(number),
            None if self.is_count() && number.fract() == 0.0 => units::plain_count(number),
            Some((Quantity::Factor, _)) | None => units::plain(number),
        }
    }

    /// Whether the labels of an axis have the unit, so that its title needs none.
    pub(crate) fn is_in_ticks(&self) -> bool {
        self.known().is_some() || self.is_count()
    }

    /// The name by which the page's script labels a zoomed axis, and the factor that converts a
    /// number for it, if that is not 1: `duration`, `duration:1000000`.
    pub(crate) fn script(&self) -> String {
        let Some((quantity, factor)) = self.known() else {
            return "count".to_owned();
        };
        let name = match quantity {
            Quantity::Rate => "rate",
            Quantity::Duration => "duration",
            Quantity::Bytes => "bytes",
            Quantity::Share => "share",
            Quantity::Factor => "count",
        };
        match factor {
            1.0 => name.to_owned(),
            _ => format!("{name}:{factor}"),
        }
    }

    /// The factor that converts numbers of this unit to another one. None: it is of another
    /// quantity.
    pub(crate) fn to(&self, other: &Self) -> Option<f64> {
        if self == other {
            return Some(1.0);
        }
        let ((own, from), (of, to)) = self.known().zip(other.known())?;
        (own == of).then(|| from / to)
    }

    /// Its name in a title: `µs`.
    pub(crate) fn name(&self) -> &str {
        match self.text.as_str() {
            "us" => "µs",
            "share" | "ratio" | "count" => "",
            other => other,
        }
    }

    /// A number and the unit. A unit of several words is a phrase, at which a line may break.
    fn joined(&self, number: &str) -> String {
        let space = if self.text.contains(' ') {
            ' '
        } else {
            '\u{a0}'
        };
        format!("{number}{space}{}", self.text)
    }

    /// `[398, 431]`: a range in the unit that [`Unit::words`] chooses for `number`.
    #[must_use]
    pub fn range(&self, number: f64, low: f64, high: f64) -> String {
        match self.known() {
            Some((quantity, factor)) => {
                quantity.range(number * factor, low * factor, high * factor)
            }
            None if self.is_count() => {
                format!(
                    "[{}, {}]",
                    units::plain_count(low),
                    units::plain_count(high)
                )
            }
            None => format!("[{}, {}]", units::number(low), units::number(high)),
        }
    }
}

impl From<String> for Unit {
    fn from(text: String) -> Self {
        Self { text }
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.text
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn numbers_are_shown_in_readable_units() {
        let words = |unit: &str, number| {
            let unit = Unit::from(unit.to_owned());
            unit.words(number).replace('\u{a0}', " ")
        };
        assert_eq!(words("ms", 0.412), "412 µs");
        assert_eq!(words("/s", 20_000.0), "20.0 k/s");
        assert_eq!(words("J", 3.2), "3.20 J");
        assert_eq!(words("share", 0.5), "50.0 %");
        assert_eq!(words("count", 15_360.0), "15 360");
        assert_eq!(words("count", 1.5), "1.50");
    }

    #[test]
    fn chosen_numbers_have_no_trailing_zeros() {
        let exact = |unit: &str, number| {
            let unit = Unit::from(unit.to_owned());
            unit.exact(number).replace('\u{a0}', " ")
        };
        assert_eq!(exact("ms", 5_000.0), "5 s");
        assert_eq!(exact("/s", 12_345.0), "12.345 k/s");
        assert_eq!(exact("share", 0.035), "3.5 %");
        assert_eq!(exact("ratio", 2.0), "2");
        assert_eq!(exact("count", 15_360.0), "15 360");
        assert_eq!(exact("J", 3.0), "3 J");
    }
}
