//! What all may know of a processor: its dealings with the kernel, its timers, its counts.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::io::{Kind, Port};
use crate::limits::HELP_FACTOR;
use crate::rest::Event;
use crate::sync::ticks;
use crate::time::Timers;

/// It sleeps, and wakes up by itself.
const DOZES: u64 = u64::MAX;

/// A processor's.
#[repr(align(128))]
pub(crate) struct Seat {
    pub(crate) port: Port,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    /// When it last looked at its completions, and how long it takes, of late, between two looks.
    polled: AtomicU64,
    interval: AtomicU64,
}

/// A processor's counts, which its own thread alone changes but for `dealt`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    runs: AtomicU64,
    sleeps: AtomicU64,
    dealt: AtomicU32,
}

impl Seat {
    pub(crate) fn new(wire: Kind, processors: usize, event: &Event) -> io::Result<Self> {
        Ok(Self {
            port: Port::new(wire, processors, event)?,
            timers: Timers::new(),
            counters: Counters::default(),
            polled: AtomicU64::new(DOZES),
            interval: AtomicU64::new(0),
        })
    }

    /// Its thread has looked; returns how long it takes between two looks, of late.
    pub(crate) fn polled(&self) -> u64 {
        let now = ticks();
        let before = self.polled.load(Ordering::Relaxed);
        self.polled.store(now, Ordering::Relaxed);
        let average = self.interval.load(Ordering::Relaxed);
        if before == DOZES {
            return average;
        }
        let average = 12 * (now.saturating_sub(before) / 16) + 4 * (average / 16);
        self.interval.store(average, Ordering::Relaxed);
        average
    }

    /// Whether it has not looked for much longer than another's interval.
    pub(crate) fn has_waited(&self, interval: u64) -> bool {
        let polled = self.polled.load(Ordering::Relaxed);
        polled != DOZES && ticks().saturating_sub(polled) > interval.saturating_mul(HELP_FACTOR)
    }

    /// It is about to sleep.
    pub(crate) fn doze(&self) {
        self.polled.store(DOZES, Ordering::Relaxed);
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
    pub(crate) fn deal(&self) -> u32 {
        self.dealt.fetch_add(1, Ordering::Relaxed)
    }
}
