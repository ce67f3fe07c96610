//! A run: all trials of a plan, one after another, each recorded as soon as it ends.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use report::folder::{Outcome, Phase, Plan, Trial};

use crate::error::Error;
use crate::host;
use crate::limits;
use crate::plan::order::{self, PlannedTrial};
use crate::plan::{self, Options, estimate};
use crate::progress::{Event, Progress, Reporter};
use crate::run_folder::{self, RunFolder};
use crate::trial::process::StopSignals;
use crate::trial::{self, Ports, TrialContext, TrialError};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every trial is recorded.
    Complete,
    /// The user stopped it; the same command resumes it.
    Interrupted,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The run folder.
    pub folder: PathBuf,
    /// How the run ended.
    pub ending: Ending,
    /// Trials of the plan.
    pub total: usize,
    /// Trials already recorded when the run began.
    pub kept: usize,
    /// Trials recorded as measured, in total.
    pub measured: usize,
    /// Trials recorded as failed, in total.
    pub failed: usize,
}

impl RunOutcome {
    /// The exit code: 130 if the user stopped the run, 1 if no trial was measured, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            Ending::Interrupted => 130,
            Ending::Complete if self.measured == 0 => 1,
            Ending::Complete => 0,
        }
    }
}

/// Runs `plan`: resumes its newest unfinished run, or begins a new one, and performs every trial
/// that is not recorded yet. It draws nothing; the `report` crate does.
///
/// Call it from a thread that lives as long as the lab, before other threads are started. The
/// kernel kills the children when the thread that started them ends; and SIGINT, SIGTERM and
/// SIGHUP, which stop the run in order, are blocked in the calling thread only. They remain blocked
/// afterwards.
///
/// # Errors
/// The run cannot begin (too few open files, another lab in its folder), or a record cannot be
/// written. Earlier records are kept.
pub fn run(
    plan: &Plan,
    options: &Options,
    reporter: &mut dyn Reporter,
) -> Result<RunOutcome, Error> {
    let stop_signals = StopSignals::new()?;
    check_open_files(plan)?;
    let ports = Ports::new();
    let plan = with_versions(plan, options, &stop_signals, &ports)?;
    let planned_trials = order::trials(&plan);
    let host = host::inventory(&options.curtail)?;
    let (folder, done) = run_folder::open(&plan, &planned_trials, &host, options)?;
    let kept = planned_trials
        .iter()
        .filter(|planned| is_done(&done, planned))
        .count();
    reporter.event(&Event::Began {
        plan: &plan,
        folder: folder.path(),
        total: planned_trials.len(),
        kept,
    });
    let mut run = Run {
        context: TrialContext {
            plan: &plan,
            curtail: &options.curtail,
            timeouts: options.timeouts,
            stop_signals: &stop_signals,
        },
        ports,
        folder,
        done,
        abandoned: HashSet::new(),
        pace: Pace::default(),
    };
    let ending = run.run_all(&planned_trials, reporter)?;
    let measured = |trial: &&Trial| matches!(trial.outcome, Outcome::Measured(_));
    let outcome = RunOutcome {
        folder: run.folder.path().to_owned(),
        ending,
        total: planned_trials.len(),
        kept,
        measured: run.done.iter().filter(measured).count(),
        failed: run.done.iter().filter(|trial| !measured(trial)).count(),
    };
    reporter.event(&Event::Ended { outcome: &outcome });
    Ok(outcome)
}

fn check_open_files(plan: &Plan) -> Result<(), Error> {
    let loads = (0..plan.settings()).map(|setting| plan.load_at(setting));
    let connections = loads.map(|load| load.connections + load.saturating).max();
    let connections = connections.unwrap_or_default();
    let needed = u64::from(connections) + limits::OTHER_FILES;
    let limit = sys::limits::raise_open_files(needed);
    if limit < needed {
        return Err(Error::OpenFiles {
            connections,
            needed,
            limit,
        });
    }
    Ok(())
}

/// The plan with every server's version: a different version makes a different run.
fn with_versions(
    plan: &Plan,
    options: &Options,
    stop_signals: &StopSignals,
    ports: &Ports,
) -> Result<Plan, Error> {
    let mut complete = plan.clone();
    let context = TrialContext {
        plan,
        curtail: &options.curtail,
        timeouts: options.timeouts,
        stop_signals,
    };
    for server in complete
        .servers
        .iter_mut()
        .filter(|server| server.skipped.is_none())
    {
        server.version = match trial::probe_version(&context, ports, &server.command) {
            // This build replies to `version` with the memcached version it is compatible with.
            Ok(Some(_)) if server.command.first().map(Path::new) == Some(&*options.curtail) => {
                Some(format!("{} (this build)", env!("CARGO_PKG_VERSION")))
            }
            Ok(version) => version,
            Err(TrialError::Run(error)) => return Err(error),
            Err(TrialError::StopRequested | TrialError::Failed(_)) => {
                return Err(Error::StoppedEarly);
            }
        };
    }
    Ok(complete)
}

fn is_done(done: &[Trial], planned: &PlannedTrial) -> bool {
    done.iter().any(|trial| trial.id == planned.id)
}

/// Prefix of the reasons of trials that were not tried.
const NOT_TRIED: &str = "not tried";

struct Run<'a> {
    context: TrialContext<'a>,
    ports: Ports,
    folder: RunFolder,
    done: Vec<Trial>,
    /// (server, setting) pairs whose trials are no longer tried.
    abandoned: HashSet<(usize, u32)>,
    pace: Pace,
}

impl Run<'_> {
    fn run_all(
        &mut self,
        planned_trials: &[PlannedTrial],
        reporter: &mut dyn Reporter,
    ) -> Result<Ending, Error> {
        for planned in planned_trials {
            if is_done(&self.done, planned) {
                continue;
            }
            if self.context.stop_signals.stopped() {
                return Ok(Ending::Interrupted);
            }
            let offered_rps = self.offered_rps(planned);
            if let Some(reason) = self.skip_reason(planned, offered_rps) {
                self.abandon(planned, offered_rps, reason, reporter)?;
                continue;
            }
            let began = Instant::now();
            reporter.event(&Event::TrialBegan {
                plan: self.context.plan,
                planned,
                offered_rps,
                progress: self.progress(planned_trials),
            });
            let context = &self.context;
            let made = trial::perform(context, &self.ports, &self.folder, planned, offered_rps)?;
            let Some((trial, histograms)) = made else {
                return Ok(Ending::Interrupted);
            };
            self.pace.add(began.elapsed());
            self.folder.append(&trial, histograms.as_ref())?;
            self.done.push(trial);
            if let Some(trial) = self.done.last() {
                reporter.event(&Event::TrialEnded {
                    plan: self.context.plan,
                    planned,
                    trial,
                    progress: self.progress(planned_trials),
                });
            }
        }
        Ok(Ending::Complete)
    }

    /// Records a trial as failed without trying it, and reports the first one of a server under a
    /// setting.
    fn abandon(
        &mut self,
        planned: &PlannedTrial,
        offered_rps: Option<f64>,
        reason: String,
        reporter: &mut dyn Reporter,
    ) -> Result<(), Error> {
        let plan = self.context.plan;
        if self.abandoned.insert((planned.server, planned.setting)) {
            reporter.event(&Event::Abandoned {
                server: &plan.servers[planned.server].name,
                condition: plan.condition(planned.setting),
                reason: &reason,
            });
        }
        let trial = trial::record(plan, planned, offered_rps, Outcome::Failed(reason));
        self.folder.append(&trial, None)?;
        self.done.push(trial);
        Ok(())
    }

    fn offered_rps(&self, planned: &PlannedTrial) -> Option<f64> {
        let plan = self.context.plan;
        if planned.phase == Phase::Capacity {
            return None;
        }
        let name = &plan.servers[planned.server].name;
        let capacity = plan::capacity_rps(&self.done, name, planned.setting);
        plan::offered_rps(plan, planned.cell, capacity)
    }

    /// Why the trial `planned` is not tried. Failures under one setting do not affect another.
    fn skip_reason(&self, planned: &PlannedTrial, offered_rps: Option<f64>) -> Option<String> {
        let plan = self.context.plan;
        let name = &plan.servers[planned.server].name;
        let of_server = self.done.iter().rev().filter(|trial| {
            let setting = plan.setting_of(trial.phase, trial.cell);
            trial.server == *name && setting == planned.setting
        });
        let failures: Vec<&str> = of_server
            .map_while(|trial| match &trial.outcome {
                Outcome::Failed(reason) => Some(reason.as_str()),
                Outcome::Measured(_) => None,
            })
            .collect();
        let tried = failures
            .iter()
            .find(|reason| !reason.starts_with(NOT_TRIED));
        let last = tried.map_or_else(String::new, |reason| format!("; the last trial: {reason}"));
        if planned.phase == Phase::Sweep && offered_rps.is_none() {
            return Some(format!(
                "{NOT_TRIED}: the rate is a share of the server's capacity, and none was \
                 measured{last}"
            ));
        }
        let bound = limits::CONSECUTIVE_FAILURES as usize;
        (failures.len() >= bound)
            .then(|| format!("{NOT_TRIED} after {bound} consecutive failures{last}"))
    }

    fn progress(&self, planned_trials: &[PlannedTrial]) -> Progress {
        let done = planned_trials
            .iter()
            .filter(|planned| is_done(&self.done, planned))
            .count();
        let mean = self
            .pace
            .mean()
            .unwrap_or_else(|| estimate::trial(self.context.plan));
        let left = u32::try_from(planned_trials.len() - done).unwrap_or(u32::MAX);
        Progress {
            done,
            total: planned_trials.len(),
            left: mean.saturating_mul(left),
        }
    }
}

/// Mean duration of the trials so far.
#[derive(Debug, Default)]
struct Pace {
    trials: u32,
    spent: Duration,
}

impl Pace {
    fn add(&mut self, spent: Duration) {
        self.trials += 1;
        self.spent += spent;
    }

    fn mean(&self) -> Option<Duration> {
        self.spent.checked_div(self.trials)
    }
}
