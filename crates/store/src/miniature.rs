//! Which eviction policy would have had most hits, found out in miniature (Waldspurger and others,
//! *Cache modeling and optimization using miniature simulations*, ATC 2017).
//!
//! One key in sixty-four to a few thousand, chosen by its hash, is watched. Its requests are made
//! to four small caches too, one for each eviction policy, that hold names and lengths and nothing
//! else, in the same part of the memory as the watched keys are of all keys: what such a cache
//! hits, a whole one that leans so would hit. (They count requests and do not know when the last
//! one came: `recent` and `clock` hit a little less here than they would.) Each has a score, its
//! share of hits of late; the store leans as the best.
//!
//! ```text
//! request ── hash below the threshold? ──► directory: slot of the hash        (`directory.rs`)
//!                                          queues: small, main, ghosts, for   (`queues.rs`)
//!                                          each eviction policy, of the same slots
//! ```
//!
//! It costs a comparison a request, and for a watched key, of which a worker shows some requests a
//! second and no more, about a microsecond; some tens of them where many names have to be forgotten
//! at once. Who finds the lock taken goes on without: one request more or less is no matter.
//! Nothing is watched before the memory is half full.

mod directory;
mod queues;
mod sample_limiter;
mod simulation;

use std::sync::{PoisonError, TryLockError};

pub(crate) use directory::Traits;
pub(crate) use sample_limiter::SampleLimiter;
use simulation::Simulation;
pub(crate) use simulation::{Observation, SampleContext, SampledAccess};

use crate::limits::WATCHED_BITS_MIN;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Keys whose hashes are below are watched; 0: none is. Read by every request, so that it has a
/// line to itself.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Threshold(AtomicU64);

/// The small caches, and who is watched.
#[derive(Debug)]
pub(crate) struct Miniatures {
    threshold: Threshold,
    /// How often the eviction policy changed.
    changes: AtomicU64,
    simulation: Mutex<Simulation>,
    slots: usize,
}

impl Miniatures {
    /// With room for so many watched keys.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            threshold: Threshold::default(),
            changes: AtomicU64::new(0),
            simulation: Mutex::new(Simulation::new(slots)),
            slots,
        }
    }

    /// Bytes of the caches. They have no pages before they are used.
    pub(crate) fn bytes(&self) -> u64 {
        Simulation::bytes(self.slots)
    }

    /// How often the eviction policy changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Whether the requests of a key are to be shown to [`Miniatures::scan`].
    #[inline]
    pub(crate) fn watches(&self, hash: u64) -> bool {
        hash < self.threshold.0.load(Ordering::Relaxed)
    }

    /// Begins to watch, once; so many items are expected.
    #[inline]
    pub(crate) fn start(&self, items: u64) {
        if self.threshold.0.load(Ordering::Relaxed) == 0 {
            self.start_watching(items);
        }
    }

    #[cold]
    fn start_watching(&self, items: u64) {
        let mut simulation = self
            .simulation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if simulation.threshold() != 0 {
            // Another worker was first.
            return;
        }
        // What is in one of the caches and what left one of them not long ago has a slot.
        let many = 3 * items / self.slots as u64;
        simulation.watch_one_in(many.max(1).ilog2().max(WATCHED_BITS_MIN));
        self.threshold
            .0
            .store(simulation.threshold(), Ordering::Relaxed);
    }

    /// Shows what came of a request. If another eviction policy has become the best by it,
    /// `set_eviction_policy` is told.
    pub(crate) fn scan(
        &self,
        scan: &Observation,
        context: &SampleContext,
        set_eviction_policy: impl FnOnce(usize),
    ) {
        let mut simulation = match self.simulation.try_lock() {
            Ok(simulation) => simulation,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let before = simulation.threshold();
        if let Some(better) = simulation.scan(scan, context) {
            self.changes.fetch_add(1, Ordering::Relaxed);
            // While the lock is held, so that the last to be told is the last that was found.
            set_eviction_policy(better);
        }
        if simulation.threshold() != before {
            self.threshold
                .0
                .store(simulation.threshold(), Ordering::Relaxed);
        }
    }
}
