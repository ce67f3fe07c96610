//! What the threads of a server share: whether to stop, and the counters.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sys::cost::own_times_ns;
use sys::poll::Waker;

use super::counters::{Counters, WorkerCounters};
use crate::textile::SharedCache;

/// Shared by the threads of a server.
pub(crate) struct Control {
    allows_shutdown: bool,
    is_stopping: AtomicBool,
    /// Wakes the thread that waits for the end of the server.
    pub(crate) waker: Waker,
    pub(crate) workers: Vec<Arc<WorkerCounters>>,
    /// `None`: the cache is that of a single thread, and has no locks.
    cache: Option<Arc<dyn SharedCache>>,
    /// The counters at the last reset.
    reset_at: Mutex<Counters>,
}

impl Control {
    pub(crate) fn new(
        workers: usize,
        allows_shutdown: bool,
        cache: Option<Arc<dyn SharedCache>>,
    ) -> io::Result<Self> {
        Ok(Self {
            allows_shutdown,
            is_stopping: AtomicBool::new(false),
            waker: Waker::new()?,
            workers: (0..workers).map(|_| Arc::default()).collect(),
            cache,
            reset_at: Mutex::default(),
        })
    }

    pub(crate) fn allows_shutdown(&self) -> bool {
        self.allows_shutdown
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Makes all threads end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// The counters since the last reset.
    pub(crate) fn counters(&self) -> Counters {
        // First the earlier counters: a reset in between would make them the later ones.
        let reset_at = *self.reset_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.all_counters().since(&reset_at)
    }

    pub(crate) fn reset_counters(&self) {
        let now = self.all_counters();
        *self.reset_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// The counters since the start.
    fn all_counters(&self) -> Counters {
        let mut counters = Counters::sum(&self.workers);
        counters.set_times(own_times_ns());
        if let Some(cache) = &self.cache {
            counters.add_waits(&cache.lock_waits());
        }
        counters
    }
}
