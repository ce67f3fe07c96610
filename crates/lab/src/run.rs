//! A run: all trials of a plan, one after another, each kept as soon as it ends.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use report::folder::{Outcome, Phase, Plan, Trial};

use crate::error::Error;
use crate::host;
use crate::limits;
use crate::plan::order::{self, Slot};
use crate::plan::{self, Options, estimate};
use crate::progress::{Event, Progress, Reporter};
use crate::run_folder::{self, RunFolder};
use crate::trial::process::Watch;
use crate::trial::{self, Bench, Fault, Ports};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every trial is recorded.
    Complete,
    /// The user stopped it; the same command goes on where it stopped.
    Interrupted,
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The run folder.
    pub folder: PathBuf,
    /// How the run ended.
    pub ending: Ending,
    /// Trials of the plan.
    pub total: usize,
    /// Trials found recorded when the run began.
    pub kept: usize,
    /// Trials recorded by now, as measured.
    pub measured: usize,
    /// Trials recorded by now, as failed.
    pub failed: usize,
}

impl RunOutcome {
    /// The exit code for it: 0, 130 where the user stopped the run, 1 where nothing was measured.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            Ending::Interrupted => 130,
            Ending::Complete if self.measured == 0 => 1,
            Ending::Complete => 0,
        }
    }
}

/// Runs `plan`: takes up its newest unfinished run, or begins one, and makes every trial that is
/// not recorded yet. Nothing is drawn: that is `report`'s.
///
/// Call it from a thread that lives as long as the laboratory, before other threads are started:
/// the children die with the thread that started them, and SIGINT, SIGTERM and SIGHUP, which end
/// the run in order, are taken over in the calling thread only. They stay so afterwards.
///
/// # Errors
/// The run cannot begin (open files, another laboratory at work in its folder), or a record
/// cannot be written. What was recorded is kept.
pub fn run(
    plan: &Plan,
    options: &Options,
    reporter: &mut dyn Reporter,
) -> Result<RunOutcome, Error> {
    let watch = Watch::new()?;
    check_open_files(plan)?;
    let ports = Ports::new();
    let plan = with_versions(plan, options, &watch, &ports)?;
    let slots = order::trials(&plan);
    let host = host::inventory(&options.curtail)?;
    let (folder, done) = run_folder::open(&plan, &slots, &host, options)?;
    let kept = slots.iter().filter(|slot| is_done(&done, slot)).count();
    reporter.event(&Event::Began {
        plan: &plan,
        folder: folder.path(),
        total: slots.len(),
        kept,
    });
    let mut run = Run {
        bench: Bench {
            plan: &plan,
            curtail: &options.curtail,
            patience: options.patience,
            watch: &watch,
        },
        ports,
        folder,
        done,
        given_up: HashSet::new(),
        pace: Pace::default(),
    };
    let ending = run.make_all(&slots, reporter)?;
    let measured = |trial: &&Trial| matches!(trial.outcome, Outcome::Measured(_));
    let outcome = RunOutcome {
        folder: run.folder.path().to_owned(),
        ending,
        total: slots.len(),
        kept,
        measured: run.done.iter().filter(measured).count(),
        failed: run.done.iter().filter(|trial| !measured(trial)).count(),
    };
    reporter.event(&Event::Ended { outcome: &outcome });
    Ok(outcome)
}

fn check_open_files(plan: &Plan) -> Result<(), Error> {
    let loads = (0..plan.settings()).map(|setting| plan.load_at(setting));
    let connections = loads.map(|load| load.connections + load.greedy).max();
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

/// The plan with what every server says of its version: another version is another run.
fn with_versions(
    plan: &Plan,
    options: &Options,
    watch: &Watch,
    ports: &Ports,
) -> Result<Plan, Error> {
    let mut complete = plan.clone();
    let bench = Bench {
        plan,
        curtail: &options.curtail,
        patience: options.patience,
        watch,
    };
    for server in complete
        .servers
        .iter_mut()
        .filter(|server| server.skipped.is_none())
    {
        server.version = match trial::probe_version(&bench, ports, &server.command) {
            // This build answers `version` with the memcached it speaks like.
            Ok(Some(_)) if server.command.first().map(Path::new) == Some(&*options.curtail) => {
                Some(format!("{} (this build)", env!("CARGO_PKG_VERSION")))
            }
            Ok(version) => version,
            Err(Fault::Lab(error)) => return Err(error),
            Err(Fault::Stopped | Fault::Failed(_)) => return Err(Error::StoppedEarly),
        };
    }
    Ok(complete)
}

fn is_done(done: &[Trial], slot: &Slot) -> bool {
    done.iter().any(|trial| trial.id == slot.id)
}

/// How the reasons of trials that were not made begin.
const NOT_TRIED: &str = "not tried";

struct Run<'a> {
    bench: Bench<'a>,
    ports: Ports,
    folder: RunFolder,
    done: Vec<Trial>,
    /// Servers, and the setting, whose trials are no longer tried.
    given_up: HashSet<(usize, u32)>,
    pace: Pace,
}

impl Run<'_> {
    fn make_all(&mut self, slots: &[Slot], reporter: &mut dyn Reporter) -> Result<Ending, Error> {
        for slot in slots {
            if is_done(&self.done, slot) {
                continue;
            }
            if self.bench.watch.stopped() {
                return Ok(Ending::Interrupted);
            }
            let offered_rps = self.offered_rps(slot);
            if let Some(reason) = self.hopeless(slot, offered_rps) {
                self.give_up(slot, offered_rps, reason, reporter)?;
                continue;
            }
            let began = Instant::now();
            reporter.event(&Event::TrialBegan {
                plan: self.bench.plan,
                slot,
                offered_rps,
                progress: self.progress(slots),
            });
            let bench = &self.bench;
            let made = trial::make(bench, &self.ports, &self.folder, slot, offered_rps)?;
            let Some((trial, histograms)) = made else {
                return Ok(Ending::Interrupted);
            };
            self.pace.add(began.elapsed());
            self.folder.append(&trial, histograms.as_ref())?;
            self.done.push(trial);
            if let Some(trial) = self.done.last() {
                reporter.event(&Event::TrialEnded {
                    plan: self.bench.plan,
                    slot,
                    trial,
                    progress: self.progress(slots),
                });
            }
        }
        Ok(Ending::Complete)
    }

    /// Records a trial as failed without trying it; the first of a server under a setting is told.
    fn give_up(
        &mut self,
        slot: &Slot,
        offered_rps: Option<f64>,
        reason: String,
        reporter: &mut dyn Reporter,
    ) -> Result<(), Error> {
        let plan = self.bench.plan;
        if self.given_up.insert((slot.server, slot.setting)) {
            reporter.event(&Event::GivenUp {
                server: &plan.servers[slot.server].name,
                condition: plan.condition(slot.setting),
                reason: &reason,
            });
        }
        let trial = trial::unmade(plan, slot, offered_rps, Outcome::Failed(reason));
        self.folder.append(&trial, None)?;
        self.done.push(trial);
        Ok(())
    }

    fn offered_rps(&self, slot: &Slot) -> Option<f64> {
        let plan = self.bench.plan;
        if slot.phase == Phase::Capacity {
            return None;
        }
        let name = &plan.servers[slot.server].name;
        let capacity = plan::capacity_rps(&self.done, name, slot.setting);
        plan::offered_rps(plan, slot.cell, capacity)
    }

    /// Why the trial of `slot` need not be tried. What fails under one setting may not under
    /// another.
    fn hopeless(&self, slot: &Slot, offered_rps: Option<f64>) -> Option<String> {
        let plan = self.bench.plan;
        let name = &plan.servers[slot.server].name;
        let of_server = self.done.iter().rev().filter(|trial| {
            let setting = plan.setting_of(trial.phase, trial.cell);
            trial.server == *name && setting == slot.setting
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
        if slot.phase == Phase::Sweep && offered_rps.is_none() {
            return Some(format!(
                "{NOT_TRIED}: the rate is a share of the server's capacity, and none was \
                 measured{last}"
            ));
        }
        let bound = limits::CONSECUTIVE_FAILURES as usize;
        (failures.len() >= bound)
            .then(|| format!("{NOT_TRIED} after {bound} failures one after another{last}"))
    }

    fn progress(&self, slots: &[Slot]) -> Progress {
        let done = slots
            .iter()
            .filter(|slot| is_done(&self.done, slot))
            .count();
        let mean = self
            .pace
            .mean()
            .unwrap_or_else(|| estimate::trial(self.bench.plan));
        let left = u32::try_from(slots.len() - done).unwrap_or(u32::MAX);
        Progress {
            done,
            total: slots.len(),
            left: mean.saturating_mul(left),
        }
    }
}

/// How long trials take.
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
