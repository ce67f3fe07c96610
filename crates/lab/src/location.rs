//! Turns an error of the TOML parser into one that names file, line, key and remedy.

use std::slice;
use std::time::Duration;

use report::LocatedError;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::de::{DeTable, DeValue};

use crate::error::{Error, remedy};

/// Rewrites an error of the parser for users. `more` are known keys of the top of the file that the
/// parser did not expect.
pub(crate) fn explain(
    error: &LocatedError,
    path: &str,
    text: &str,
    more: &[&'static str],
) -> Error {
    let start = error.start();
    let place = match start {
        Some(start) => format!("{path}:{}", line_at(text, start)),
        None => path.to_owned(),
    };
    let table = start.map_or_else(String::new, |start| match table_at(text, start) {
        Some(table) => format!(" in {table}"),
        None => String::new(),
    });
    let message = error.message().trim();
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let problem = match names.split_first() {
        Some((name, known)) if message.starts_with("unknown field") => {
            let more = if table.is_empty() { more } else { &[] };
            let known: Vec<&str> = known.iter().chain(more).copied().collect();
            format!("unknown key `{name}`{table}{}", remedy(name, known))
        }
        Some((name, known)) if message.starts_with("unknown variant") => {
            format!(
                "unknown value `{name}`{table}{}",
                remedy(name, known.iter().copied())
            )
        }
        Some((name, _)) if message.starts_with("missing field") => {
            format!("the key `{name}` is missing{table}")
        }
        _ => message.replace('\n', ", "),
    };
    Error::at(place, problem)
}

/// The line, from 1, of the byte at `offset`.
fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// The header of the innermost table that contains the byte at `offset`. None: no table but the
/// file's beginning, or the file is not TOML.
fn table_at(text: &str, offset: usize) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    Some(header_at(root.get_ref(), "", "", offset)?).filter(|header| !header.is_empty())
}

/// The header of `table`, or of a table in it, whichever is innermost and contains the byte at
/// `offset`. The header of `table` is `header`, and its path in the file is `path`.
fn header_at(table: &DeTable<'_>, path: &str, header: &str, offset: usize) -> Option<String> {
    for (key, value) in table {
        // First the key: in `[load]`, it belongs to the table around `load`.
        if key.span().contains(&offset) {
            return Some(header.to_owned());
        }
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", key.get_ref());
        let (values, own) = match value.get_ref() {
            DeValue::Array(values) => (&values[..], format!("[[{path}]]")),
            _ => (slice::from_ref(value), format!("[{path}]")),
        };
        for value in values {
            let Some(table) = value.get_ref().as_table() else {
                continue;
            };
            if let Some(found) = header_at(table, &path, &own, offset) {
                return Some(found);
            }
            // The span of a table is its header, or all of it if it is in braces.
            if value.span().contains(&offset) {
                return Some(own);
            }
        }
        if value.span().contains(&offset) {
            return Some(header.to_owned());
        }
    }
    None
}

/// The line of `key` in the `nth` table (from 0) whose header is `header`; an empty header is the
/// file's beginning.
pub(crate) fn line_of(text: &str, header: &str, nth: usize, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let path = header.trim_matches(['[', ']']);
    let mut table = root.get_ref();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        table = match table.get(name)?.get_ref() {
            DeValue::Array(tables) => tables.get(nth)?.get_ref().as_table()?,
            value => value.as_table()?,
        };
    }
    let (key, _) = table.get_key_value(key)?;
    Some(line_at(text, key.span().start))
}

/// A duration as text with a unit, such as `500us`, in a file whose settings are written back.
pub(crate) mod duration_text {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(it: &Duration, target: S) -> Result<S::Ok, S::Error> {
        let ns = u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
        target.serialize_str(&units::duration_argument(ns))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
        super::duration(source)
    }
}

/// As [`duration_text`], for a key that may be absent.
pub(crate) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        it: &Option<Duration>,
        target: S,
    ) -> Result<S::Ok, S::Error> {
        super::duration_text::serialize(&it.unwrap_or_default(), target)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        source: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::duration(source).map(Some)
    }
}

pub(crate) fn duration<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(source)?;
    units::duration_ns(&text)
        .map(Duration::from_nanos)
        .map_err(D::Error::custom)
}
