//! When the machine's timer ticks, as an empty loop sees it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::times::Slow;

/// The timer's period: that of most kernels, and a multiple of most others'.
const PERIOD_NS: u64 = 4_000_000;
/// Parts of it that are told apart.
pub(crate) const PARTS: usize = 40;
/// Where an empty loop is interrupted more often than so many times as in the middle one of all
/// parts, the timer ticks.
const TICKING: usize = 4;
/// Parts at most: where more seem to tick, nothing can be told.
const TICKING_MAX: usize = PARTS / 4;
/// Interruptions of the empty loop that are remembered.
const REMEMBERED: usize = 2_000;
/// Shorter ones than this are none.
const INTERRUPTION: Duration = Duration::from_micros(10);

/// At which moments the machine interrupts whoever runs.
pub(crate) struct Ticks {
    base: Instant,
    /// Parts of the period in which interruptions of the empty loop began, the latest last.
    seen: VecDeque<usize>,
    ticking: [bool; PARTS],
}

impl Ticks {
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            seen: VecDeque::new(),
            ticking: [false; PARTS],
        }
    }

    fn part(&self, at: Instant) -> usize {
        let ns = (at - self.base).as_nanos() as u64 % PERIOD_NS;
        (ns * PARTS as u64 / PERIOD_NS) as usize
    }

    fn remember(&mut self, at: Instant) {
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(self.part(at));
    }

    fn learn(&mut self) {
        let mut counts = [0; PARTS];
        self.seen.iter().for_each(|&part| counts[part] += 1);
        let mut sorted = counts;
        sorted.sort_unstable();
        let usual = sorted[PARTS / 2].max(1);
        self.ticking = counts.map(|count| count > TICKING * usual);
        if self.parts() > TICKING_MAX {
            self.ticking = [false; PARTS];
        }
    }

    /// Parts of the period that are apart.
    pub(crate) fn parts(&self) -> usize {
        self.ticking.iter().filter(|ticking| **ticking).count()
    }

    /// Whether the machine is likely to interrupt what begins now.
    pub(crate) fn is_due(&self, at: Instant) -> bool {
        self.ticking[self.part(at)]
    }
}

impl Slow {
    /// Looks at the clock, and does nothing else.
    pub(crate) fn spin(&mut self, lasting: Duration, ticks: &mut Ticks) {
        let start = Instant::now();
        let mut last = start;
        while last - start < lasting {
            let now = Instant::now();
            self.add(now - last);
            if now - last >= INTERRUPTION {
                ticks.remember(last);
            }
            last = now;
        }
        self.lasted += last - start;
        ticks.learn();
    }
}
