//! The value of a factor: a number or a name.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// The value of a factor: a number or a name. In files it is a plain number or string.
#[derive(Debug, Clone)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// A name.
    Text(String),
}

impl Value {
    /// The number. None: it is a name.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Numbers come before names. The order is total: it has the bits of a number decide where `==`
/// cannot.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

/// The shortest text that reads back as the same value: `16`, `0.35`, `curtail`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The greatest integer up to which every integer is exact in a `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Whole numbers are written without a fraction, as a person would.
            Self::Number(number) if number.fract() == 0.0 && number.abs() < EXACT => {
                serializer.serialize_i64(*number as i64)
            }
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a name in quotes")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        if number.is_finite() {
            // 0 and -0 are one value.
            return Ok(Value::Number(number + 0.0));
        }
        Err(E::custom(format!("{number} is not a finite number")))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn a_value_reads_back_as_itself() {
        let values = ["16", "0.35", "-3", "1e300", "\"events\"", "\"16\""];
        for text in values {
            let value: Value = serde_json::from_str(text).unwrap();
            let written = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
        }
        assert_eq!(Value::from(16.0).to_string(), "16");
        assert_ne!(Value::from("16"), Value::from(16.0));
        assert_eq!(serde_json::to_string(&Value::from(16.0)).unwrap(), "16");
    }

    #[test]
    fn numbers_sort_by_value_and_before_names() {
        let mut values = vec![Value::from("a"), Value::from(10.0), Value::from(9.0)];
        values.sort();
        assert_eq!(
            values,
            [Value::from(9.0), Value::from(10.0), Value::from("a")]
        );
    }
}
