//! What *churn* and *locality* have alike on every runtime.
//!
//! A spot is a semaphore without permits, and there are half as many as threads. Whoever comes to
//! one releases it, which wakes the one that waits there, and acquires it, which is to wait in its
//! place. So that there is somebody to wake, the first threads begin by waiting on a spot each, and
//! the others start when they do; before, nobody would ever wait, for everybody would take the
//! permit they just gave.
//!
//! Nobody is stuck for ever: permits given and asked for differ by those first threads, so at any
//! time as many threads wait as there were first ones, or fewer, and there is always one more
//! thread than that. At the end every spot gets permits for all.

use std::sync::{Mutex, PoisonError};

use crate::benchmark::Setting;
use crate::random::Random;

/// How many spots there are.
pub(crate) fn spots(setting: Setting) -> usize {
    (setting.threads() / 2).max(1)
}

/// How many threads begin by waiting: one on each spot, as long as one is left who does not.
pub(crate) fn waiting_first(setting: Setting) -> usize {
    spots(setting).min(setting.threads() - 1)
}

/// Cache lines of a working set.
const LINES: usize = 100;
/// How many of them, drawn at random, are written before each operation.
const TOUCHES: usize = 100;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct CacheLine(u64);

/// What a thread of *locality* writes to between operations.
pub(crate) struct WorkingSet(Box<[CacheLine; LINES]>);

impl WorkingSet {
    pub(crate) fn new() -> Self {
        Self(Box::new([CacheLine(0); LINES]))
    }

    #[inline]
    pub(crate) fn touch(&mut self, random: &mut Random) {
        for _ in 0..TOUCHES {
            self.0[random.below(LINES)].0 += 1;
        }
    }
}

/// Working sets on their way from those who wake to those who are woken: as many as the spot's
/// semaphore has had permits from threads, less those taken.
#[derive(Default)]
pub(crate) struct Handover(Mutex<Vec<WorkingSet>>);

impl Handover {
    pub(crate) fn put(&self, set: WorkingSet) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push(set);
    }

    /// None at the end, when permits come without.
    pub(crate) fn take(&self) -> Option<WorkingSet> {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.pop()
    }
}
