//! The trials as a flat table: one row per trial, absent values empty.
//!
//! The columns are those of [`COLUMNS`], then the factors and the metrics of the plan, each under
//! its own name; settings that follow from other trials are among the metrics. They follow from the
//! plan, so that all runs of one experiment have the same. A metric that is judged has a second
//! column `NAME_flag`: `lower bound`, the reason why the value does not count, or both.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::record::{Flag, Metric, Plan, Record};

/// The columns of every run.
pub const COLUMNS: [&str; 10] = [
    "id",
    "stage",
    "cell",
    "repeat",
    "retries",
    "started_unix_ns",
    "failure",
    "fault_class",
    "fault_reason",
    "notes",
];

/// The end of the name of a column of flags.
pub(crate) const FLAG_SUFFIX: &str = "_flag";

/// Writes a header and one row per trial.
///
/// # Errors
/// The writer failed.
pub fn write_csv(plan: &Plan, records: &[Record], writer: impl Write) -> io::Result<()> {
    let columns = Columns::of(plan, records);
    let mut table = csv::Writer::from_writer(writer);
    table.write_record(columns.header())?;
    for record in records {
        table.write_record(columns.row(record))?;
    }
    table.flush()
}

/// The columns that a run has besides [`COLUMNS`].
struct Columns<'a> {
    factors: Vec<&'a str>,
    /// Metrics and resolved settings, in the order of the plan, each with whether it has flags.
    metrics: Vec<(&'a str, bool)>,
}

impl<'a> Columns<'a> {
    fn of(plan: &'a Plan, records: &'a [Record]) -> Self {
        let measured = records.iter().filter_map(Record::measured);
        let flagged: BTreeSet<&String> = measured.flat_map(|it| it.flags.keys()).collect();
        let has_flags = |it: &Metric| it.judged.is_some() || flagged.contains(&it.name);
        Self {
            factors: plan.factors.iter().map(|it| it.name.as_str()).collect(),
            metrics: plan
                .metrics
                .iter()
                .map(|it| (it.name.as_str(), has_flags(it)))
                .collect(),
        }
    }

    fn header(&self) -> Vec<String> {
        let mut names: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
        names.extend(self.factors.iter().map(|&name| name.to_owned()));
        for &(name, is_flagged) in &self.metrics {
            names.push(name.to_owned());
            names.extend(is_flagged.then(|| format!("{name}{FLAG_SUFFIX}")));
        }
        names
    }

    fn row(&self, record: &Record) -> Vec<String> {
        let measured = record.measured();
        let fault = measured.and_then(|it| it.fault.as_ref());
        let mut fields = vec![
            record.id.clone(),
            record.stage.clone(),
            record.cell.to_string(),
            record.repeat.to_string(),
            record.retries.to_string(),
            record.started_unix_ns.to_string(),
            record.failure().unwrap_or_default().to_owned(),
            fault.map_or("", |it| it.class.words()).to_owned(),
            fault.map(|it| it.reason.clone()).unwrap_or_default(),
            record.notes.join("; "),
        ];
        let factor = |name: &&str| record.factors.get(*name).map(ToString::to_string);
        fields.extend(
            self.factors
                .iter()
                .map(|name| factor(name).unwrap_or_default()),
        );
        for &(name, is_flagged) in &self.metrics {
            let value = record.number(name).map(|value| value.to_string());
            fields.push(value.unwrap_or_default());
            if is_flagged {
                let flag = measured.and_then(|it| it.flags.get(name));
                fields.push(flag.map(words).unwrap_or_default());
            }
        }
        fields
    }
}

fn words(flag: &Flag) -> String {
    let bound = flag.lower_bound.then(|| "lower bound".to_owned());
    let words: Vec<String> = bound.into_iter().chain(flag.invalid.clone()).collect();
    words.join("; ")
}
