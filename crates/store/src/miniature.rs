//! Selects the eviction policy by miniature simulation (Waldspurger et al., *Cache modeling and
//! optimization using miniature simulations*, ATC 2017).
//!
//! One key in N, selected by its hash, is *watched*; N is at least 8, and grows with the number of
//! items in the store. The requests of watched keys are repeated on four miniature caches, one for
//! each policy. A miniature stores hashes, lengths and expiries of items, but no values, and it
//! simulates 1/N of the store's memory. It serves 1/N of the keys with 1/N of the memory, so its
//! hit ratio estimates the hit ratio that the whole store would have under the same policy. Each
//! policy has a score, which is the recent hit ratio of its miniature, and the store uses the
//! policy with the highest score.
//!
//! The policies `recent` and `clock` also take into account when an item was last requested. A
//! miniature does not simulate this, so it underestimates the two policies slightly.
//!
//! ```text
//! request ── hash below the threshold? ──► directory: slot of the hash        (`directory.rs`)
//!                                          queues: small, main, ghosts, for   (`queues.rs`)
//!                                          each eviction policy, of the same slots
//! ```
//!
//! A request of an unwatched key costs a comparison. A request of a watched key costs about a
//! microsecond, and a worker passes at most
//! [`SAMPLES_PER_SECOND`](crate::limits::SAMPLES_PER_SECOND) requests of each key to the
//! miniatures. The first request after a flush costs some tens of microseconds, because it clears
//! all miniatures. One lock protects the miniatures. A worker that finds the lock taken does not
//! wait, and its request is not simulated. No key is watched before the memory is half full.

mod directory;
mod queues;
mod sample_limiter;
mod simulation;

use std::sync::{PoisonError, TryLockError};

pub use directory::Traits;
pub use sample_limiter::SampleLimiter;
use simulation::Simulation;
pub use simulation::{Observation, SampleContext, SampledAccess};

use crate::limits::{MINIATURE_PART, MINIATURE_SLOTS, WATCHED_BITS_MIN};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A key is watched if its hash is below this number. 0: no key is watched. Every request reads the
/// number. It has a cache line of its own, so that writes to other fields do not evict it from the
/// caches of the readers.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Threshold(AtomicU64);

/// The miniature caches of all policies, and the decision which keys are watched.
#[derive(Debug)]
pub struct Miniatures {
    threshold: Threshold,
    /// Number of policy changes so far.
    changes: AtomicU64,
    simulation: Mutex<Simulation>,
    /// Maximum number of watched keys.
    slots: usize,
}

impl Miniatures {
    /// Number of slots of the miniatures of a store with a memory of `memory` bytes. A slot has
    /// space for one watched key.
    #[must_use]
    pub fn slots_in(memory: u64) -> usize {
        ((memory / MINIATURE_PART) as usize).clamp(*MINIATURE_SLOTS.start(), *MINIATURE_SLOTS.end())
    }

    /// Creates miniatures with a slot for each of up to `slots` watched keys. No key is watched
    /// before [`Miniatures::start`].
    pub fn new(slots: usize) -> Self {
        Self {
            threshold: Threshold::default(),
            changes: AtomicU64::new(0),
            simulation: Mutex::new(Simulation::new(slots)),
            slots,
        }
    }

    /// The size of the miniatures in bytes. Their memory is not resident before its first use.
    pub fn bytes(&self) -> u64 {
        Simulation::bytes(self.slots)
    }

    /// The number of policy changes so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Whether a key is watched, so that its requests have to be passed to [`Miniatures::observe`].
    #[inline]
    pub fn watches(&self, hash: u64) -> bool {
        hash < self.threshold.0.load(Ordering::Relaxed)
    }

    /// Starts watching keys, if this has not been done yet. `items` is the number of items that the
    /// store is expected to hold when it is full.
    #[inline]
    pub fn start(&self, items: u64) {
        if self.threshold.0.load(Ordering::Relaxed) == 0 {
            self.start_watching(items);
        }
    }

    /// Chooses the sampling rate, and starts watching keys at this rate.
    #[cold]
    fn start_watching(&self, items: u64) {
        let mut simulation = self
            .simulation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if simulation.threshold() != 0 {
            // Another worker has started watching keys.
            return;
        }
        // A watched key needs a slot if it is an item or a ghost in at least one of the four
        // caches. Assume three such keys for each item of the store.
        let keys_per_slot = 3 * items / self.slots as u64;
        simulation.set_watched_bits(keys_per_slot.max(1).ilog2().max(WATCHED_BITS_MIN));
        self.threshold
            .0
            .store(simulation.threshold(), Ordering::Relaxed);
    }

    /// Simulates a request of a watched key, unless another worker has the lock. Calls
    /// `set_eviction_policy` if another policy has become the best.
    pub fn observe(
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
            // This call is made under the lock. Otherwise two workers could make their calls in the
            // wrong order, and the store would keep the older result.
            set_eviction_policy(best);
        }
        if simulation.threshold() != threshold_before {
            self.threshold
                .0
                .store(simulation.threshold(), Ordering::Relaxed);
        }
    }
}
