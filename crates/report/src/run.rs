//! Reads a run folder strictly, except for the last line of `trials.jsonl`: a killed run may leave
//! it incomplete.
//!
//! A trial that failed and was repeated has two lines; the last one counts.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use crate::read::{line_of, read_bounded};
use crate::record::{Host, Metric, Outcome, Plan, Record, SCHEMA};
use crate::trials_csv::{COLUMNS, FLAG_SUFFIX};
use crate::{Error, Located, LocatedError, limits};

/// A run, as read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The run folder.
    pub folder: PathBuf,
    /// The plan.
    pub plan: Plan,
    /// The machine.
    pub host: Host,
    /// The trials in the order in which they ended, one per identity.
    pub records: Vec<Record>,
    /// Whether the last line of `trials.jsonl` is incomplete. It is ignored: its trial is missing.
    pub torn: bool,
}

/// A trial of the plan without a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct MissingTrial<'a> {
    /// A name of the plan's stages.
    pub stage: &'a str,
    /// Index of the cell in its stage.
    pub cell: u32,
    /// From 0.
    pub repeat: u32,
    /// Why it failed. None: it has not run, because the run was stopped or has not finished.
    pub failure: Option<&'a str>,
}

/// The run folders directly in a folder, by name.
pub(crate) fn run_folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|error| Error::read(folder, error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("plan.toml").is_file())
        .collect();
    folders.sort();
    Ok(folders)
}

impl Run {
    /// When its first trial started. None: no trial has ended.
    pub(crate) fn started_unix_ns(&self) -> Option<u64> {
        self.records
            .iter()
            .map(|record| record.started_unix_ns)
            .min()
    }

    /// Reads the run folder at `path`.
    ///
    /// # Errors
    /// A file is absent, too large or invalid; the error names file and line.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = path.as_ref().to_owned();
        let plan_path = folder.join("plan.toml");
        let trials_path = folder.join("trials.jsonl");
        let host = read_host(&folder.join("host.json"))?;
        let text = read_bounded(&plan_path, limits::PLAN_BYTES)?;
        let wrong = |error: LocatedError| unreadable(&plan_path, &text, &error);
        let table = DeTable::parse(&text).map_err(|error| wrong(error.into()))?;
        let schema = table.get_ref().get("schema");
        let schema = schema.and_then(|it| it.get_ref().as_str()).unwrap_or("");
        if schema != SCHEMA {
            let what = format!("schema is {schema:?}, this build reads {SCHEMA:?}");
            let remedy = "use the build that made the run";
            return Err(Error::content(&plan_path, 1, what, remedy));
        }
        let plan = Plan::deserialize(Located::from(table)).map_err(wrong)?;
        check_plan(&plan)
            .map_err(|what| Error::content(&plan_path, 1, what, "split the experiment"))?;
        let remedy = "rename it in the experiment file";
        check_names(&plan).map_err(|what| Error::content(&plan_path, 1, what, remedy))?;
        let (records, torn) = read_records(&trials_path, &plan)?;
        Ok(Self {
            folder,
            plan,
            host,
            records,
            torn,
        })
    }

    /// The trials of the plan without a measurement, by stage and cell. A cell whose number of
    /// trials depends on the width of an interval lacks none beyond the least number.
    #[must_use]
    pub fn missing(&self) -> Vec<MissingTrial<'_>> {
        let mut missing = Vec::new();
        for stage in &self.plan.stages {
            let of_stage = self.records.iter().filter(|it| it.stage == stage.name);
            let by_place: HashMap<(u32, u32), &Record> =
                of_stage.map(|it| ((it.cell, it.repeat), it)).collect();
            for cell in 0..stage.cells.len() as u32 {
                for repeat in 0..stage.repeats.most {
                    let failure = match by_place.get(&(cell, repeat)).map(|it| &it.outcome) {
                        Some(Outcome::Measured(_)) => continue,
                        Some(Outcome::Failed(reason)) => Some(reason.as_str()),
                        None if repeat >= stage.repeats.least => continue,
                        None => None,
                    };
                    missing.push(MissingTrial {
                        stage: &stage.name,
                        cell,
                        repeat,
                        failure,
                    });
                }
            }
        }
        missing
    }
}

fn unreadable(plan: &Path, text: &str, error: &LocatedError) -> Error {
    let line = error.start().map_or(1, |start| line_of(text, start));
    let remedy = "the plan is written by the run, not by hand";
    Error::content(plan, line, error.message(), remedy)
}

/// Checks whether a run of this plan could be read, before it is made.
///
/// # Errors
/// It could not; the error is a fragment.
pub fn check_readable(plan: &Plan) -> Result<(), String> {
    check_plan(plan)?;
    check_names(plan)
}

/// Checks a plan; the error is a fragment.
fn check_plan(plan: &Plan) -> Result<(), String> {
    let cells: usize = plan.stages.iter().map(|stage| stage.cells.len()).sum();
    for (what, count, most) in [
        ("factors", plan.factors.len(), limits::FACTORS),
        ("metrics", plan.metrics.len(), limits::METRICS),
        ("cells", cells, limits::CELLS),
        ("figures", plan.figures.len(), limits::FIGURES),
        ("published values", plan.published.len(), limits::PUBLISHED),
    ] {
        if count > most {
            return Err(format!("{count} {what}, at most {most}"));
        }
    }
    let mut stages = HashSet::new();
    if let Some(stage) = plan.stages.iter().find(|it| !stages.insert(&it.name)) {
        return Err(format!("`{}` names two stages", stage.name));
    }
    let trials = plan.trials();
    if trials > limits::TRIALS as u64 {
        return Err(format!(
            "{trials} trials planned, at most {}",
            limits::TRIALS
        ));
    }
    Ok(())
}

/// Factors, metrics and their flags are columns of one table.
fn check_names(plan: &Plan) -> Result<(), String> {
    let mut names = HashSet::new();
    let factors = plan.factors.iter().map(|it| &it.name);
    for name in factors.chain(plan.metrics.iter().map(|it| &it.name)) {
        if !names.insert(name) {
            return Err(format!("`{name}` names two factors or metrics"));
        }
        if COLUMNS.contains(&name.as_str()) {
            return Err(format!("`{name}` is a column of every run"));
        }
    }
    let flag = |metric: &Metric| format!("{}{FLAG_SUFFIX}", metric.name);
    match plan.metrics.iter().map(flag).find(|it| names.contains(it)) {
        Some(name) => Err(format!("`{name}` is the column of flags of another")),
        None => Ok(()),
    }
}

fn read_host(path: &Path) -> Result<Host, Error> {
    let text = read_bounded(path, limits::DESCRIPTION_BYTES)?;
    serde_json::from_str(&text).map_err(|error| {
        Error::content(
            path,
            error.line(),
            error.to_string(),
            "the host is described by the run",
        )
    })
}

fn read_records(path: &Path, plan: &Plan) -> Result<(Vec<Record>, bool), Error> {
    let text = read_bounded(path, limits::TRIALS_BYTES)?;
    let mut records: Vec<Record> = Vec::new();
    let mut record_index: HashMap<String, usize> = HashMap::new();
    let mut id_of: HashMap<(String, u32, u32), String> = HashMap::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let record: Record = match serde_json::from_str(line) {
            Ok(record) => record,
            Err(_) if !line.ends_with('\n') => return Ok((records, true)),
            Err(error) => {
                let remedy = "remove the line, and the run measures that trial again on resuming";
                return Err(Error::content(path, number, error.to_string(), remedy));
            }
        };
        check(&record, plan).map_err(|what| {
            let remedy = "plan.toml and trials.jsonl must be of one run";
            Error::content(path, number, what, remedy)
        })?;
        let trial = (record.stage.clone(), record.cell, record.repeat);
        let known = id_of.entry(trial).or_insert_with(|| record.id.clone());
        if *known != record.id {
            let what = format!("trials {known:?} and {:?} are the same repeat", record.id);
            let remedy = "remove one of the two lines";
            return Err(Error::content(path, number, what, remedy));
        }
        if let Some(&index) = record_index.get(&record.id) {
            if records[index].measured().is_some() {
                let what = format!("trial {:?} was measured before", record.id);
                let remedy = "remove one of the two lines";
                return Err(Error::content(path, number, what, remedy));
            }
            records[index] = record;
            continue;
        }
        if records.len() == limits::TRIALS {
            let what = format!("more than {} trials", limits::TRIALS);
            return Err(Error::content(path, number, what, "split the experiment"));
        }
        record_index.insert(record.id.clone(), records.len());
        records.push(record);
    }
    Ok((records, false))
}

/// Checks a record against its plan; the error is a fragment.
fn check(record: &Record, plan: &Plan) -> Result<(), String> {
    let stage = plan
        .stage(&record.stage)
        .ok_or_else(|| format!("stage {:?} is not in the plan", record.stage))?;
    let cell = stage.cells.get(record.cell as usize).ok_or_else(|| {
        let count = stage.cells.len();
        format!("cell {} of a stage of {count}", record.cell)
    })?;
    if record.factors != *cell {
        return Err(format!("factors that cell {} does not have", record.cell));
    }
    if record.repeat >= stage.repeats.most {
        let most = stage.repeats.most;
        return Err(format!("repeat {} (from 0) of {most}", record.repeat));
    }
    let flags = record.measured().into_iter().flat_map(|it| it.flags.keys());
    for name in flags {
        if plan.metric(name).is_none() {
            return Err(format!(
                "a flag of `{name}`, which the plan does not define"
            ));
        }
    }
    let metrics = record.measured().into_iter().flat_map(|it| &it.metrics);
    for (name, value) in metrics.chain(&record.resolved) {
        if plan.metric(name).is_none() {
            return Err(format!("metric `{name}`, which the plan does not define"));
        }
        if !value.is_finite() {
            return Err(format!("`{name}` is {value}, must be a finite number"));
        }
    }
    Ok(())
}
