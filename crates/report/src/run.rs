//! Reads a run folder strictly, except for the last line of `trials.jsonl`: a killed run may leave
//! it incomplete.
//!
//! A trial that failed and was repeated has two lines; the last one counts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::folder::{Host, Measurement, Outcome, Phase, Plan, SCHEMA, Sweep, Trial};
use crate::limits;

/// A run, as read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The run folder.
    pub folder: PathBuf,
    /// The effective plan.
    pub plan: Plan,
    /// The machine.
    pub host: Host,
    /// The trials in the order in which they ended, one per identity.
    pub trials: Vec<Trial>,
    /// Whether the last line of `trials.jsonl` is incomplete. It is ignored: its trial is missing.
    pub torn: bool,
}

/// A trial of the plan without a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// A name of [`Plan::servers`].
    pub server: String,
    /// The trial's phase.
    pub phase: Phase,
    /// As [`Trial::cell`].
    pub cell: u32,
    /// From 0.
    pub repeat: u32,
    /// Offered rate, where it is known.
    pub offered_rps: Option<f64>,
    /// Why it failed. None: it has not run (the run was stopped, or has not finished).
    pub failure: Option<String>,
}

impl Run {
    /// Reads the run folder at `path`.
    ///
    /// # Errors
    /// A file is absent, too large or invalid; the error names file and line.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = path.as_ref().to_owned();
        let plan = read_plan(&folder.join("plan.toml"))?;
        let host = read_host(&folder.join("host.json"))?;
        let (trials, torn) = read_trials(&folder.join("trials.jsonl"), &plan)?;
        Ok(Self {
            folder,
            plan,
            host,
            trials,
            torn,
        })
    }

    /// The trials of the plan without a measurement, by server, capacity trials first. Skipped
    /// servers have no trials.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for server in self
            .plan
            .servers
            .iter()
            .filter(|server| server.skipped.is_none())
        {
            self.missing_capacity(&server.name, &mut missing);
            self.missing_sweep(&server.name, &mut missing);
        }
        missing
    }

    fn missing_capacity(&self, server: &str, missing: &mut Vec<Missing>) {
        let planned = match self.plan.sweep {
            // A load level requires a capacity, so at least one capacity trial is expected.
            Sweep::LoadLevels(_) => self.plan.capacity_trials.max(1),
            Sweep::Rates(_) => self.plan.capacity_trials,
        };
        let ended = self.ended(Phase::Capacity, server);
        for (cell, repeat) in (0..self.plan.settings())
            .flat_map(|cell| (0..planned).map(move |repeat| (cell, repeat)))
        {
            if let Some(failure) = failure(ended.get(&(cell, repeat)).copied()) {
                missing.push(Missing {
                    server: server.to_owned(),
                    phase: Phase::Capacity,
                    cell,
                    repeat,
                    offered_rps: None,
                    failure,
                });
            }
        }
    }

    fn missing_sweep(&self, server: &str, missing: &mut Vec<Missing>) {
        let ended = self.ended(Phase::Sweep, server);
        for cell in 0..self.plan.cells() {
            let offered_rps = (0..self.plan.repeats).find_map(|repeat| {
                ended
                    .get(&(cell, repeat))
                    .and_then(|trial| trial.offered_rps)
            });
            for repeat in 0..self.plan.repeats {
                if let Some(failure) = failure(ended.get(&(cell, repeat)).copied()) {
                    missing.push(Missing {
                        server: server.to_owned(),
                        phase: Phase::Sweep,
                        cell,
                        repeat,
                        offered_rps,
                        failure,
                    });
                }
            }
        }
    }

    /// The recorded trials of a server, by cell and repeat.
    fn ended(&self, phase: Phase, server: &str) -> HashMap<(u32, u32), &Trial> {
        self.trials
            .iter()
            .filter(|trial| trial.phase == phase && trial.server == server)
            .map(|trial| ((trial.cell, trial.repeat), trial))
            .collect()
    }
}

/// None: the trial was measured. Else the reason of its failure, if it was recorded.
fn failure(trial: Option<&Trial>) -> Option<Option<String>> {
    match trial.map(|trial| &trial.outcome) {
        Some(Outcome::Measured(_)) => None,
        Some(Outcome::Failed(why)) => Some(Some(why.clone())),
        None => Some(None),
    }
}

fn read_plan(path: &Path) -> Result<Plan, Error> {
    let text = read_bounded(path, limits::DESCRIPTION_BYTES)?;
    let plan: Plan = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        Error::content(
            path,
            line,
            error.message(),
            "the plan is written by the run, not by hand",
        )
    })?;
    if plan.schema != SCHEMA {
        let what = format!("schema is {:?}, this build reads {SCHEMA:?}", plan.schema);
        return Err(Error::content(
            path,
            1,
            what,
            "use the build that made the run",
        ));
    }
    if plan.servers.len() > limits::SERVERS {
        let what = format!(
            "{} servers, at most {}",
            plan.servers.len(),
            limits::SERVERS
        );
        return Err(Error::content(path, 1, what, "split the experiment"));
    }
    for (what, count, most) in [
        ("settings", plan.settings(), limits::SETTINGS),
        ("rates", plan.sweep.rates(), limits::RATES),
    ] {
        if count > most {
            let what = format!("{count} {what}, at most {most}");
            return Err(Error::content(path, 1, what, "split the experiment"));
        }
    }
    let planned = plan.trials();
    if planned > limits::TRIALS as u64 {
        let what = format!("{planned} trials planned, at most {}", limits::TRIALS);
        return Err(Error::content(path, 1, what, "split the experiment"));
    }
    Ok(plan)
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

fn read_trials(path: &Path, plan: &Plan) -> Result<(Vec<Trial>, bool), Error> {
    let text = read_bounded(path, limits::TRIALS_BYTES)?;
    let mut trials: Vec<Trial> = Vec::new();
    let mut place_of: HashMap<String, usize> = HashMap::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let trial: Trial = match serde_json::from_str(line) {
            Ok(trial) => trial,
            Err(_) if !line.ends_with('\n') => return Ok((trials, true)),
            Err(error) => {
                let remedy = "remove the line, and the run measures that trial again on resuming";
                return Err(Error::content(path, number, error.to_string(), remedy));
            }
        };
        check(&trial, plan).map_err(|what| {
            Error::content(
                path,
                number,
                what,
                "plan.toml and trials.jsonl must be of one run",
            )
        })?;
        if let Some(&place) = place_of.get(&trial.id) {
            if matches!(trials[place].outcome, Outcome::Measured(_)) {
                let what = format!("trial {:?} was measured before", trial.id);
                return Err(Error::content(
                    path,
                    number,
                    what,
                    "remove one of the two lines",
                ));
            }
            trials[place] = trial;
            continue;
        }
        if trials.len() == limits::TRIALS {
            let what = format!("more than {} trials", limits::TRIALS);
            return Err(Error::content(path, number, what, "split the experiment"));
        }
        place_of.insert(trial.id.clone(), trials.len());
        trials.push(trial);
    }
    Ok((trials, false))
}

/// Checks a trial against its plan; the error is a fragment.
fn check(trial: &Trial, plan: &Plan) -> Result<(), String> {
    if !plan
        .servers
        .iter()
        .any(|server| server.name == trial.server)
    {
        return Err(format!("server {:?} is not in the plan", trial.server));
    }
    if trial.phase == Phase::Sweep {
        if trial.cell >= plan.cells() {
            return Err(format!(
                "cell {} of a sweep of {}",
                trial.cell,
                plan.cells()
            ));
        }
        if trial.repeat >= plan.repeats {
            return Err(format!(
                "repeat {} (from 0) of {}",
                trial.repeat, plan.repeats
            ));
        }
        if !trial
            .offered_rps
            .is_some_and(|rate| rate.is_finite() && rate > 0.0)
        {
            return Err("offered_rps of a trial of the sweep must be above 0".to_owned());
        }
    }
    if trial.phase == Phase::Capacity && trial.cell >= plan.settings() {
        return Err(format!(
            "cell {} of capacities under {} settings",
            trial.cell,
            plan.settings()
        ));
    }
    let setting = plan.setting_value(plan.setting_of(trial.phase, trial.cell));
    if trial.setting != setting {
        return Err(format!(
            "setting {:?} of cell {}, which has {setting:?}",
            trial.setting, trial.cell
        ));
    }
    match &trial.outcome {
        Outcome::Measured(measurement) => check_measurement(measurement),
        Outcome::Failed(_) => Ok(()),
    }
}

fn check_measurement(measurement: &Measurement) -> Result<(), String> {
    let not_negative = [
        ("achieved_rps", measurement.achieved_rps),
        ("generator_cpu", measurement.generator_cpu),
        ("outstanding_mean", measurement.outstanding_mean),
        ("outstanding_unread", measurement.outstanding_unread),
        ("outstanding_expected", measurement.outstanding_expected),
        (
            "cpu_ns_per_request",
            measurement.cost.map_or(0.0, |cost| cost.cpu_ns_per_request),
        ),
        ("hit_rate", measurement.hit_rate.unwrap_or(0.0)),
        ("saturating_rps", measurement.saturating_rps.unwrap_or(0.0)),
        (
            "bursts.mean",
            measurement.bursts.as_ref().map_or(0.0, |it| it.mean),
        ),
        ("generator_busy", measurement.generator_busy.unwrap_or(0.0)),
        (
            "stolen.server",
            measurement.stolen.map_or(0.0, |stolen| stolen.server),
        ),
        (
            "stolen.load",
            measurement.stolen.map_or(0.0, |stolen| stolen.load),
        ),
    ];
    match not_negative
        .iter()
        .find(|(_, value)| !value.is_finite() || *value < 0.0)
    {
        Some((name, value)) => Err(format!("{name} is {value}, must be a number not below 0")),
        None => Ok(()),
    }
}

fn read_bounded(path: &Path, limit: u64) -> Result<String, Error> {
    let bytes = fs::metadata(path)
        .map_err(|error| Error::read(path, error))?
        .len();
    if bytes > limit {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            bytes,
            limit,
        });
    }
    let file = File::open(path).map_err(|error| Error::read(path, error))?;
    // Bytes rather than text: an incomplete line may end within a character.
    let mut content = Vec::new();
    file.take(limit)
        .read_to_end(&mut content)
        .map_err(|error| Error::read(path, error))?;
    match String::from_utf8(content) {
        Ok(text) => Ok(text),
        Err(error) if error.utf8_error().error_len().is_none() => {
            Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        Err(error) => {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            Err(Error::content(
                path,
                line,
                "not UTF-8",
                "is this a run folder?",
            ))
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|&&byte| byte == b'\n')
        .count()
}
