//! One trial: start the server, prefill and load it, read its resource usage, stop it.
//!
//! A failure of the server or the generator is the trial's result. Only the user and an unusable
//! run folder or system end the run.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use report::folder::{Outcome, Plan, Stolen, Trial, TrialHistograms};
use sys::machine::Ticks;

use crate::error::Error;
use crate::limits::{self, Timeouts};
use crate::plan::order::PlannedTrial;
use crate::run_folder::RunFolder;

mod generator;
mod port;
pub(crate) mod process;
mod process_guard;
mod server;
mod summary;

pub(crate) use port::Ports;
pub(crate) use server::probe_version;

use process::StopSignals;

/// Why a trial has no measurement.
#[derive(Debug)]
pub(crate) enum TrialError {
    /// The trial failed; the run continues.
    Failed(String),
    /// The user requested a stop.
    StopRequested,
    /// The run cannot continue.
    Run(Error),
}

impl From<Error> for TrialError {
    fn from(error: Error) -> Self {
        Self::Run(error)
    }
}

/// The context that all trials of a run share.
pub(crate) struct TrialContext<'a> {
    pub(crate) plan: &'a Plan,
    /// The program with `load`.
    pub(crate) curtail: &'a Path,
    pub(crate) timeouts: Timeouts,
    pub(crate) stop_signals: &'a StopSignals,
}

/// A trial's record and, if it was measured, its histograms.
pub(crate) type RecordedTrial = (Trial, Option<TrialHistograms>);

/// Runs the trial `planned` at `offered_rps` (none: closed loop at full rate).
/// None: the user stopped it, and its children have been reaped.
pub(crate) fn perform(
    context: &TrialContext<'_>,
    ports: &Ports,
    folder: &RunFolder,
    planned: &PlannedTrial,
    offered_rps: Option<f64>,
) -> Result<Option<RecordedTrial>, Error> {
    let started_unix_ns = sys::clock::unix_ns();
    let mut notes = Vec::new();
    let (outcome, histograms) =
        match measure(context, ports, folder, planned, offered_rps, &mut notes) {
            Ok((measurement, histograms)) => (Outcome::Measured(measurement), Some(histograms)),
            Err(TrialError::Failed(reason)) => (Outcome::Failed(reason), None),
            Err(TrialError::StopRequested) => return Ok(None),
            Err(TrialError::Run(error)) => return Err(error),
        };
    let mut trial = record(context.plan, planned, offered_rps, outcome);
    trial.started_unix_ns = started_unix_ns;
    trial.notes = notes;
    Ok(Some((trial, histograms)))
}

/// The record of a trial with the current time as its start.
pub(crate) fn record(
    plan: &Plan,
    planned: &PlannedTrial,
    offered_rps: Option<f64>,
    outcome: Outcome,
) -> Trial {
    Trial {
        id: planned.id.clone(),
        phase: planned.phase,
        server: plan.servers[planned.server].name.clone(),
        cell: planned.cell,
        repeat: planned.repeat,
        setting: plan.setting_value(planned.setting),
        level: planned.level,
        offered_rps,
        started_unix_ns: sys::clock::unix_ns(),
        outcome,
        notes: Vec::new(),
    }
}

fn measure(
    context: &TrialContext<'_>,
    ports: &Ports,
    folder: &RunFolder,
    planned: &PlannedTrial,
    offered_rps: Option<f64>,
    notes: &mut Vec<String>,
) -> Result<summary::Measured, TrialError> {
    let plan = context.plan;
    let log = folder.log(&planned.id, "server");
    let command = &plan.servers[planned.server].command;
    let port = ports.next()?;
    let server = server::start(context, command, port, Some(&log))?;
    let ticks = || [&plan.server_cpus, &plan.load_cpus].map(|cpus| Ticks::now(cpus));
    let before = ticks();
    let mut measured = generator::run(context, folder, planned, &server, offered_rps);
    if let Ok((measurement, _)) = &mut measured {
        measurement.stolen = stolen(before, ticks());
    }
    // The server is stopped in any case; its failure explains that of the generator.
    let abnormal = matches!(measured, Err(TrialError::Failed(_)));
    match server.stop(context, abnormal)? {
        server::ServerExit::Clean => {}
        server::ServerExit::Abnormal(note) => notes.push(note),
        server::ServerExit::Early(status) => {
            if matches!(
                measured,
                Err(TrialError::StopRequested | TrialError::Run(_))
            ) {
                return measured;
            }
            let reason = format!("the server exited during the trial ({status})");
            return Err(TrialError::Failed(with_last_lines(&reason, &log)));
        }
    }
    measured
}

/// Steal time on the server's and the generator's processors.
fn stolen(before: [Option<Ticks>; 2], after: [Option<Ticks>; 2]) -> Option<Stolen> {
    let share = |index: usize| after[index]?.stolen_since(before[index]?);
    Some(Stolen {
        server: share(0)?,
        load: share(1)?,
    })
}

/// `reason`, followed by the last lines of a child's output.
fn with_last_lines(reason: &str, log: &Path) -> String {
    let tail = read_tail(log, limits::QUOTED_LEN).unwrap_or_default();
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(limits::QUOTED_LINES)..];
    if last.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}: {}", last.join(" | "))
    }
}

fn read_tail(path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(len_max)))?;
    let mut tail = Vec::new();
    file.take(len_max).read_to_end(&mut tail)?;
    Ok(tail)
}
