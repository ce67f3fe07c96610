//! The parts of a processor that other processors may use: its reactor (which waits for the
//! kernel), its timers and its counters.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::idle::Event;
use crate::io::{IoBackend, Reactor};
use crate::limits::HELP_FACTOR;
use crate::sync::ticks;
use crate::time::Timers;

/// The value of `polled_at` while the processor sleeps, and before it has started.
const SLEEPING: u64 = u64::MAX;

/// The parts of one processor that other processors may use.
#[repr(align(128))]
pub(crate) struct ProcessorSlot {
    pub(crate) reactor: Reactor,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    /// The time at which the processor last polled its reactor, in ticks; or [`SLEEPING`].
    polled_at: AtomicU64,
    /// The moving average of the intervals between two polls of this processor, in ticks.
    average_interval: AtomicU64,
}

/// A processor's counters. Only the processor's own thread changes them, except `next_number`,
/// which any thread may change.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The number of times that the processor ran a fibre.
    runs: AtomicU64,
    /// The number of times that the processor slept.
    sleeps: AtomicU64,
    /// A number that each call of [`Counters::take_number`] increases. Callers use it to choose
    /// processors in turn.
    next_number: AtomicU32,
}

impl ProcessorSlot {
    pub(crate) fn new(io_backend: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        Ok(Self {
            reactor: Reactor::new(io_backend, processors, event)?,
            timers: Timers::new(),
            counters: Counters::default(),
            polled_at: AtomicU64::new(SLEEPING),
            average_interval: AtomicU64::new(0),
        })
    }

    /// Records a poll. Called by this processor's own thread. Returns the moving average of the
    /// intervals between its polls, in ticks.
    pub(crate) fn record_poll(&self) -> u64 {
        let now = ticks();
        let last_poll = self.polled_at.load(Ordering::Relaxed);
        self.polled_at.store(now, Ordering::Relaxed);
        let average = self.average_interval.load(Ordering::Relaxed);
        if last_poll == SLEEPING {
            return average;
        }
        // Weights of 12/16 for the new interval and 4/16 for the average, as for the waits in a
        // lane (`lane.rs`).
        let average = 12 * (now.saturating_sub(last_poll) / 16) + 4 * (average / 16);
        self.average_interval.store(average, Ordering::Relaxed);
        average
    }

    /// Whether this processor has not polled for a long time: for more than [`HELP_FACTOR`] times
    /// `usual_interval`, the average interval between the polls of the caller, in ticks. False
    /// while this processor sleeps.
    pub(crate) fn is_overdue(&self, usual_interval: u64) -> bool {
        let polled_at = self.polled_at.load(Ordering::Relaxed);
        polled_at != SLEEPING
            && ticks().saturating_sub(polled_at) > usual_interval.saturating_mul(HELP_FACTOR)
    }

    /// Records that the processor is about to sleep.
    pub(crate) fn mark_sleeping(&self) {
        self.polled_at.store(SLEEPING, Ordering::Relaxed);
    }
}

impl Counters {
    /// Stores the number of runs, so that other threads can read it. The processor counts the runs
    /// in [`Local::runs`](crate::local::Local).
    pub(crate) fn set_runs(&self, runs: u64) {
        self.runs.store(runs, Ordering::Relaxed);
    }

    pub(crate) fn count_sleep(&self) {
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        self.sleeps.store(sleeps + 1, Ordering::Relaxed);
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// Returns the next sequence number. Callable from any thread.
    pub(crate) fn take_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}
