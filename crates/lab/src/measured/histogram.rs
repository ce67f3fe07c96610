//! The tables `[[histogram]]`: distributions that a program prints, for figures of kind `cdf`.
//!
//! ```toml
//! [[histogram]]
//! name = "response"
//! json = "response.hdr"      # base64 of HDR V2, as `curtail load --json` has it
//! ```
//!
//! They are kept in `histograms/TRIAL.hist`, an object with an entry for each name.

use std::collections::BTreeMap;

use measure::Histogram;
use report::record::Measured;
use serde::{Deserialize, Serialize};

use super::extract::{MetricTable, json_text};
use crate::error::Error;
use crate::kind::{Context, Violation};
use crate::placeholder;

/// A distribution in the output of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HistogramTable {
    name: String,
    /// A path as in `[[metric]]`.
    json: String,
}

/// Adds the histograms of an output to those of the trial. One that the output does not have, or
/// that cannot be read, is noted, and its trial has none.
pub(super) fn find(
    tables: &[HistogramTable],
    output: &str,
    histograms: &mut BTreeMap<String, String>,
) -> Vec<String> {
    let mut notes = Vec::new();
    for HistogramTable { name, json } in tables {
        match json_text(output, json) {
            Some(text) if Histogram::from_base64(&text).is_ok() => {
                histograms.insert(name.clone(), text);
            }
            Some(_) => notes.push(format!("the histogram `{name}` is no base64 of HDR V2")),
            None => notes.push(format!(
                "the output has no text `{json}` for histogram `{name}`"
            )),
        }
    }
    notes
}

/// Writes the histograms of a trial to the run folder.
pub(super) fn keep(
    histograms: &BTreeMap<String, String>,
    trial: &str,
    context: &Context<'_>,
    measured: &mut Measured,
) -> Result<(), Error> {
    if histograms.is_empty() {
        return Ok(());
    }
    let path = format!("histograms/{trial}.hist");
    let text = serde_json::to_vec(histograms).map_err(|error| Error::Encode {
        what: "a histogram",
        problem: error.to_string(),
    })?;
    context.write(&path, &text)?;
    let entry = |name: &String| (name.clone(), format!("{path}#{name}"));
    measured.artefacts.extend(histograms.keys().map(entry));
    Ok(())
}

/// Checks the declarations.
pub(super) fn check(
    tables: &[HistogramTable],
    metrics: &[MetricTable],
    clients: u8,
) -> Result<(), Violation> {
    const TABLE: &str = "[[histogram]]";
    for (nth, table) in tables.iter().enumerate() {
        let violation =
            |key, problem: &str| Err(Violation::new(TABLE, nth, key, problem.to_owned()));
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
