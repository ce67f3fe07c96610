//! Decides when memory of removed items can be reused. Readers take no lock, so a reader may still
//! use the memory for some time. The method is quiescent-state-based reclamation (McKenney and
//! Slingwine, PDCS 1998; Hart et al., JPDC 2007).
//!
//! 1. A worker (the handle of a thread on the store) *unlinks* memory: it removes or changes the
//!    index entries that refer to the memory, so that later lookups do not find the memory. Then
//!    the worker *retires* the memory, and gets a *stamp*: the next number of a global sequence.
//! 2. After each burst (the requests that a worker serves between two waits for input), the worker
//!    is *quiescent*: it holds no references to the memory of items, and announces the newest
//!    stamp. Before a worker sleeps, the worker announces that it is *offline*, which means that it
//!    holds no references until it is online again.
//! 3. The memory can be reused once its stamp *has passed*: every worker is offline, or has
//!    announced this stamp or a newer one. Then all lookups that may have found the memory have
//!    finished. All other lookups started after the memory was unlinked, and do not find it.
//!
//! The announcements cost a worker one load and one store per burst. A sleep costs two further
//! stores, one load and one fence.

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
    /// is added or removed, and when `has_passed` reads the list. A worker that changes its own
    /// announcement takes no lock.
    announcements: Mutex<Vec<Arc<PaddedWord>>>,
}

/// An atomic word on a cache line of its own, so that writes to other words do not slow down
/// accesses to this one.
#[derive(Debug)]
#[repr(align(64))]
struct PaddedWord(AtomicU64);

/// The sequence number of a retirement. The first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Epochs {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            newest: PaddedWord(AtomicU64::new(0)),
            announcements: Mutex::default(),
        })
    }

    /// Adds a worker. It is offline until it calls [`WorkerSlot::online`].
    pub(crate) fn register(self: &Arc<Self>) -> WorkerSlot {
        let announcement = Arc::new(PaddedWord(AtomicU64::new(OFFLINE)));
        self.announcements().push(Arc::clone(&announcement));
        WorkerSlot {
            epochs: Arc::clone(self),
            announcement,
        }
    }

    /// Locks the announcements of all workers.
    fn announcements(&self) -> MutexGuard<'_, Vec<Arc<PaddedWord>>> {
        // A poisoned lock is no error, because no code panics while the list is inconsistent.
        self.announcements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Retires memory that the caller has unlinked. Returns a stamp. The memory may be reused once
    /// the stamp [has passed](Self::has_passed).
    pub(crate) fn retire(&self) -> Stamp {
        // Release: pairs with the acquire in `quiescent`. A worker that reads this stamp there also
        // sees that the memory was unlinked. Acquire: pairs with the release in the call of
        // `retire` that stored the previous stamp, and through it with the earlier calls. So this
        // thread sees that the memory with older stamps was unlinked, and its release passes this
        // on.
        Stamp(self.newest.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Returns true if no worker holds references to the memory that was retired with `stamp`.
    pub(crate) fn has_passed(&self, stamp: Stamp) -> bool {
        // Pairs with the fence in `WorkerSlot::online`, which comes after the worker's announcement
        // that it is online. If that fence came before the fence here, the loads below would find
        // this announcement or a later one. So if they find the worker offline, the fence in its
        // next `online` comes after the fence here, and the worker then sees that the memory was
        // unlinked.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `WorkerSlot::quiescent` and `WorkerSlot::offline`. So
        // the reads of a worker before its announcement happen before the memory is reused.
        let value_of = |announcement: &Arc<PaddedWord>| announcement.0.load(Ordering::Acquire);
        self.announcements()
            .iter()
            .all(|announcement| value_of(announcement) >= stamp.0)
    }
}

/// The only handle that can change the announcement of a worker in [`Epochs`]. Dropping the handle
/// removes the worker, which must not hold references any more.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    epochs: Arc<Epochs>,
    announcement: Arc<PaddedWord>,
}

impl WorkerSlot {
    /// Announces the newest stamp. The caller makes sure that the worker holds no references that
    /// it obtained before this call.
    pub(crate) fn quiescent(&self) {
        // Acquire: pairs with the release in `retire`. From now on the worker sees that the memory
        // that was retired with this stamp, or with an older one, was unlinked.
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
        // Pairs with the fence in `has_passed`. One of the two fences comes first. If the fence
        // here comes first, `has_passed` sees that the worker is online. If the fence in
        // `has_passed` comes first, this worker's lookups no longer find the retired memory.
        fence(Ordering::SeqCst);
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.offline();
        self.epochs
            .announcements()
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
