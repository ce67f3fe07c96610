//! The start and the end of the measured time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Tells the threads (fibres or tasks) when to begin and when to stop counting operations. Threads
/// are spawned before the start and yield until the start, so that the cost of spawning is not
/// measured.
#[derive(Default)]
pub(crate) struct Clock {
    /// The number of threads that are about to wait at a spot (a semaphore), instead of yielding
    /// until the start.
    arrived: AtomicUsize,
    started: AtomicBool,
    over: AtomicBool,
}

impl Clock {
    /// Whether the counting has started.
    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Whether the counting has stopped.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Called by a thread that is about to wait at a spot, instead of yielding until the start.
    pub(crate) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until `count` threads have arrived. Called by a kernel thread outside the runtime.
    pub(crate) fn await_arrivals(&self, count: usize) {
        while self.arrived.load(Ordering::Relaxed) < count {
            thread::yield_now();
        }
    }

    /// Starts the counting, sleeps for `duration`, and stops the counting. Returns the exact
    /// duration in seconds. Called by a kernel thread outside the runtime.
    pub(crate) fn run(&self, duration: Duration) -> f64 {
        let begin = Instant::now();
        self.started.store(true, Ordering::Relaxed);
        thread::sleep(duration);
        self.over.store(true, Ordering::Relaxed);
        begin.elapsed().as_secs_f64()
    }
}
