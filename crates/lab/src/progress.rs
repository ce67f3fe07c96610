//! Progress of a run: one stream of events, and two reporters for it.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use report::record::{Plan, Record};
use units::duration_text;

use crate::plan::order::PlannedTrial;
use crate::plan::text::cell_text;
use crate::run::{Ending, RunOutcome};

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Trials recorded.
    pub done: usize,
    /// Trials of the plan.
    pub total: usize,
    /// Time left, as the trials so far suggest.
    pub left: Duration,
}

/// An event of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run folder is open.
    Began {
        /// The effective plan, with versions.
        plan: &'a Plan,
        /// The run folder.
        folder: &'a Path,
        /// Trials of the plan.
        total: usize,
        /// Trials that were recorded already.
        kept: usize,
    },
    /// A trial begins.
    TrialBegan {
        /// The effective plan.
        plan: &'a Plan,
        /// The trial.
        planned: &'a PlannedTrial,
        /// How long it will take, probably.
        expected: Duration,
        /// Progress before it.
        progress: Progress,
    },
    /// A trial is recorded.
    TrialEnded {
        /// The effective plan.
        plan: &'a Plan,
        /// The trial.
        planned: &'a PlannedTrial,
        /// Its record.
        record: &'a Record,
        /// Its result in a few words. Empty: it failed.
        result: String,
        /// Progress after it.
        progress: Progress,
    },
    /// The remaining trials of a group are recorded as failed without being tried.
    Abandoned {
        /// The factors that the trials have in common, as text.
        group: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// The run is over.
    Ended {
        /// Its outcome.
        outcome: &'a RunOutcome,
    },
}

/// Receives the events of a run.
pub trait Reporter {
    /// Called at each event, in order, from the thread that runs the trials.
    fn event(&mut self, event: &Event<'_>);
}

/// The reporter for standard error: a progress bar on a terminal, else one line per trial.
#[must_use]
pub fn for_stderr() -> Box<dyn Reporter> {
    if io::stderr().is_terminal() {
        Box::new(BarReporter::new())
    } else {
        Box::new(LineReporter::new(io::stderr()))
    }
}

/// Reports one line per trial.
#[derive(Debug)]
pub struct LineReporter<W> {
    out: W,
}

impl<W: Write> LineReporter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> Reporter for LineReporter<W> {
    fn event(&mut self, event: &Event<'_>) {
        let text = match event {
            Event::TrialBegan { .. } => return,
            Event::TrialEnded { progress, .. } => {
                format!("{} · {} left", lines(event), duration_text(progress.left))
            }
            Event::Began { .. } | Event::Abandoned { .. } | Event::Ended { .. } => lines(event),
        };
        // A failed write of progress does not stop the measurement.
        let _ = writeln!(self.out, "{text}");
    }
}

/// A progress bar with the current trial and the time left; failures are printed above it.
#[derive(Debug)]
pub struct BarReporter {
    bar: ProgressBar,
}

impl BarReporter {
    /// Writes to standard error.
    #[must_use]
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar:.cyan/dim} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }
}

impl Default for BarReporter {
    fn default() -> Self {
        Self::new()
    }
}

impl Reporter for BarReporter {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { total, kept, .. } => {
                self.bar.println(lines(event));
                self.bar.set_length(*total as u64);
                self.bar.set_position(*kept as u64);
            }
            Event::TrialBegan {
                plan,
                planned,
                progress,
                ..
            } => self.bar.set_message(format!(
                "{} · {} left",
                cell_text(plan, planned),
                duration_text(progress.left),
            )),
            Event::TrialEnded {
                record, progress, ..
            } => {
                if record.measured().is_none() || !record.notes.is_empty() {
                    self.bar.println(lines(event));
                }
                // The number of trials may depend on the results.
                self.bar.set_length(progress.total as u64);
                self.bar.set_position(progress.done as u64);
            }
            Event::Abandoned { .. } => self.bar.println(lines(event)),
            Event::Ended { .. } => {
                self.bar.println(lines(event));
                self.bar.finish_and_clear();
            }
        }
    }
}

/// An event as text.
fn lines(event: &Event<'_>) -> String {
    match event {
        Event::Began {
            plan,
            folder,
            total,
            kept,
        } => began(plan, folder, *total, *kept),
        Event::TrialBegan { plan, planned, .. } => cell_text(plan, planned),
        Event::TrialEnded {
            plan,
            planned,
            record,
            result,
            progress,
        } => {
            let mut text = format!(
                "{:>width$}/{}  {:<28} ",
                progress.done,
                progress.total,
                cell_text(plan, planned),
                width = progress.total.to_string().len(),
            );
            match record.failure() {
                Some(reason) => text.push_str(&format!("failed: {reason}")),
                None => text.push_str(&result.replace('\u{a0}', " ")),
            }
            for note in &record.notes {
                text.push_str("; ");
                text.push_str(note);
            }
            text
        }
        Event::Abandoned { group, reason } => {
            format!("{group}: remaining trials abandoned: {reason}")
        }
        Event::Ended { outcome } => ended(outcome),
    }
}

fn began(plan: &Plan, folder: &Path, total: usize, kept: usize) -> String {
    let quick = if plan.quick { " (quick)" } else { "" };
    let taken_up = if kept > 0 {
        format!(", {kept} already recorded")
    } else {
        String::new()
    };
    let mut text = format!(
        "{}{quick}: {total} trials{taken_up}, in {}",
        plan.experiment,
        folder.display()
    );
    for note in &plan.notes {
        text.push_str("\nnote: ");
        text.push_str(note);
    }
    text
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
