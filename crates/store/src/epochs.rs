//! When memory that readers may still be looking at can be used again: by quiescent states
//! (McKenney and Slingwine, PDCS 1998; Hart and others, JPDC 2007).
//!
//! Whoever unlinks memory *retires* it and gets a stamp. Every worker announces, after each burst,
//! the newest stamp it knows, and while it sleeps, that it looks at nothing. Once all have
//! announced the stamp or sleep, nobody can still look: who looked has finished, and who looks now
//! began after the unlinking. A worker pays a load and a store for each burst, and one fence for
//! each time it wakes up.

use std::sync::PoisonError;

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, Mutex, MutexGuard};

/// What a seat says that looks at nothing.
const OFFLINE: u64 = u64::MAX;

/// All workers, and the newest stamp.
#[derive(Debug)]
pub(crate) struct Epochs {
    now: Line,
    /// Locked when a worker comes or goes, and when memory is about to be used again.
    worker_slots: Mutex<Vec<Arc<Line>>>,
}

/// A word with a cache line to itself.
#[derive(Debug)]
#[repr(align(64))]
struct Line(AtomicU64);

/// When something was retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Epochs {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            now: Line(AtomicU64::new(0)),
            worker_slots: Mutex::default(),
        })
    }

    /// A worker's seat, offline.
    pub(crate) fn register(self: &Arc<Self>) -> WorkerSlot {
        let line = Arc::new(Line(AtomicU64::new(OFFLINE)));
        self.worker_slots().push(Arc::clone(&line));
        WorkerSlot {
            epochs: Arc::clone(self),
            line,
        }
    }

    fn worker_slots(&self) -> MutexGuard<'_, Vec<Arc<Line>>> {
        // Nothing panics half way through a change of the list.
        self.worker_slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something has been unlinked and may be used again once the stamp
    /// [is over](Self::has_passed).
    pub(crate) fn retire(&self) -> Stamp {
        // Release: pairs with the acquire in `quiescent`: who learns of this stamp sees the
        // unlinking. Acquire: pairs with earlier stamps, which are over before later ones.
        Stamp(self.now.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Whether nobody can still look at what was retired with `stamp`.
    pub(crate) fn has_passed(&self, stamp: Stamp) -> bool {
        // Pairs with the fence in `WorkerSlot::online`: a worker found asleep here sees, when it
        // wakes up, all that was unlinked before.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `WorkerSlot::quiescent`: its looking comes before our
        // use.
        let announced = |worker_slot: &Arc<Line>| worker_slot.0.load(Ordering::Acquire);
        self.worker_slots()
            .iter()
            .all(|worker_slot| announced(worker_slot) >= stamp.0)
    }
}

/// A worker among those that look. It begins offline; dropped, it is offline for good.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    epochs: Arc<Epochs>,
    line: Arc<Line>,
}

impl WorkerSlot {
    /// The worker holds nothing it looked at before.
    pub(crate) fn quiescent(&self) {
        // Acquire: pairs with the release in `retire`.
        let now = self.epochs.now.0.load(Ordering::Acquire);
        // Release: pairs with the acquire in `has_passed`.
        self.line.0.store(now, Ordering::Release);
    }

    /// The worker looks at nothing until it is online again.
    pub(crate) fn offline(&self) {
        // Release: pairs with the acquire in `has_passed`.
        self.line.0.store(OFFLINE, Ordering::Release);
    }

    /// The worker may look from now on.
    pub(crate) fn online(&self) {
        self.quiescent();
        // Pairs with the fence in `has_passed`: either that sees this seat taken, or what is looked
        // up from here on no longer leads to what was retired.
        fence(Ordering::SeqCst);
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.offline();
        self.epochs
            .worker_slots()
            .retain(|line| !Arc::ptr_eq(line, &self.line));
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod models;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
#[cfg(test)]
#[cfg(loom)]
mod weak_memory;
