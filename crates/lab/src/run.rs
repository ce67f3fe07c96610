//! Runs the trials of a plan in order, and records each.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use measure::median_of_trials;
use report::record::{Factors, Outcome, Plan, Record};

use crate::error::Error;
use crate::kind::{Context, Kind, Resolved, Trial, TrialError};
use crate::plan::estimate::{self, Pace};
use crate::plan::order::{self, PlannedTrial};
use crate::plan::text::{cell_text, factors_text};
use crate::plan::{Options, kind_of};
use crate::process::StopSignals;
use crate::progress::{Event, Progress, Reporter};
use crate::run_folder::{self, RunFolder};
use crate::{host, limits};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every trial is recorded.
    Complete,
    /// The user stopped the run; the same command resumes it.
    Interrupted,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The run folder.
    pub folder: PathBuf,
    /// How the run ended.
    pub ending: Ending,
    /// Trials that the plan may have.
    pub total: usize,
    /// Trials recorded by earlier runs in the folder.
    pub kept: usize,
    /// Recorded trials with a measurement.
    pub measured: usize,
    /// Recorded trials without one.
    pub failed: usize,
}

impl RunOutcome {
    /// The exit code: 130 if the user stopped the run, 1 if nothing was measured, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            Ending::Interrupted => 130,
            Ending::Complete if self.measured == 0 => 1,
            Ending::Complete => 0,
        }
    }
}

/// Runs the trials of `plan` that its run folder lacks.
///
/// Children are killed when the thread that started them ends; and SIGINT, SIGTERM and
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
    let mut kind = kind_of(plan, options)?;
    let before = Context {
        options,
        stop_signals: &stop_signals,
        folder: None,
    };
    let cells: Vec<Factors> = plan.stages.iter().flat_map(|it| it.cells.clone()).collect();
    kind.prepare(&cells, &before)?;
    let plan = Plan {
        settings: kind.settings()?,
        ..plan.clone()
    };
    let planned_trials = order::trials(&plan, &*kind);
    let host = host::inventory(&options.curtail)?;
    let (folder, done) = run_folder::open(&plan, &host, options)?;
    let kept = done.len();
    reporter.event(&Event::Began(began(
        &plan,
        &folder,
        planned_trials.len(),
        kept,
    )));
    let mut run = Run {
        plan: &plan,
        kind: &*kind,
        options,
        stop_signals: &stop_signals,
        folder,
        places: done.iter().map(|record| record.id.clone()).collect(),
        done,
        abandoned: HashSet::new(),
        likely: estimate::of_cells(&plan, &*kind),
        pace: Pace::default(),
    };
    let ending = run.run_all(&planned_trials, reporter)?;
    let measured = |record: &&Record| record.measured().is_some();
    let outcome = RunOutcome {
        folder: run.folder.path().to_owned(),
        ending,
        total: planned_trials.len(),
        kept,
        measured: run.done.iter().filter(measured).count(),
        failed: run.done.iter().filter(|record| !measured(record)).count(),
    };
    if ending == Ending::Complete {
        run.folder.finish()?;
    }
    reporter.event(&Event::Ended(ended(&outcome)));
    Ok(outcome)
}

fn began(plan: &Plan, folder: &RunFolder, total: usize, kept: usize) -> String {
    let quick = if plan.quick { " (quick)" } else { "" };
    let kept = match kept {
        0 => String::new(),
        kept => format!(", {kept} already recorded"),
    };
    let (name, folder) = (&plan.experiment, folder.path().display());
    let notes: String = plan
        .notes
        .iter()
        .map(|it| format!("\nnote: {it}"))
        .collect();
    format!("{name}{quick}: {total} trials{kept}, in {folder}{notes}")
}

fn ended(outcome: &RunOutcome) -> String {
    let recorded = outcome.measured + outcome.failed;
    let failed = match outcome.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let folder = outcome.folder.display();
    match outcome.ending {
        Ending::Complete => format!("all {recorded} trials recorded{failed}, in {folder}"),
        Ending::Interrupted => format!(
            "stopped: {recorded} of {} trials recorded{failed}, in {folder}; run the same \
             command to resume",
            outcome.total
        ),
    }
}

const NOT_TRIED: &str = "not tried";

struct Run<'a> {
    plan: &'a Plan,
    kind: &'a dyn Kind,
    options: &'a Options,
    stop_signals: &'a StopSignals,
    folder: RunFolder,
    done: Vec<Record>,
    places: HashSet<String>,
    abandoned: HashSet<String>,
    /// The estimate of each cell before the run, by stage.
    likely: Vec<Vec<Duration>>,
    pace: Pace,
}

impl Run<'_> {
    fn run_all(
        &mut self,
        planned_trials: &[PlannedTrial],
        reporter: &mut dyn Reporter,
    ) -> Result<Ending, Error> {
        for planned in planned_trials {
            if !self.is_left(planned, &mut HashMap::new()) {
                continue;
            }
            if self.stop_signals.stopped() {
                return Ok(Ending::Interrupted);
            }
            let stage = &self.plan.stages[planned.stage];
            let Some(factors) = stage.cells.get(planned.cell as usize) else {
                continue;
            };
            let resolved = self.kind.resolve_trial(&stage.name, factors, &self.done);
            let reason = match &resolved {
                Err(reason) => Some(format!("{NOT_TRIED}: {reason}{}", self.last(factors))),
                Ok(_) => self.skip_reason(factors),
            };
            let resolved = resolved.unwrap_or_default();
            if let Some(reason) = reason {
                self.abandon(planned, factors, &resolved, reason, reporter)?;
                continue;
            }
            let began = Instant::now();
            reporter.event(&Event::TrialBegan {
                cell: cell_text(self.plan, planned),
                expected: self.expected(planned),
                progress: self.progress(planned_trials),
            });
            let Some(record) = self.perform(planned, factors, &resolved)? else {
                return Ok(Ending::Interrupted);
            };
            self.pace
                .add(planned, began.elapsed(), self.likely(planned));
            self.append(record)?;
            if let Some(record) = self.done.last() {
                let result = record.measured().map(|it| self.kind.result(it));
                reporter.event(&Event::TrialEnded {
                    cell: cell_text(self.plan, planned),
                    record,
                    result: result.unwrap_or_default(),
                    progress: self.progress(planned_trials),
                });
            }
        }
        Ok(Ending::Complete)
    }

    /// Makes a trial, and again if it fails, up to the plan's number of retries. None: the user
    /// stopped it, and its children have been reaped.
    fn perform(
        &self,
        planned: &PlannedTrial,
        factors: &Factors,
        resolved: &Resolved,
    ) -> Result<Option<Record>, Error> {
        let context = Context {
            options: self.options,
            stop_signals: self.stop_signals,
            folder: Some(&self.folder),
        };
        let trial = Trial {
            id: &planned.id,
            factors,
            resolved: &resolved.settings,
            seed: planned.seed,
        };
        let mut record = self.record(planned, factors, resolved);
        loop {
            record.started_unix_ns = sys::clock::unix_ns();
            match self.kind.perform(&trial, &context) {
                Ok(performed) => {
                    record.outcome = Outcome::Measured(performed.measured);
                    record.notes.extend(performed.notes);
                }
                Err(TrialError::Failed(reason)) if record.retries < self.plan.retries => {
                    record.retries += 1;
                    let attempt = record.retries;
                    record
                        .notes
                        .push(format!("attempt {attempt} failed: {reason}"));
                    continue;
                }
                Err(TrialError::Failed(reason) | TrialError::Final(reason)) => {
                    record.outcome = Outcome::Failed(reason);
                }
                Err(TrialError::StopRequested) => return Ok(None),
                Err(TrialError::Run(error)) => return Err(error),
            }
            return Ok(Some(record));
        }
    }

    fn record(&self, planned: &PlannedTrial, factors: &Factors, resolved: &Resolved) -> Record {
        Record {
            id: planned.id.clone(),
            stage: self.plan.stages[planned.stage].name.clone(),
            cell: planned.cell,
            repeat: planned.repeat,
            retries: 0,
            factors: factors.clone(),
            resolved: resolved.settings.clone(),
            started_unix_ns: sys::clock::unix_ns(),
            outcome: Outcome::Failed(NOT_TRIED.to_owned()),
            notes: resolved.notes.clone(),
        }
    }

    fn append(&mut self, record: Record) -> Result<(), Error> {
        self.folder.append(&record)?;
        self.places.insert(record.id.clone());
        self.done.push(record);
        Ok(())
    }

    /// Records a trial as failed without trying it, and reports the first one of its group.
    fn abandon(
        &mut self,
        planned: &PlannedTrial,
        factors: &Factors,
        resolved: &Resolved,
        reason: String,
        reporter: &mut dyn Reporter,
    ) -> Result<(), Error> {
        let group = factors_text(self.plan, &self.kind.group(factors));
        if self.abandoned.insert(group.clone()) {
            let text = format!("{group}: remaining trials abandoned: {reason}");
            reporter.event(&Event::Abandoned(text));
        }
        let mut record = self.record(planned, factors, resolved);
        record.outcome = Outcome::Failed(reason);
        self.append(record)
    }

    /// Whether a trial is still to be made: it is not done, and its cell has too few trials or an
    /// interval that is not narrow. `narrow` holds what is known of cells already.
    fn is_left(&self, planned: &PlannedTrial, narrow: &mut HashMap<(usize, u32), bool>) -> bool {
        let cell = (planned.stage, planned.cell);
        let least = self.plan.stages[planned.stage].repeats.least;
        let mut is_narrow = || {
            *narrow
                .entry(cell)
                .or_insert_with(|| self.is_narrow(cell.0, cell.1))
        };
        !self.places.contains(&planned.id) && (planned.repeat < least || !is_narrow())
    }

    /// Whether the interval of a cell is as narrow as its stage demands.
    ///
    /// The interval is that of [`median_of_trials`]; it is looked at after each trial beyond the
    /// least number, so its coverage is somewhat below 95 % (the report says so). A cell with a
    /// lower bound among its values never has enough.
    fn is_narrow(&self, stage: usize, cell: u32) -> bool {
        let stage = &self.plan.stages[stage];
        let Some(until) = &stage.repeats.until else {
            return false;
        };
        let of_cell = self
            .done
            .iter()
            .filter(|it| it.stage == stage.name && it.cell == cell);
        let mut values = Vec::new();
        for measured in of_cell.filter_map(|it| it.measured()) {
            // The upper end of the interval may be any value above a lower bound.
            if measured.is_lower_bound(&until.metric) {
                return false;
            }
            values.extend(measured.valid(&until.metric));
        }
        median_of_trials(&values, CONFIDENCE).is_some_and(|it| {
            let width = it.interval.high - it.interval.low;
            it.interval.confidence >= CONFIDENCE - 0.001 && width <= until.width * it.value.abs()
        })
    }

    /// The consecutive failures of the trial's group, the latest first.
    fn failures(&self, factors: &Factors) -> Vec<&str> {
        let group = self.kind.group(factors);
        let of_group = self
            .done
            .iter()
            .rev()
            .filter(|it| self.kind.group(&it.factors) == group);
        of_group.map_while(Record::failure).collect()
    }

    /// The reason of the latest failure that was tried, as the end of a sentence.
    fn last(&self, factors: &Factors) -> String {
        let failures = self.failures(factors);
        let mut tried = failures.iter().filter(|it| !it.starts_with(NOT_TRIED));
        let last = tried.next();
        last.map_or_else(String::new, |last| format!("; the last trial: {last}"))
    }

    /// Why a trial is not tried. Failures of one group do not affect another.
    fn skip_reason(&self, factors: &Factors) -> Option<String> {
        let bound = limits::CONSECUTIVE_FAILURES as usize;
        (self.failures(factors).len() >= bound).then(|| {
            let last = self.last(factors);
            format!("{NOT_TRIED} after {bound} consecutive failures{last}")
        })
    }

    fn likely(&self, trial: &PlannedTrial) -> Duration {
        let cell = self.likely[trial.stage].get(trial.cell as usize);
        cell.copied().unwrap_or_default()
    }

    fn expected(&self, trial: &PlannedTrial) -> Duration {
        self.pace.of(trial, self.likely(trial))
    }

    fn progress(&self, planned_trials: &[PlannedTrial]) -> Progress {
        // Each cell's interval once, not once a trial.
        let mut narrow = HashMap::new();
        let left = planned_trials.iter();
        let left: Vec<_> = left.filter(|it| self.is_left(it, &mut narrow)).collect();
        let time = left.iter().map(|it| self.expected(it));
        Progress {
            done: self.done.len(),
            total: self.done.len() + left.len(),
            left: time.fold(Duration::ZERO, Duration::saturating_add),
        }
    }
}

/// Confidence of the interval that ends the repeats of a cell.
const CONFIDENCE: f64 = 0.95;
