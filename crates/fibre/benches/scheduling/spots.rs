//! The parts of *churn* and *locality* that are the same on every runtime.
//!
//! A *thread* is a fibre or a task. A *spot* is a semaphore without permits, at which threads wait.
//! There are half as many spots as threads. In an operation, a thread picks a spot at random and
//! releases it, which wakes a thread that waits there. Then the thread acquires the spot, in order
//! to wait there itself.
//!
//! Some threads must wait before the first release. Otherwise no thread would ever wait: each would
//! acquire the permit that it has just released. So some threads begin by waiting, each at a spot
//! of its own. The other threads start after that.
//!
//! The threads are never all blocked. Each operation releases a permit before it acquires one, so
//! the number of waiting threads never exceeds that at the start, when at least one thread does not
//! wait. At the end, every spot gets enough permits for all threads.

use std::sync::{Mutex, PoisonError};

use crate::benchmark::Setting;
use crate::random::Random;

/// The number of spots.
pub(crate) fn spots(setting: Setting) -> usize {
    (setting.threads() / 2).max(1)
}

/// The number of threads that begin by waiting: one for each spot, but not all threads.
pub(crate) fn waiting_first(setting: Setting) -> usize {
    spots(setting).min(setting.threads() - 1)
}

/// The number of cache lines of a working set.
const LINES: usize = 100;
/// The number of writes to random cache lines of the working set before each release.
const TOUCHES: usize = 100;

/// A number on a cache line of its own.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct CacheLine(u64);

/// The memory to which a thread of *locality* writes before each release.
pub(crate) struct WorkingSet(Box<[CacheLine; LINES]>);

impl WorkingSet {
    pub(crate) fn new() -> Self {
        Self(Box::new([CacheLine(0); LINES]))
    }

    /// Writes to random cache lines.
    #[inline]
    pub(crate) fn touch(&mut self, random: &mut Random) {
        for _ in 0..TOUCHES {
            self.0[random.below(LINES)].0 += 1;
        }
    }
}

/// The working sets that threads have left at a spot for the threads that they wake. A thread adds
/// a working set before it releases a permit, and removes one after it has acquired a permit.
#[derive(Default)]
pub(crate) struct Handover(Mutex<Vec<WorkingSet>>);

impl Handover {
    pub(crate) fn put(&self, set: WorkingSet) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push(set);
    }

    /// Removes a working set. `None` at the end of the run, when permits are released without
    /// working sets.
    pub(crate) fn take(&self) -> Option<WorkingSet> {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.pop()
    }
}
