//! A kind of trial: what its experiments set, and how one of its trials is made.
//!
//! The rest of the laboratory knows no kind. It reads an experiment, expands the design into cells,
//! orders the trials, and records what each measured. A kind reads its own tables of the
//! experiment file, says which metrics its trials have, and makes one trial at a time. Only
//! [`Kind::metrics`], [`Kind::settings`], [`Kind::estimate`] and [`Kind::perform`] have no default.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use report::figure::Figure;
use report::record::{Factor, Factors, Measured, Metric, Record, Repeats, Stage, Value};
use report::{Located, LocatedError};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::plan::Options;
use crate::process::StopSignals;
use crate::run_folder::RunFolder;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The header of the table, such as `[load]` or `[[server]]`; empty for the top of the file.
    pub(crate) table: String,
    /// Which of the tables of that header, from 0.
    pub(crate) nth: usize,
    pub(crate) key: String,
    /// What is wrong with the key's value: follows the key in a sentence.
    pub(crate) problem: String,
    pub(crate) others: Vec<Violation>,
}

impl Violation {
    pub(crate) fn new(table: &str, nth: usize, key: &str, problem: impl Into<String>) -> Self {
        Self {
            table: table.to_owned(),
            nth,
            key: key.to_owned(),
            problem: problem.into(),
            others: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(crate) enum TrialError {
    /// The trial failed; the run continues.
    Failed(String),
    /// The trial failed in a way that depends on what it measures, and is not retried: a retry
    /// would select among the outcomes. The run continues.
    Final(String),
    StopRequested,
    /// The run cannot continue.
    Run(Error),
}

impl From<Error> for TrialError {
    fn from(error: Error) -> Self {
        Self::Run(error)
    }
}

/// Hosts that cannot be created or used concern the trial that needs them: others may have none.
impl From<hosts::Error> for TrialError {
    fn from(error: hosts::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

#[derive(Debug)]
pub(crate) struct Trial<'a> {
    /// Unique within the run, such as `sweep-003-07`.
    pub(crate) id: &'a str,
    pub(crate) factors: &'a Factors,
    /// Settings that follow from earlier trials ([`Kind::resolve_trial`]).
    pub(crate) resolved: &'a BTreeMap<String, f64>,
    /// The seed of all that is random in it. Trials of one stage and repeat have the same seed,
    /// unless [`Kind::schedule`] tells them apart.
    pub(crate) seed: u64,
}

#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) stop_signals: &'a StopSignals,
    /// The run folder. None: the run has not begun ([`Kind::prepare`]).
    pub(crate) folder: Option<&'a RunFolder>,
}

impl Context<'_> {
    /// The path of a log of a trial. Before the run has begun, nothing is kept.
    pub(crate) fn log(&self, trial: &str, of: &str) -> PathBuf {
        match self.folder {
            Some(folder) => folder.log(trial, of),
            None => PathBuf::from("/dev/null"),
        }
    }

    /// Writes a file of the run folder, and returns its path relative to the folder.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<String, Error> {
        if let Some(folder) = self.folder {
            folder.write(Path::new(path), content)?;
        }
        Ok(path.to_owned())
    }

    /// Keeps the histograms of a trial in one file, an object with an entry for each name: base64
    /// of HDR V2.
    pub(crate) fn keep_histograms(
        &self,
        trial: &str,
        histograms: Vec<(&str, String)>,
        measured: &mut Measured,
    ) -> Result<(), Error> {
        if histograms.is_empty() {
            return Ok(());
        }
        let path = format!("histograms/{trial}.hist");
        let artefact = |name: &str| (name.to_owned(), format!("{path}#{name}"));
        let artefacts = histograms.iter().map(|(name, _)| artefact(name));
        measured.artefacts.extend(artefacts);
        let file: BTreeMap<&str, String> = histograms.into_iter().collect();
        self.write(&path, serde_json::json!(file).to_string().as_bytes())?;
        Ok(())
    }
}

/// What a trial measured, and remarks that do not affect it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Performed {
    pub(crate) measured: Measured,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) likely: Duration,
    /// The time after which a trial has failed.
    pub(crate) most: Duration,
}

impl Estimate {
    pub(crate) const fn about(likely: Duration) -> Self {
        Self {
            likely,
            most: likely,
        }
    }
}

/// The settings of one kind of trial, as an experiment or a plan has them.
pub(crate) trait Kind: Debug {
    fn metrics(&self) -> Vec<Metric>;

    /// The settings for the plan, from which [`Entry::read`] makes the kind again.
    fn settings(&self) -> Result<toml::Table, Error>;

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError>;

    /// Checks the settings for these cells, without looking at the machine.
    fn check(&self, _cells: &[Factors]) -> Result<(), Violation> {
        Ok(())
    }

    /// Adapts the settings to this machine, and returns the departures from the file, as sentences
    /// for the report.
    fn resolve(&mut self, _options: &Options) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Factors that follow from the settings, such as the servers. They vary slowest.
    fn own_factors(&self) -> Vec<Factor> {
        Vec::new()
    }

    /// The definition of a factor of the file: its title and unit, where the kind knows them.
    fn factor(&self, name: &str, values: Vec<Value>) -> Result<Factor, String> {
        Ok(Factor::new(name, values))
    }

    fn stages(&self, cells: Vec<Factors>, repeats: Repeats) -> Vec<Stage> {
        vec![Stage {
            name: "sweep".to_owned(),
            repeats,
            cells,
        }]
    }

    fn figures(&self, _factors: &[Factor]) -> Vec<Figure> {
        Vec::new()
    }

    /// Prepares a run before its folder is opened; may complete the settings, with versions of
    /// programs for example.
    fn prepare(&mut self, _cells: &[Factors], _context: &Context<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn estimate(&self, factors: &Factors) -> Estimate;

    fn needs_root(&self) -> bool {
        false
    }

    /// The factors whose values decide whether a trial can succeed at all. After some consecutive
    /// failures, the remaining trials with the same values are not tried.
    fn group(&self, factors: &Factors) -> Factors {
        factors.clone()
    }

    /// Settings of a trial that follow from the earlier trials `done`.
    fn resolve_trial(
        &self,
        _stage: &str,
        _factors: &Factors,
        _done: &[Record],
    ) -> Result<Resolved, String> {
        Ok(Resolved::default())
    }

    /// What distinguishes the schedule of this trial from those of other cells. Cells with equal
    /// text are measured under the same schedule in each repeat.
    fn schedule(&self, _factors: &Factors) -> String {
        String::new()
    }

    fn describe(&self) -> Vec<String> {
        Vec::new()
    }

    /// The result of a trial in a few words, for a terminal.
    fn result(&self, measured: &Measured) -> String {
        let metrics = self.metrics();
        let values = metrics.iter().filter_map(|metric| {
            let value = measured.metric(&metric.name)?;
            Some(format!("{} {}", metric.name, metric.unit.words(value)))
        });
        values.take(3).collect::<Vec<_>>().join(", ")
    }
}

/// Settings of a trial that follow from earlier trials, by name, and remarks on them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) settings: BTreeMap<String, f64>,
    pub(crate) notes: Vec<String>,
}

/// The kind of experiments that name none.
pub(crate) const DEFAULT: &str = "measured";

/// The factor whose values are builds of this program, and the placeholder of the build's path.
pub(crate) const BUILD: &str = "build";

type Read = fn(Located<'_>) -> Result<Box<dyn Kind>, LocatedError>;

/// A kind, by its name in experiment files.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub(crate) name: &'static str,
    /// Reads the kind's tables of an experiment file, or the settings of a plan.
    pub(crate) read: Read,
}

impl Entry {
    /// A kind whose settings have one form in files and plans.
    pub(crate) const fn of<K: Kind + DeserializeOwned + 'static>(name: &'static str) -> Self {
        let read: Read = |source| Ok(Box::new(K::deserialize(source)?));
        Self { name, read }
    }
}

pub(crate) fn settings_of<K: serde::Serialize>(kind: &K) -> Result<toml::Table, Error> {
    toml::Table::try_from(kind).map_err(|error| Error::encode("the settings", error))
}
