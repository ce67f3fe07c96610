//! Decides when unlinked memory can be reused, although readers take no lock. The method is
//! quiescent-state-based reclamation (McKenney and Slingwine, PDCS 1998; Hart et al., JPDC 2007).
//!
//! 1. A worker unlinks memory, so that no later lookup finds it. Then the worker *retires* the
//!    memory, and gets a stamp: the next number of a global sequence.
//! 2. After each burst (the requests that a worker serves between two waits for input), the worker
//!    announces the newest stamp. This means that the worker holds no references from before the
//!    announcement. Before a worker sleeps, it announces that it is offline, and holds no
//!    references until it is online again.
//! 3. The memory can be reused once every worker is offline or has announced the stamp of the
//!    memory or a newer one. Readers that may have found the memory have finished, and later
//!    readers started after it was unlinked.
//!
//! The announcements cost a worker one load and one store per burst, and one fence per wake-up.

use std::sync::PoisonError;

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, Mutex, MutexGuard};

/// The announcement of an offline worker. It is greater than any stamp.
const OFFLINE: u64 = u64::MAX;

/// The newest stamp, and the announcements of all workers.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// The newest stamp: the number of retirements so far.
    newest: PaddedWord,
    /// The announcement of each worker: a stamp, or [`OFFLINE`]. The list is locked when a worker
    /// is added or removed, and when `has_passed` reads it. An announcement takes no lock.
    worker_slots: Mutex<Vec<Arc<PaddedWord>>>,
}

/// An atomic word on a cache line of its own, so that writes to other words do not slow it down.
#[derive(Debug)]
#[repr(align(64))]
struct PaddedWord(AtomicU64);

/// The sequence number of a retirement, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Epochs {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            newest: PaddedWord(AtomicU64::new(0)),
            worker_slots: Mutex::default(),
        })
    }

    /// Adds a worker. It is offline until it calls [`WorkerSlot::online`].
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

    /// Retires memory that the caller has unlinked. Returns a stamp. The memory may be reused once
    /// the stamp [has passed](Self::has_passed).
    pub(crate) fn retire(&self) -> Stamp {
        // Release: pairs with the acquire in `quiescent`. A worker that reads this stamp also sees
        // that the memory was unlinked. Acquire: pairs with the release of earlier calls of
        // `retire` by other threads. The worker therefore also sees what these threads unlinked.
        Stamp(self.newest.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Returns true if no worker holds references to the memory that was retired with `stamp`.
    pub(crate) fn has_passed(&self, stamp: Stamp) -> bool {
        // Pairs with the fence in `WorkerSlot::online`. If the loads below find a worker offline,
        // the fence in its next `online` comes after this fence. After its own fence, the worker
        // sees that the memory was unlinked.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `WorkerSlot::quiescent` and `WorkerSlot::offline`. So
        // the worker's reads before its announcement happen before the memory is reused.
        let announced = |worker_slot: &Arc<PaddedWord>| worker_slot.0.load(Ordering::Acquire);
        self.worker_slots()
            .iter()
            .all(|worker_slot| announced(worker_slot) >= stamp.0)
    }
}

/// The right to write the announcement of one worker in [`Epochs`]. Dropping it removes the
/// worker.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    epochs: Arc<Epochs>,
    announcement: Arc<PaddedWord>,
}

impl WorkerSlot {
    /// Announces the newest stamp. The worker holds no references that it obtained before this
    /// call.
    pub(crate) fn quiescent(&self) {
        // Acquire: pairs with the release in `retire`. From now on the worker sees that the memory
        // retired with this stamp, or an older one, was unlinked.
        let newest = self.epochs.newest.0.load(Ordering::Acquire);
        // Release: pairs with the acquire in `has_passed`. The worker's earlier reads come before
        // this announcement.
        self.announcement.0.store(newest, Ordering::Release);
    }

    /// Announces that the worker holds no references until it is online again.
    pub(crate) fn offline(&self) {
        // Release: pairs with the acquire in `has_passed`. The worker's earlier reads come before
        // this announcement.
        self.announcement.0.store(OFFLINE, Ordering::Release);
    }

    /// Announces that the worker may hold references from now on.
    pub(crate) fn online(&self) {
        self.quiescent();
        // Pairs with the fence in `has_passed`. One of the two fences comes first. If this fence
        // does, `has_passed` sees the worker online. If the fence in `has_passed` does, this worker
        // no longer finds the index entries that referred to the retired memory.
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
