//! One trial: start the server, fill and load it, read what it paid, stop it.
//!
//! Whatever goes wrong with the server or the generator is the trial's result. Only two things
//! end the run: the user, and a run folder that cannot be written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use report::folder::{Outcome, Plan, Stolen, Trial, TrialHistograms};
use sys::machine::Ticks;

use crate::error::Error;
use crate::limits::{self, Patience};
use crate::plan::order::Slot;
use crate::run_folder::RunFolder;

mod generator;
mod keeper;
mod port;
pub(crate) mod process;
mod server;
mod summary;

pub(crate) use port::Ports;
pub(crate) use server::probe_version;

use process::Watch;

/// Why a trial has no measurement.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The trial failed; the run goes on.
    Failed(String),
    /// The user wants to stop.
    Stopped,
    /// The run cannot go on.
    Lab(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Lab(error)
    }
}

/// What every trial of a run needs.
pub(crate) struct Bench<'a> {
    pub(crate) plan: &'a Plan,
    /// The program with `load`.
    pub(crate) curtail: &'a Path,
    pub(crate) patience: Patience,
    pub(crate) watch: &'a Watch,
}

/// A trial's record, and what it measured in full.
pub(crate) type Made = (Trial, Option<TrialHistograms>);

/// Makes the trial of `slot` at `offered_rps` (none: infinite demand). None: the user stopped it,
/// and its children are gone.
pub(crate) fn make(
    bench: &Bench<'_>,
    ports: &Ports,
    folder: &RunFolder,
    slot: &Slot,
    offered_rps: Option<f64>,
) -> Result<Option<Made>, Error> {
    let started_unix_ns = sys::clock::unix_ns();
    let mut notes = Vec::new();
    let (outcome, histograms) = match measure(bench, ports, folder, slot, offered_rps, &mut notes) {
        Ok((measurement, histograms)) => (Outcome::Measured(measurement), Some(histograms)),
        Err(Fault::Failed(reason)) => (Outcome::Failed(reason), None),
        Err(Fault::Stopped) => return Ok(None),
        Err(Fault::Lab(error)) => return Err(error),
    };
    let mut trial = unmade(bench.plan, slot, offered_rps, outcome);
    trial.started_unix_ns = started_unix_ns;
    trial.notes = notes;
    Ok(Some((trial, histograms)))
}

/// The record of a trial that begins and ends now.
pub(crate) fn unmade(
    plan: &Plan,
    slot: &Slot,
    offered_rps: Option<f64>,
    outcome: Outcome,
) -> Trial {
    Trial {
        id: slot.id.clone(),
        phase: slot.phase,
        server: plan.servers[slot.server].name.clone(),
        cell: slot.cell,
        repeat: slot.repeat,
        setting: plan.value(slot.setting),
        level: slot.level,
        offered_rps,
        started_unix_ns: sys::clock::unix_ns(),
        outcome,
        notes: Vec::new(),
    }
}

fn measure(
    bench: &Bench<'_>,
    ports: &Ports,
    folder: &RunFolder,
    slot: &Slot,
    offered_rps: Option<f64>,
    notes: &mut Vec<String>,
) -> Result<summary::Measured, Fault> {
    let plan = bench.plan;
    let log = folder.log(&slot.id, "server");
    let command = &plan.servers[slot.server].command;
    let port = ports.next()?;
    let server = server::start(bench, command, port, Some(&log))?;
    let ticks = || [&plan.server_cpus, &plan.load_cpus].map(|cpus| Ticks::now(cpus));
    let before = ticks();
    let mut measured = generator::run(bench, folder, slot, &server, offered_rps);
    if let Ok((measurement, _)) = &mut measured {
        measurement.stolen = stolen(before, ticks());
    }
    // Stopped in any case; what the server did wrong explains what the generator saw.
    let amiss = matches!(measured, Err(Fault::Failed(_)));
    match server.stop(bench, amiss)? {
        server::End::InOrder => {}
        server::End::Amiss(note) => notes.push(note),
        server::End::Early(status) => {
            if matches!(measured, Err(Fault::Stopped | Fault::Lab(_))) {
                return measured;
            }
            let reason = format!("the server ended during the trial ({status})");
            return Err(Fault::Failed(with_last_lines(&reason, &log)));
        }
    }
    measured
}

/// What the host took of (server's, generator's) processors.
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
