//! TOML parsed once, from which any type is deserialised; an error knows its place in the text.
//!
//! The deserialiser of the crate `toml` gives each type three maps, for tables, dates and spans,
//! each compiled for each type. This one gives it one.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqDeserializer};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A value and its place in the text. The keys of a table come in the order of the text.
#[derive(Debug, Clone)]
pub struct Located<'a>(Spanned<DeValue<'a>>);

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedError {
    message: String,
    start: Option<usize>,
}

impl LocatedError {
    /// The problem.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The byte at which the wrong value or key begins.
    #[must_use]
    pub fn start(&self) -> Option<usize> {
        self.start
    }

    fn at(mut self, start: usize) -> Self {
        self.start = self.start.or(Some(start));
        self
    }
}

impl fmt::Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LocatedError {}

impl serde::de::Error for LocatedError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self {
            message: problem.to_string(),
            start: None,
        }
    }
}

impl From<toml::de::Error> for LocatedError {
    fn from(error: toml::de::Error) -> Self {
        Self {
            message: error.message().to_owned(),
            start: error.span().map(|span| span.start),
        }
    }
}

impl<'a> From<Spanned<DeTable<'a>>> for Located<'a> {
    fn from(table: Spanned<DeTable<'a>>) -> Self {
        let span = table.span();
        Self(Spanned::new(span, DeValue::Table(table.into_inner())))
    }
}

impl<'de> Deserializer<'de> for Located<'de> {
    type Error = LocatedError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LocatedError> {
        let start = self.0.span().start;
        let read = match self.0.into_inner() {
            DeValue::String(text) => visitor.visit_string(text.into_owned()),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                match i64::from_str_radix(digits, radix) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => match u64::from_str_radix(digits, radix) {
                        Ok(number) => visitor.visit_u64(number),
                        Err(_) => Err(custom("integer beyond 64 bits")),
                    },
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(value) if value.is_finite() || !number.as_str().contains('e') => {
                    visitor.visit_f64(value)
                }
                _ => Err(custom("number beyond 64 bits")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(value),
            DeValue::Datetime(moment) => visitor.visit_string(moment.to_string()),
            DeValue::Array(values) => {
                visitor.visit_seq(SeqDeserializer::new(values.into_iter().map(Self)))
            }
            DeValue::Table(table) => visitor.visit_map(Entries::of(table)),
        };
        read.map_err(|error| error.at(start))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LocatedError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, LocatedError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, LocatedError> {
        let start = self.0.span().start;
        let read = match self.0.into_inner() {
            DeValue::String(text) => visitor.visit_enum(text.into_owned().into_deserializer()),
            DeValue::Table(table) if table.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::of(table)))
            }
            _ => Err(custom("wanted a string, or a table with one key")),
        };
        read.map_err(|error| error.at(start))
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, LocatedError> for Located<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The entries of a table in the order of the text; keys are strings with a place.
struct Entries<'a> {
    rest: std::vec::IntoIter<(Spanned<DeString<'a>>, Spanned<DeValue<'a>>)>,
    value: Option<Located<'a>>,
}

impl<'a> Entries<'a> {
    fn of(table: DeTable<'a>) -> Self {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        Self {
            rest: entries.into_iter(),
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = LocatedError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, LocatedError> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(Located(value));
        let key = Spanned::new(key.span(), DeValue::String(key.into_inner()));
        seed.deserialize(Located(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, LocatedError> {
        let value = self
            .value
            .take()
            .ok_or_else(|| custom("a value without a key"))?;
        // A type may read a string and then find it wrong.
        let start = value.0.span().start;
        seed.deserialize(value).map_err(|error| error.at(start))
    }
}

fn custom(problem: &str) -> LocatedError {
    serde::de::Error::custom(problem)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        count: u32,
        ratio: f64,
        shape: Shape,
        #[serde(default)]
        inner: BTreeMap<String, Option<bool>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Shape {
        Round,
        Long { length: i8 },
    }

    fn read(text: &str) -> Result<Sample, LocatedError> {
        Sample::deserialize(Located::from(DeTable::parse(text)?))
    }

    #[test]
    fn values_of_all_forms_are_read() {
        let sample =
            read("count = 0x10\nratio = 1e3\nshape = \"round\"\ninner.a = true\n").unwrap();
        let inner = BTreeMap::from([("a".to_owned(), Some(true))]);
        let round = Sample {
            count: 16,
            ratio: 1000.0,
            shape: Shape::Round,
            inner,
        };
        assert_eq!(sample, round);
        let sample = read("count = 1\nratio = -inf\nshape.long.length = -3\n").unwrap();
        assert_eq!(sample.shape, Shape::Long { length: -3 });
    }

    #[test]
    fn an_error_has_the_place_of_the_key_or_value() {
        let whole = "count = 1\nratio = 1.0\nshape = \"round\"\n";
        let cases = [
            (whole.replace("ratio", "ration"), "ration"),
            (whole.replace("= 1\n", "= 99999999999\n"), "99999999999"),
            (
                whole.replace("= 1\n", "= 99999999999999999999\n"),
                "99999999999999999999",
            ),
            (whole.replace("round", "square"), "\"square"),
            (whole.replace("1.0", "true"), "true"),
            (whole.replace("1.0", "1.0.0"), ".0\n"),
            (whole.replace("count = 1", ""), ""),
        ];
        for (text, at) in cases {
            let error = read(&text).unwrap_err();
            assert_eq!(error.start(), text.find(at), "{text}{error}");
        }
    }
}
