//! Turns an error of the TOML parser into one that names file, line, key and remedy.

use std::time::Duration;

use load::units;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::error::{Error, did_you_mean, nearest};

/// Rewrites an error of the parser for users.
pub(super) fn explain(error: &toml::de::Error, path: &str, text: &str) -> Error {
    let start = error.span().map(|span| span.start);
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
            format!("unknown key `{name}`{table}{}", suggestion(name, known))
        }
        Some((name, known)) if message.starts_with("unknown variant") => {
            format!("unknown value `{name}`{table}{}", suggestion(name, known))
        }
        Some((name, _)) if message.starts_with("missing field") => {
            format!("the key `{name}` is missing{table}")
        }
        _ if message.starts_with("wanted exactly 1 element") => {
            format!("only one parameter can be varied{table}: keep one key")
        }
        _ => message.replace('\n', ", "),
    };
    Error::Experiment { place, problem }
}

/// The most similar of `known`; all of them if none is similar.
fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => did_you_mean(Some(near)),
        None => format!("; known are {}", known.join(", ")),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// The header of the table that contains the byte at `offset`.
fn table_at(text: &str, offset: usize) -> Option<&str> {
    let line = line_at(text, offset);
    text.lines().take(line).filter_map(header).last()
}

fn header(line: &str) -> Option<&str> {
    let line = line.trim();
    let end = line.rfind(']')?;
    line.starts_with('[').then(|| &line[..=end])
}

/// The line of `key` in the `nth` table (from 0) whose header is `table`; an empty header is the
/// file's beginning.
pub(super) fn line_of(text: &str, table: &str, nth: usize, key: &str) -> Option<usize> {
    let mut current = "";
    let mut seen = 0;
    for (index, line) in text.lines().enumerate() {
        if let Some(header) = header(line) {
            seen += usize::from(current == table && header == table);
            current = header;
        }
        let is_key = line
            .trim_start()
            .strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with('='));
        if is_key && current == table && seen == nth {
            return Some(index + 1);
        }
    }
    None
}

pub(super) fn duration<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(source)?;
    units::duration_ns(&text)
        .map(Duration::from_nanos)
        .map_err(D::Error::custom)
}

pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<Duration>, D::Error> {
    duration(source).map(Some)
}

pub(super) fn rates<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<f64>>, D::Error> {
    let texts = Vec::<String>::deserialize(source)?;
    let rates: Result<_, _> = texts.iter().map(|text| units::rate_rps(text)).collect();
    rates.map(Some).map_err(D::Error::custom)
}
