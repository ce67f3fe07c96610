//! The tables `[[histogram]]`: distributions that a program prints, for figures of kind `cdf`.
//!
//! ```toml
//! [[histogram]]
//! name = "response"
//! json = "response.hdr"      # base64 of HDR V2, as `curtail load --json` has it
//! ```
//!
//! They are kept in `histograms/TRIAL.hist`, an object with an entry for each name.

use measure::Histogram;
use report::record::Measured;
use serde::{Deserialize, Serialize};

use super::extract::{MetricTable, json_at};
use crate::error::Error;
use crate::kind::{Context, Violation};
use crate::placeholder;

/// A distribution in the output of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HistogramTable {
    name: String,
    /// The path of keys in a line that is an object, joined by dots, as in `[[metric]]`.
    json: String,
}

/// Writes the histograms of an output to the run folder. One that the output does not have, or that
/// cannot be read, is noted, and its trial has none.
pub(super) fn keep(
    tables: &[HistogramTable],
    output: &str,
    trial: &str,
    context: &Context<'_>,
    measured: &mut Measured,
) -> Result<Vec<String>, Error> {
    let path = format!("histograms/{trial}.hist");
    let (mut kept, mut notes) = (serde_json::Map::new(), Vec::new());
    for table in tables {
        let (name, json) = (&table.name, &table.json);
        match last(output, json) {
            Some(text) if Histogram::from_base64(&text).is_ok() => {
                measured.artefacts.insert(name.clone(), format!("{path}#{name}"));
                kept.insert(name.clone(), text.into());
            }
            Some(_) => notes.push(format!("the histogram `{name}` is no base64 of HDR V2")),
            None => notes.push(format!("the output has no text `{json}` for histogram `{name}`")),
        }
    }
    if !kept.is_empty() {
        let text = serde_json::Value::from(kept).to_string();
        context.write(&path, text.as_bytes())?;
    }
    Ok(notes)
}

/// The text at a path in the last line that has one.
fn last(output: &str, path: &str) -> Option<String> {
    let text = |line: &str| json_at(line, path)?.as_str().map(str::to_owned);
    output.lines().rev().find_map(text)
}

/// Checks the declarations.
pub(super) fn check(
    tables: &[HistogramTable],
    metrics: &[MetricTable],
    clients: u8,
) -> Result<(), Violation> {
    const TABLE: &str = "[[histogram]]";
    for (nth, table) in tables.iter().enumerate() {
        let violation = |key, problem: &str| {
            Err(Violation::new(TABLE, nth, key, problem.to_owned()))
        };
        let is_again = tables[..nth].iter().any(|it| it.name == table.name)
            || metrics.iter().any(|it| it.name() == table.name);
        if table.name.is_empty() || !table.name.chars().all(placeholder::is_in_name) || is_again {
            let problem = "must be letters, digits, `.`, `_` or `-`, and of no other histogram or \
                           metric";
            return violation("name", problem);
        }
        if clients > 1 {
            return violation("name", "is of one client, and a cell has several");
        }
    }
    Ok(())
}
