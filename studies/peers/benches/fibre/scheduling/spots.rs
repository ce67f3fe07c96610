//! The parts of the benchmarks *churn* and *locality* that are the same on every runtime.
//!
//! A *thread* is a fibre or a task. A *spot* is a semaphore, at first without permits, at which
//! threads wait. There are half as many spots as threads. In an operation, a thread picks a spot at
//! random and adds a permit to it, which wakes a thread that waits there. Then the first thread
//! acquires a permit of the same spot; usually it must wait for this permit.
//!
//! Some threads must wait before the first operation. Otherwise no thread would ever wait: each
//! would acquire the permit that it has just added. So some threads begin by waiting, each at a
//! spot of its own. The other threads begin their operations after that.
//!
//! The threads are never all blocked. At the start, at least one thread does not wait. Each
//! operation adds a permit before it acquires one, so no more threads can wait later than at the
//! start. At the end of the run, every spot gets enough permits for all threads.

use std::sync::{Mutex, PoisonError};

use crate::benchmark::Setting;
use crate::random::Random;

/// The number of spots.
pub(crate) fn spots(setting: Setting) -> usize {
    (setting.threads() / 2).max(1)
}

/// The number of threads that begin by waiting: one at each spot, but at least one thread does not
/// wait.
pub(crate) fn waiting_first(setting: Setting) -> usize {
    spots(setting).min(setting.threads() - 1)
}

/// The number of cache lines of a [`WorkingSet`].
const LINES: usize = 100;
/// The number of writes to the [`WorkingSet`] in each operation.
const TOUCHES: usize = 100;

/// A number on a cache line of its own.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct CacheLine(u64);

/// The memory to which a thread of *locality* writes at the beginning of each operation.
pub(crate) struct WorkingSet(Box<[CacheLine; LINES]>);

impl WorkingSet {
    pub(crate) fn new() -> Self {
        Self(Box::new([CacheLine(0); LINES]))
    }

    /// Writes [`TOUCHES`] times, each time to a random cache line.
    #[inline]
    pub(crate) fn touch(&mut self, random: &mut Random) {
        for _ in 0..TOUCHES {
            self.0[random.below(LINES)].0 += 1;
        }
    }
}

/// The working sets at one spot, in *locality-share*. A thread leaves its working set here for the
/// thread that it wakes: it puts the set before it adds a permit to the spot. After a thread has
/// acquired a permit, it takes a set.
#[derive(Default)]
pub(crate) struct Handover(Mutex<Vec<WorkingSet>>);

impl Handover {
    pub(crate) fn put(&self, set: WorkingSet) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push(set);
    }

    /// Removes a working set. `None` is possible only at the end of the run, when permits are added
    /// without working sets.
    pub(crate) fn take(&self) -> Option<WorkingSet> {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.pop()
    }
}
