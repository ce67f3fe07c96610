//! Selects the eviction policy by miniature simulation (Waldspurger et al., *Cache modeling and
//! optimization using miniature simulations*, ATC 2017).
//!
//! One key in 64 to a few thousand, selected by its hash, is watched. Requests of watched keys are
//! also sent to four miniature caches, one per policy, which hold only hashes and lengths. If one
//! key in N is watched, a miniature simulates 1/N of the memory. So its hit ratio estimates the hit
//! ratio of the store under the same policy. (A miniature counts requests but does not record the
//! time of the last one, so it underestimates `recent` and `clock` slightly.) Each policy has a
//! score, its recent hit ratio, and the store uses the policy with the highest score.
//!
//! ```text
//! request ── hash below the threshold? ──► directory: slot of the hash        (`directory.rs`)
//!                                          queues: small, main, ghosts, for   (`queues.rs`)
//!                                          each eviction policy, of the same slots
//! ```
//!
//! A request of an unwatched key costs a comparison. A request of a watched key costs about a
//! microsecond, and a worker passes only [`SAMPLES_PER_SECOND`](crate::limits::SAMPLES_PER_SECOND)
//! of each key. Occasionally a request costs some tens of microseconds, when many keys have to be
//! forgotten at once. A worker that finds the lock taken skips the request. No key is watched
//! before the memory is half full.

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

/// Keys with hashes below this number are watched; 0: none. Every request reads the number, so it
/// has its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Threshold(AtomicU64);

/// The miniature caches, and the watched keys.
#[derive(Debug)]
pub(crate) struct Miniatures {
    threshold: Threshold,
    /// Number of policy changes.
    changes: AtomicU64,
    simulation: Mutex<Simulation>,
    slots: usize,
}

impl Miniatures {
    /// Creates miniatures with capacity for this many watched keys.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            threshold: Threshold::default(),
            changes: AtomicU64::new(0),
            simulation: Mutex::new(Simulation::new(slots)),
            slots,
        }
    }

    /// Size of the caches in bytes. They are not resident before their first use.
    pub(crate) fn bytes(&self) -> u64 {
        Simulation::bytes(self.slots)
    }

    /// Number of policy changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Whether the requests of a key are to be passed to [`Miniatures::observe`].
    #[inline]
    pub(crate) fn watches(&self, hash: u64) -> bool {
        hash < self.threshold.0.load(Ordering::Relaxed)
    }

    /// Starts watching, if it has not started yet. `items` is the expected number of items.
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
        // Three keys for each item of the store: every key in one of the caches, or recently
        // evicted from one, needs a slot.
        let keys_per_slot = 3 * items / self.slots as u64;
        simulation.watch_one_in(keys_per_slot.max(1).ilog2().max(WATCHED_BITS_MIN));
        self.threshold
            .0
            .store(simulation.threshold(), Ordering::Relaxed);
    }

    /// Simulates a request. Calls `set_eviction_policy` if another policy has become the best.
    pub(crate) fn observe(
        &self,
        observation: &Observation,
        context: &SampleContext,
        set_eviction_policy: impl FnOnce(usize),
    ) {
        let mut simulation = match self.simulation.try_lock() {
            Ok(simulation) => simulation,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let threshold_before = simulation.threshold();
        if let Some(best) = simulation.observe(observation, context) {
            self.changes.fetch_add(1, Ordering::Relaxed);
            // The lock is held, so that the last call has the latest result.
            set_eviction_policy(best);
        }
        if simulation.threshold() != threshold_before {
            self.threshold
                .0
                .store(simulation.threshold(), Ordering::Relaxed);
        }
    }
}
