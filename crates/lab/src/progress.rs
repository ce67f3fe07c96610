//! Progress of a run: one stream of events, and two reporters for it.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use report::record::Record;
use units::duration_text;

use crate::limits;

/// Progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// The run folder is open; in words.
    Began(String),
    /// A trial begins.
    TrialBegan {
        /// Its cell, in words.
        cell: String,
        /// How long it will take, probably.
        expected: Duration,
        /// Progress before it.
        progress: Progress,
    },
    /// A trial is recorded.
    TrialEnded {
        /// Its cell, in words.
        cell: String,
        /// Its record.
        record: &'a Record,
        /// Its result in a few words. Empty: it failed.
        result: String,
        /// Progress after it.
        progress: Progress,
    },
    /// The remaining trials of a group are recorded as failed without being tried; in words.
    Abandoned(String),
    /// The run is over; in words.
    Ended(String),
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
            Event::TrialEnded {
                cell,
                record,
                result,
                progress,
            } => {
                let line = line(cell, record, result, *progress);
                format!("{line} · {} left", duration_text(progress.left))
            }
            Event::Began(text) | Event::Abandoned(text) | Event::Ended(text) => text.clone(),
        };
        // A failed write of progress does not stop the measurement.
        let _ = writeln!(self.out, "{text}");
    }
}

/// A bar that moves during a trial, with the current cell, the last result and the time left.
/// Failures and notes are printed above it.
#[derive(Debug)]
pub struct BarReporter {
    bar: ProgressBar,
    shown: Arc<Mutex<Shown>>,
    /// Dropping it ends the thread that moves the bar.
    moving: Option<Sender<()>>,
}

/// What the bar shows.
#[derive(Debug)]
struct Shown {
    cell: String,
    last: String,
    progress: Progress,
    began: Instant,
    expected: Duration,
}

/// Parts of a trial on the bar.
const PARTS: u64 = 1_000;

impl Shown {
    /// The place of the bar, in parts of a trial. A trial that takes longer than expected waits
    /// before its end.
    fn position(&self, elapsed: Duration) -> u64 {
        let share = elapsed.as_secs_f64() / self.expected.as_secs_f64();
        let share = match share.is_finite() {
            true => share.min(0.95),
            false => 0.0,
        };
        self.progress.done as u64 * PARTS + (share * PARTS as f64) as u64
    }

    fn message(&self) -> String {
        match self.last.as_str() {
            "" => self.cell.clone(),
            last => format!("{} · last: {last}", self.cell),
        }
    }

    /// The trials, and the time left, of which the current trial has used `elapsed`.
    fn prefix(&self, elapsed: Duration) -> String {
        let Progress { done, total, left } = self.progress;
        let left = left.saturating_sub(elapsed.min(self.expected));
        format!("{done}/{total} · {} left", duration_text(left))
    }

    fn draw(&self, bar: &ProgressBar) {
        let elapsed = self.began.elapsed();
        // The number of trials may depend on the results.
        bar.set_length(self.progress.total as u64 * PARTS);
        bar.set_position(self.position(elapsed));
        bar.set_prefix(self.prefix(elapsed));
        bar.set_message(self.message());
    }
}

impl BarReporter {
    /// Writes to standard error.
    #[must_use]
    pub fn new() -> Self {
        let bar = ProgressBar::new(1);
        let template = "{wide_msg}\n{wide_bar:.cyan/dim} {prefix}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let shown = Shown {
            cell: String::new(),
            last: String::new(),
            progress: Progress::default(),
            began: Instant::now(),
            expected: Duration::ZERO,
        };
        Self {
            bar,
            shown: Arc::new(Mutex::new(shown)),
            moving: None,
        }
    }

    fn update(&self, change: impl FnOnce(&mut Shown)) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut shown);
        shown.draw(&self.bar);
    }

    /// Starts the thread that moves the bar. It begins within the run, so that it has the run's
    /// signals blocked.
    fn start(&mut self) {
        let (moving, ended) = mpsc::channel();
        let (bar, shown) = (self.bar.clone(), Arc::clone(&self.shown));
        thread::spawn(move || {
            while ended.recv_timeout(limits::BAR_GAP) == Err(RecvTimeoutError::Timeout) {
                let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                shown.draw(&bar);
            }
        });
        self.moving = Some(moving);
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
            Event::Began(text) => {
                self.bar.println(text);
                self.start();
            }
            Event::TrialBegan {
                cell,
                expected,
                progress,
            } => self.update(|shown| {
                shown.cell.clone_from(cell);
                shown.progress = *progress;
                shown.began = Instant::now();
                shown.expected = *expected;
            }),
            Event::TrialEnded {
                cell,
                record,
                result,
                progress,
            } => {
                if record.measured().is_none() || !record.notes.is_empty() {
                    self.bar.println(line(cell, record, result, *progress));
                }
                self.update(|shown| {
                    shown.last = match record.failure() {
                        Some(_) => "failed".to_owned(),
                        None => result.replace('\u{a0}', " "),
                    };
                    shown.progress = *progress;
                    shown.expected = Duration::ZERO;
                });
            }
            Event::Abandoned(text) => self.bar.println(text),
            Event::Ended(text) => {
                self.moving = None;
                self.bar.println(text);
                self.bar.finish_and_clear();
            }
        }
    }
}

/// A trial that has ended, as text.
fn line(cell: &str, record: &Record, result: &str, progress: Progress) -> String {
    let Progress { done, total, .. } = progress;
    let width = total.to_string().len();
    let result = match record.failure() {
        Some(reason) => format!("failed: {reason}"),
        None => result.replace('\u{a0}', " "),
    };
    let notes: String = record.notes.iter().map(|it| format!("; {it}")).collect();
    format!("{done:>width$}/{total}  {cell:<28} {result}{notes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_moves_during_a_trial_and_waits_before_its_end() {
        let mut shown = Shown {
            cell: "curtail, 16 connections".to_owned(),
            last: String::new(),
            progress: Progress {
                done: 2,
                total: 5,
                left: Duration::from_secs(30),
            },
            began: Instant::now(),
            expected: Duration::from_secs(10),
        };
        let at = |seconds| Duration::from_secs(seconds);
        let positions = [0, 5, 9, 10, 60].map(|it| shown.position(at(it)));
        assert_eq!(positions, [2_000, 2_500, 2_900, 2_950, 2_950]);
        assert_eq!(shown.prefix(at(4)), "2/5 · 26 s left");
        assert_eq!(shown.prefix(at(60)), "2/5 · 20 s left");
        assert_eq!(shown.message(), "curtail, 16 connections");
        shown.last = "p99 1 ms".to_owned();
        assert_eq!(shown.message(), "curtail, 16 connections · last: p99 1 ms");
        shown.expected = Duration::ZERO;
        assert_eq!(shown.position(at(1)), 2_000);
    }
}
