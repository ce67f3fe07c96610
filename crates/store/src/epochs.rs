//! Decides when retired memory, which readers may still be using, can be reused:
//! quiescent-state-based reclamation (McKenney and Slingwine, PDCS 1998; Hart et al., JPDC 2007).
//!
//! A worker that unlinks memory *retires* it and gets a stamp. After each burst, every worker
//! announces the newest stamp it knows; before it sleeps, it announces that it holds no references.
//! Once every worker either sleeps or has announced this stamp or a newer one, no references are
//! left: earlier readers have finished, and later readers started after the unlinking. The
//! announcements cost a worker one load and one store per burst, and one fence per wake-up.

use std::sync::PoisonError;

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, Mutex, MutexGuard};

/// Announced by a worker that holds no references, in place of a stamp.
const OFFLINE: u64 = u64::MAX;

/// All workers, and the newest stamp.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// The newest stamp.
    newest: PaddedWord,
    /// The announcement of each worker. Locked when a worker is added or removed, and when memory
    /// is about to be reused.
    worker_slots: Mutex<Vec<Arc<PaddedWord>>>,
}

/// A word on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct PaddedWord(AtomicU64);

/// The sequence number of a retirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Epochs {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            newest: PaddedWord(AtomicU64::new(0)),
            worker_slots: Mutex::default(),
        })
    }

    /// Adds a worker, which starts offline.
    pub(crate) fn register(self: &Arc<Self>) -> WorkerSlot {
        let announcement = Arc::new(PaddedWord(AtomicU64::new(OFFLINE)));
        self.worker_slots().push(Arc::clone(&announcement));
        WorkerSlot {
            epochs: Arc::clone(self),
            announcement,
        }
    }

    fn worker_slots(&self) -> MutexGuard<'_, Vec<Arc<PaddedWord>>> {
        // No code panics while the list is inconsistent.
        self.worker_slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Retires unlinked memory. It may be reused once the stamp [has passed](Self::has_passed).
    pub(crate) fn retire(&self) -> Stamp {
        // Release: pairs with the acquire in `quiescent`: a worker that reads this stamp sees the
        // unlinking. Acquire: pairs with the release of earlier calls of `retire`, so that the
        // worker sees their unlinkings too.
        Stamp(self.newest.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Whether no references to the memory retired with `stamp` are left.
    pub(crate) fn has_passed(&self, stamp: Stamp) -> bool {
        // Pairs with the fence in `WorkerSlot::online`: a worker that is offline at this point will
        // see, when it wakes up, everything that was unlinked before.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `WorkerSlot::quiescent`: the worker's reads
        // happen before the memory is reused.
        let announced = |worker_slot: &Arc<PaddedWord>| worker_slot.0.load(Ordering::Acquire);
        self.worker_slots()
            .iter()
            .all(|worker_slot| announced(worker_slot) >= stamp.0)
    }
}

/// The slot in [`Epochs`] for the announcements of one worker. Dropping it removes the worker.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    epochs: Arc<Epochs>,
    announcement: Arc<PaddedWord>,
}

impl WorkerSlot {
    /// Announces that the worker holds no references obtained before this call.
    pub(crate) fn quiescent(&self) {
        // Acquire: pairs with the release in `retire`.
        let newest = self.epochs.newest.0.load(Ordering::Acquire);
        // Release: pairs with the acquire in `has_passed`.
        self.announcement.0.store(newest, Ordering::Release);
    }

    /// Announces that the worker holds no references until it is online again.
    pub(crate) fn offline(&self) {
        // Release: pairs with the acquire in `has_passed`.
        self.announcement.0.store(OFFLINE, Ordering::Release);
    }

    /// Announces that the worker may hold references from now on.
    pub(crate) fn online(&self) {
        self.quiescent();
        // Pairs with the fence in `has_passed`: either `has_passed` sees this worker online, or the
        // index that this worker reads from now on no longer refers to the retired memory.
        fence(Ordering::SeqCst);
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.offline();
        self.epochs
            .worker_slots()
            .retain(|announcement| !Arc::ptr_eq(announcement, &self.announcement));
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
