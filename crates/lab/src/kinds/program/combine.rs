//! The metrics of a trial of one or more clients.

use report::record::Measured;
use serde::{Deserialize, Serialize};

use super::extract::{MetricTable, Reduce};
use super::task::Ended;
use crate::kind::Performed;

/// How the values of several clients become one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Across {
    #[default]
    Mean,
    Median,
    Sum,
    Min,
    Max,
}

impl Across {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// None: there are no values.
    fn of(self, values: &[f64]) -> Option<f64> {
        let reduce = match self {
            Self::Mean => Reduce::Mean,
            Self::Median => Reduce::Median,
            Self::Sum => Reduce::Sum,
            Self::Min => Reduce::Min,
            Self::Max => Reduce::Max,
        };
        reduce.of(values)
    }
}

/// Combines what each client's output has. Of an optional metric that a client lacks, there is no
/// value: a sum or a mean of the others would be of another number of clients.
pub(super) fn declared(tables: &[MetricTable], mut each: Vec<Performed>) -> Performed {
    if each.len() == 1 {
        return each.remove(0);
    }
    let mut measured = Measured::default();
    let mut notes = Vec::new();
    for (number, of) in each.iter().enumerate() {
        notes.extend(of.notes.iter().map(|note| format!("client {number}: {note}")));
    }
    for table in tables {
        let name = table.name();
        let values = each.iter().filter_map(|it| it.measured.metric(name));
        let values: Vec<f64> = values.collect();
        let (found, all) = (values.len(), each.len());
        match table.across().of(&values) {
            Some(value) if found == all => {
                measured.metrics.insert(name.to_owned(), value);
            }
            Some(_) => notes.push(format!(
                "metric `{name}` has no value, because only {found} of {all} clients have one"
            )),
            None => {}
        }
    }
    Performed { measured, notes }
}

/// What is measured of every program: of several clients, the longest time, the first exit status
/// that is not 0, and the sums of all else.
pub(super) fn own(clients: &[Ended]) -> [(String, f64); 7] {
    let sum = |of: fn(&Ended) -> u64| clients.iter().map(of).sum::<u64>() as f64;
    let longest = clients.iter().map(|it| it.elapsed).max().unwrap_or_default();
    let mut statuses = clients.iter().filter_map(|it| it.status.code());
    let status = statuses.find(|&it| it != 0).unwrap_or_default();
    [
        ("elapsed_ns", longest.as_nanos() as f64),
        ("user_ns", sum(|it| it.usage.user_ns)),
        ("system_ns", sum(|it| it.usage.system_ns)),
        ("resident_bytes", sum(|it| it.usage.resident_bytes)),
        ("voluntary_switches", sum(|it| it.usage.voluntary_switches)),
        ("involuntary_switches", sum(|it| it.usage.involuntary_switches)),
        ("exit_status", f64::from(status)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}
