//! What all may know of a processor: its dealings with the kernel, its timers, its counts.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::idle::Event;
use crate::io::{IoBackend, Reactor};
use crate::limits::HELP_FACTOR;
use crate::sync::ticks;
use crate::time::Timers;

/// It sleeps, and wakes up by itself.
const SLEEPING: u64 = u64::MAX;

/// A processor's.
#[repr(align(128))]
pub(crate) struct ProcessorSlot {
    pub(crate) reactor: Reactor,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    /// When it last looked at its completions, and how long it takes, of late, between two looks.
    polled: AtomicU64,
    interval: AtomicU64,
}

/// A processor's counts, which its own thread alone changes but for `next_number`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    runs: AtomicU64,
    sleeps: AtomicU64,
    next_number: AtomicU32,
}

impl ProcessorSlot {
    pub(crate) fn new(io_backend: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        Ok(Self {
            reactor: Reactor::new(io_backend, processors, event)?,
            timers: Timers::new(),
            counters: Counters::default(),
            polled: AtomicU64::new(SLEEPING),
            interval: AtomicU64::new(0),
        })
    }

    /// Its thread has looked; returns how long it takes between two looks, of late.
    pub(crate) fn polled(&self) -> u64 {
        let now = ticks();
        let before = self.polled.load(Ordering::Relaxed);
        self.polled.store(now, Ordering::Relaxed);
        let average = self.interval.load(Ordering::Relaxed);
        if before == SLEEPING {
            return average;
        }
        let average = 12 * (now.saturating_sub(before) / 16) + 4 * (average / 16);
        self.interval.store(average, Ordering::Relaxed);
        average
    }

    /// Whether it has not looked for much longer than another's interval.
    pub(crate) fn is_overdue(&self, interval: u64) -> bool {
        let polled = self.polled.load(Ordering::Relaxed);
        polled != SLEEPING && ticks().saturating_sub(polled) > interval.saturating_mul(HELP_FACTOR)
    }

    /// It is about to sleep.
    pub(crate) fn mark_sleeping(&self) {
        self.polled.store(SLEEPING, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn runs(&self, runs: u64) {
        self.runs.store(runs, Ordering::Relaxed);
    }

    pub(crate) fn slept(&self) {
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        self.sleeps.store(sleeps + 1, Ordering::Relaxed);
    }

    pub(crate) fn count_runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(crate) fn count_sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// Another number each time.
    pub(crate) fn take_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}
