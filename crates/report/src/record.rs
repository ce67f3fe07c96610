//! The records of a run, for any kind of trial.
//!
//! ```text
//! plan.toml     Plan    the factors and metrics of the experiment, and its cells by stage
//! trials.jsonl  Record  one trial a line: the values of its factors, and what was measured
//! ```
//!
//! A *factor* is a setting that an experiment varies, such as the offered rate. A *cell* is one
//! combination of factor values. A *metric* is a measured number. An *artefact* is a file with more
//! than a number, such as a histogram. The laboratory writes these records; tables, comparisons and
//! figures work on them and know nothing of what was measured.
//!
//! Everything here has the version [`SCHEMA`]. Rates are per second, durations nanoseconds, sizes
//! bytes and shares 0 to 1, except where a [`Unit`] says otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::de::DeTable;

mod answer;
mod host;
pub mod names;
mod target;
mod unit;
mod value;

pub use answer::Answer;
pub use host::{Difference, Host};
pub use target::Target;
pub use unit::Unit;
pub use value::Value;

use crate::figure::Figure;
use crate::published::Published;
use crate::{Located, LocatedError};

/// The version of everything in this module.
pub const SCHEMA: &str = "curtail.run/2";

/// A factor's value in each cell, by the name of the factor.
pub type Factors = BTreeMap<String, Value>;

/// `plan.toml`: what a run does, with every default resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name: the stem of its file.
    pub experiment: String,
    /// The question of the experiment, one sentence.
    pub question: String,
    /// The kind of trial, such as `cache`.
    pub kind: String,
    /// Whether this is the short form, which the report states.
    pub quick: bool,
    /// The seed of the order of the trials and of all that is random in them.
    pub seed: u64,
    /// How often a failed trial is tried again.
    #[serde(default)]
    pub retries: u32,
    /// How long a trial usually takes, if the experiment file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_ns: Option<u64>,
    /// Departures from the experiment file on this machine, as sentences for the report.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The settings of the kind of trial, which only that kind interprets.
    pub settings: toml::Table,
    /// The factors, in the order of the file.
    pub factors: Vec<Factor>,
    /// The metrics that the trials may have, in the order of tables.
    pub metrics: Vec<Metric>,
    /// The stages, in the order in which they run.
    pub stages: Vec<Stage>,
    /// What the first sentence of the report is about. None: its first figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The command that repeats the run. None: composed of the experiment's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<String>,
    /// The figures to draw, in order.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Published values, which are shown beside the measured ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Bounds on metrics, which the report judges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
}

/// The definition of a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name, unique among factors and metrics: a column of the table of trials.
    pub name: String,
    /// The title of an axis or column, without the unit, such as `offered rate`.
    pub title: String,
    /// The unit of its values. None: the values are names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// The title of an axis. None: `title`, with the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis_title: Option<String>,
    /// The words for a value in a sentence, with `{}` in place of the value and its unit, or
    /// `{label}` in place of its label, such as `with {label}`. None: `TITLE {}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// The words for a value on its own, with `{}` in place of the value and its unit, such as
    /// `{} connections`. Figures then state the value of each trial. None: `TITLE {}`, and a name
    /// stands for itself; figures state the value if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The labels of values that `label` does not fit, by value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The number of the colour and marker of each value, so that a value looks the same in runs
    /// that lack others. Empty: the index of the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub styles: Vec<u32>,
    /// The value that the others are compared with. None: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Value>,
    /// The distinct values, in the order of the file.
    pub values: Vec<Value>,
}

/// The definition of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, unique among factors and metrics: a column of the table of trials.
    pub name: String,
    /// The title of an axis or column, without the unit, such as `response time, 99th percentile`.
    pub title: String,
    /// The title of an axis. None: `title`, with the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis_title: Option<String>,
    /// As [`Factor::phrase`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// How a value is judged valid, as a sentence. None: every value counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<String>,
    /// Why a value may be a lower bound, such as `requests that were never answered may lie above
    /// this percentile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded: Option<String>,
    /// The factor that is its planned value, where a plan has that factor: an offered rate equals
    /// the factor of the rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<String>,
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Lower values.
    Lower,
    /// Higher values.
    Higher,
    /// Neither: the metric describes the trial.
    Neither,
}

/// A part of a run. All its trials precede those of the next stage, which may depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name, such as `capacity` or `sweep`.
    pub name: String,
    /// How often each cell is measured.
    pub repeats: Repeats,
    /// The cells.
    pub cells: Vec<Factors>,
}

/// How often each cell is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// The number of trials, or the least number if [`Repeats::until`] is set.
    pub least: u32,
    /// The greatest number of trials.
    pub most: u32,
    /// When a cell has enough trials. None: `least` and `most` are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Narrow>,
}

impl Repeats {
    /// Whether the number of trials depends on the width of an interval.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        self.until.is_some() && self.least < self.most
    }
}

/// A cell has enough trials once the 95 % interval of the median of a metric is narrow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Narrow {
    /// The metric.
    pub metric: String,
    /// The greatest width of the interval, as a share of the median.
    pub width: f64,
}

impl Repeats {
    /// A fixed number of trials.
    #[must_use]
    pub fn fixed(count: u32) -> Self {
        Self {
            least: count,
            most: count,
            until: None,
        }
    }
}

/// A line of `trials.jsonl`: one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Unique within the run, such as `sweep-003-07` (stage, cell, repeat).
    pub id: String,
    /// A name of [`Plan::stages`].
    pub stage: String,
    /// An index of [`Stage::cells`].
    pub cell: u32,
    /// From 0.
    pub repeat: u32,
    /// The number of earlier attempts that failed and were retried.
    #[serde(default)]
    pub retries: u32,
    /// The values of the factors, as in the cell.
    pub factors: Factors,
    /// Settings that follow from trials of an earlier stage, such as an offered rate that is a
    /// share of a measured capacity. They are defined among the metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, f64>,
    /// The Unix time of its start, nanoseconds.
    pub started_unix_ns: u64,
    /// What was measured.
    pub outcome: Outcome,
    /// Problems that do not affect the measurement, such as a server that had to be killed.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured(Measured),
    /// It failed, with the reason; shown as missing.
    Failed(String),
}

/// What a trial measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The metrics by name. A metric that is absent was not measured.
    pub metrics: BTreeMap<String, f64>,
    /// Metrics that do not count as they are. Absent: the value counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, Flag>,
    /// Why the trial does not count as it is. The rule is fixed before the run and is the same for
    /// all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Short series of numbers, such as a value for each second, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<f64>>,
    /// Files of the run folder, by name: paths relative to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artefacts: BTreeMap<String, String>,
}

/// What is wrong with a trial that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where the cause lies.
    pub class: FaultClass,
    /// A clause that follows *the trial is invalid:*, such as `the generator was late`.
    pub reason: String,
    /// The metrics of an invalid trial that count all the same: those that were not measured by
    /// what is at fault, such as the server's processor time if the generator was late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<String>,
}

/// Where the cause of a fault lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// In the instrument: what it counted contradicts what it timed. No metric counts.
    Instrument,
    /// Outside the server, such as a late generator. No metric counts but those spared.
    Invalid,
    /// In the server: more errors, losses or refusals than are allowed. The trial counts against
    /// the server, its latencies are lower bounds, and no median passes over it.
    Failing,
}

impl FaultClass {
    /// The word in tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Instrument => "instrument",
            Self::Invalid => "invalid",
            Self::Failing => "failing",
        }
    }
}

/// How a value counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// The true value is this or higher.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_bound: bool,
    /// Why the value is left out of comparisons. None: it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl Record {
    /// The measurement. None: the trial failed.
    #[must_use]
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) => None,
        }
    }

    /// Why the trial failed. None: it was measured.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed(reason) => Some(reason),
        }
    }

    /// The number of that name: of a factor, of a resolved setting, or of a metric. None: it is a
    /// name, or was not measured.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        if let Some(value) = self.factors.get(name) {
            return value.number();
        }
        let resolved = self.resolved.get(name).copied();
        resolved.or_else(|| self.measured()?.metric(name))
    }
}

impl Measured {
    /// A finite metric. None: it was not measured.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics
            .get(name)
            .copied()
            .filter(|value| value.is_finite())
    }

    /// A metric that counts: measured, and not invalid.
    #[must_use]
    pub fn valid(&self, name: &str) -> Option<f64> {
        self.metric(name).filter(|_| self.invalid(name).is_none())
    }

    /// Why a metric does not count. None: it does, if it was measured.
    #[must_use]
    pub fn invalid(&self, name: &str) -> Option<&str> {
        let fault = self.fault.as_ref();
        let fault = fault.filter(|it| it.class != FaultClass::Failing);
        let fault = fault.filter(|it| !it.spares.iter().any(|spared| spared == name));
        let flag = || self.flags.get(name)?.invalid.as_ref();
        fault.map(|it| &it.reason).or_else(flag).map(String::as_str)
    }

    /// Why the server fails in this trial. None: it does not.
    #[must_use]
    pub fn failing(&self) -> Option<&str> {
        let fault = self.fault.as_ref();
        let fault = fault.filter(|it| it.class == FaultClass::Failing);
        fault.map(|it| it.reason.as_str())
    }

    /// Whether the true value of a metric may be higher.
    #[must_use]
    pub fn is_lower_bound(&self, name: &str) -> bool {
        self.flags.get(name).is_some_and(|flag| flag.lower_bound)
    }
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// The text is not TOML, or not a plan of this version.
    pub fn parse(text: &str) -> Result<Self, LocatedError> {
        Self::deserialize(Located::from(DeTable::parse(text)?))
    }

    /// The definition of a factor.
    #[must_use]
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.name == name)
    }

    /// The definition of a metric.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// A stage.
    #[must_use]
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// The stage that figures and tables show: the last.
    #[must_use]
    pub fn last_stage(&self) -> Option<&Stage> {
        self.stages.last()
    }

    /// The greatest number of trials of all stages.
    #[must_use]
    pub fn trials(&self) -> u64 {
        let trials = |stage: &Stage| stage.cells.len() as u64 * u64::from(stage.repeats.most);
        self.stages.iter().map(trials).sum()
    }
}

impl Metric {
    /// A metric of which every value counts.
    #[must_use]
    pub fn new(name: &str, title: &str, unit: Unit, better: Better) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            axis_title: None,
            phrase: None,
            unit,
            better,
            judged: None,
            bounded: None,
            planned: None,
        }
    }
}

impl Factor {
    /// A factor with these values, of which nothing else is known.
    #[must_use]
    pub fn new(name: &str, values: Vec<Value>) -> Self {
        Self {
            name: name.to_owned(),
            title: name.to_owned(),
            axis_title: None,
            phrase: None,
            label: None,
            labels: BTreeMap::new(),
            styles: Vec::new(),
            unit: None,
            reference: None,
            values,
        }
    }

    /// A value with its unit, such as `20.0 k/s`. Shares are in full: they were chosen, not
    /// measured.
    #[must_use]
    pub fn value_text(&self, value: &Value) -> String {
        match (value, &self.unit) {
            (Value::Number(number), Some(unit)) => unit.exact(*number),
            (Value::Number(number), None) => crate::units::plain(*number),
            (Value::Text(text), _) => text.clone(),
        }
    }

    /// A value on its own, such as `16 connections`.
    #[must_use]
    pub fn label(&self, value: &Value) -> String {
        if let Some(label) = self.labels.get(&value.to_string()) {
            return label.clone();
        }
        let text = self.value_text(value);
        match (&self.label, value) {
            (Some(label), _) => label.replace("{}", &text),
            (None, Value::Text(_)) => text,
            (None, Value::Number(_)) => format!("{} {text}", self.title),
        }
    }

    /// A value in a sentence, such as `with 16 connections`.
    #[must_use]
    pub fn words(&self, value: &Value) -> String {
        let text = self.value_text(value);
        match &self.phrase {
            Some(phrase) if phrase.contains("{label}") => {
                phrase.replace("{label}", &self.label(value))
            }
            Some(phrase) => phrase.replace("{}", &text),
            None => format!("{} {text}", self.title),
        }
    }

    /// Whether its values are names. Numbers among them count as names too.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.values.iter().any(|value| value.number().is_none())
    }
}

impl Metric {
    /// A value in a sentence, such as `at 20.0 k/s offered`.
    #[must_use]
    pub fn words(&self, number: f64) -> String {
        let text = self.unit.words(number);
        match &self.phrase {
            Some(phrase) => phrase.replace("{}", &text),
            None => format!("at {} {text}", self.title),
        }
    }
}
