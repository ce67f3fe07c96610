//! The time that is measured.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// When counting begins and ends. Threads that exist before it begins yield until it does, so that
/// what it costs to make them is no part of a figure.
#[derive(Default)]
pub(crate) struct Clock {
    /// Threads that have come to where they wait for the others.
    arrived: AtomicUsize,
    started: AtomicBool,
    over: AtomicBool,
}

impl Clock {
    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// A thread says that it is about to wait, and not for the start.
    pub(crate) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until so many have arrived. For a kernel thread that is none of the runtime's.
    pub(crate) fn await_arrivals(&self, count: usize) {
        while self.arrived.load(Ordering::Relaxed) < count {
            thread::yield_now();
        }
    }

    /// Starts, lets the time pass, ends, and says how many seconds it really was. For a kernel
    /// thread that is none of the runtime's.
    pub(crate) fn run(&self, duration: Duration) -> f64 {
        let begin = Instant::now();
        self.started.store(true, Ordering::Relaxed);
        thread::sleep(duration);
        self.over.store(true, Ordering::Relaxed);
        begin.elapsed().as_secs_f64()
    }
}
