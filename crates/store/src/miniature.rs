//! Which leaning would have had most hits, found out in miniature (Waldspurger and others, *Cache
//! modeling and optimization using miniature simulations*, ATC 2017).
//!
//! One key in a few hundred, chosen by its hash, is watched. Its requests are made as well to four
//! small caches, one for each leaning, that hold names and lengths and nothing else, in the same
//! part of the memory as the watched keys are of all keys: what such a cache hits, a whole one that
//! leans so would hit. Each has a score, its share of hits of late; the store leans as the best.
//!
//! ```text
//! request ── hash below the threshold? ──► directory: slot of the hash        (`directory.rs`)
//!                                          queues: small, main, ghosts, for   (`queues.rs`)
//!                                          each leaning, of the same slots
//! ```
//!
//! It costs a comparison a request, and a few hundred nanoseconds for a watched key. Who finds the
//! lock taken goes on without: one request more or less is no matter. Nothing is watched before
//! the memory is half full.

mod directory;
mod queues;
mod stage;

use std::sync::{PoisonError, TryLockError};

pub(crate) use directory::Traits;
use stage::Stage;
pub(crate) use stage::{Look, Scene, Seen};

use crate::limits::WATCHED_BITS_MIN;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The small caches, and who is watched.
#[derive(Debug)]
pub(crate) struct Miniatures {
    /// Keys whose hashes are below are watched; 0: none is.
    threshold: AtomicU64,
    /// How often the leaning changed.
    changes: AtomicU64,
    stage: Mutex<Stage>,
    slots: usize,
}

impl Miniatures {
    /// With room for so many watched keys.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            threshold: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            stage: Mutex::new(Stage::new(slots)),
            slots,
        }
    }

    /// Bytes of the caches. They have no pages before they are used.
    pub(crate) fn bytes(&self) -> u64 {
        Stage::bytes(self.slots)
    }

    /// How often the leaning changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Whether the requests of a key are to be shown to [`Miniatures::look`].
    #[inline]
    pub(crate) fn watches(&self, hash: u64) -> bool {
        hash < self.threshold.load(Ordering::Relaxed)
    }

    /// Begins to watch, once; so many items are expected.
    #[inline]
    pub(crate) fn start(&self, items: u64) {
        if self.threshold.load(Ordering::Relaxed) == 0 {
            self.start_watching(items);
        }
    }

    #[cold]
    fn start_watching(&self, items: u64) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        // What is in one of the caches and what left one of them not long ago has a slot.
        let many = 3 * items / self.slots as u64;
        stage.watch_one_in(many.max(1).ilog2().max(WATCHED_BITS_MIN));
        self.threshold.store(stage.threshold(), Ordering::Relaxed);
    }

    /// Shows what came of a request. Returns the leaning that has become the best, if another has.
    pub(crate) fn look(&self, look: &Look, scene: &Scene) -> Option<usize> {
        let mut stage = match self.stage.try_lock() {
            Ok(stage) => stage,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let better = stage.look(look, scene);
        self.threshold.store(stage.threshold(), Ordering::Relaxed);
        if better.is_some() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        better
    }
}
