//! The start and the end of the time in which a benchmark counts its operations.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Tells the threads (fibres or tasks) when to begin and when to stop counting operations. All
/// threads are spawned before the start, so that the cost of spawning is not measured. Most of them
/// yield until the start. In *churn* and *locality*, some threads wait at a *spot* (a semaphore)
/// instead, and [`Clock::arrive`] counts these threads. In *cycle* and its variants, all threads
/// wait until another thread wakes them.
#[derive(Default)]
pub(crate) struct Clock {
    /// The number of calls of [`Clock::arrive`].
    arrived: AtomicUsize,
    /// Whether the counting has started.
    started: AtomicBool,
    /// Whether the counting has stopped.
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

    /// Counts the calling thread as arrived. A thread calls this once, just before it waits at a
    /// spot. A thread that yields until the start does not call this.
    pub(crate) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until [`Clock::arrive`] has been called by `count` threads. Called by the main thread
    /// of the program, because this blocks the kernel thread.
    pub(crate) fn await_arrivals(&self, count: usize) {
        while self.arrived.load(Ordering::Relaxed) < count {
            thread::yield_now();
        }
    }

    /// Starts the counting, sleeps for `duration`, and stops the counting. Returns the time between
    /// start and stop in seconds, which is a little longer than `duration`. Called by the main
    /// thread of the program, because this blocks the kernel thread.
    pub(crate) fn run(&self, duration: Duration) -> f64 {
        self.run_waking(duration, || ())
    }

    /// As [`run`](Self::run), and calls `wake_first` after the start. In *cycle* and its variants,
    /// `wake_first` wakes the first thread of each ring. If they were woken before the start, their
    /// operations until the start would be counted, but not their time.
    pub(crate) fn run_waking(&self, duration: Duration, wake_first: impl FnOnce()) -> f64 {
        let begin = Instant::now();
        self.started.store(true, Ordering::Relaxed);
        wake_first();
        thread::sleep(duration);
        self.over.store(true, Ordering::Relaxed);
        begin.elapsed().as_secs_f64()
    }
}
