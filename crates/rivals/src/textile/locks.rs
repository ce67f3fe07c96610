//! Locks that count how often and how long threads wait for them. An uncontended lock costs no
//! clock read and no write to a shared counter.
//!
//! A thread that panicked while it held a lock does not stop the others: no code under these locks
//! panics between two writes that belong together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{TryLockError, TryLockResult};
use std::time::Instant;

/// Waits for the locks of a cache, by kind. Kinds that a design does not have stay 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockWaits {
    /// The lock on the whole table, written while it doubles.
    pub capacity: Waits,
    /// The lock on the number of items.
    pub length: Waits,
    /// The lock on the memory used.
    pub memory: Waits,
    /// The lock on the list of recency.
    pub recency: Waits,
    /// The locks of slots; of stripes in the striped design; the only lock of the global one.
    pub entry: Waits,
}

/// Waits for one kind of lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Times that a thread found the lock taken.
    pub count: u64,
    /// Sum of the times that threads waited, in nanoseconds.
    pub waited_ns: u64,
}

/// The counters behind [`LockWaits`].
#[derive(Debug, Default)]
pub(super) struct LockCounters {
    pub(super) capacity: WaitCounter,
    pub(super) length: WaitCounter,
    pub(super) memory: WaitCounter,
    pub(super) recency: WaitCounter,
    pub(super) entry: WaitCounter,
}

impl LockCounters {
    /// The counts so far. Waits that are under way are not included.
    pub(super) fn waits(&self) -> LockWaits {
        LockWaits {
            capacity: self.capacity.waits(),
            length: self.length.waits(),
            memory: self.memory.waits(),
            recency: self.recency.waits(),
            entry: self.entry.waits(),
        }
    }
}

/// The counter behind [`Waits`], in a cache line of its own: contention for one kind of lock does
/// not slow down another kind.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct WaitCounter {
    count: AtomicU64,
    waited_ns: AtomicU64,
}

impl WaitCounter {
    /// Locks a mutex.
    pub(super) fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        self.acquire(
            || mutex.try_lock(),
            || mutex.lock().unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Locks for reading.
    pub(super) fn read<'a, T>(&self, lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        self.acquire(
            || lock.try_read(),
            || lock.read().unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Locks for writing.
    pub(super) fn write<'a, T>(&self, lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        self.acquire(
            || lock.try_write(),
            || lock.write().unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn acquire<G>(
        &self,
        first_try: impl FnOnce() -> TryLockResult<G>,
        wait: impl FnOnce() -> G,
    ) -> G {
        #[cfg(test)]
        preemption::point();
        match first_try() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let start = Instant::now();
                let guard = wait();
                let waited_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.count.fetch_add(1, Relaxed);
                self.waited_ns.fetch_add(waited_ns, Relaxed);
                guard
            }
        }
    }

    pub(super) fn waits(&self) -> Waits {
        Waits {
            count: self.count.load(Relaxed),
            waited_ns: self.waited_ns.load(Relaxed),
        }
    }
}

/// Switches between threads at random before they take a lock, so that a short test meets orders of
/// events that are rare otherwise.
#[cfg(test)]
pub(super) mod preemption {
    use std::cell::Cell;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Next to busy strangers a switch lasts until they are preempted, and they preempt us too.
    const STRANGERS_RAN: Duration = Duration::from_millis(1);
    const POINTS_PASSED_THEN: u32 = 1000;

    thread_local! {
        /// The state of a random generator; 0: off.
        static RANDOM: Cell<u64> = const { Cell::new(0) };
        static POINTS_TO_PASS: Cell<u32> = const { Cell::new(0) };
    }

    /// Begins to do so in this thread.
    pub(in crate::textile) fn enable(seed: u64) {
        RANDOM.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    }

    pub(super) fn point() {
        // Xorshift (Marsaglia, 2003).
        let mut random = RANDOM.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        RANDOM.set(random);
        let to_pass = POINTS_TO_PASS.get();
        POINTS_TO_PASS.set(to_pass.saturating_sub(1));
        if random & 3 == 1 && to_pass == 0 {
            let left = Instant::now();
            thread::yield_now();
            if left.elapsed() > STRANGERS_RAN {
                POINTS_TO_PASS.set(POINTS_PASSED_THEN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_are_counted() {
        let (counters, mutex, lock) = (LockCounters::default(), Mutex::new(1), RwLock::new(2));
        drop(counters.memory.lock(&mutex));
        drop(counters.capacity.read(&lock));
        drop(counters.capacity.write(&lock));
        assert_eq!(counters.waits(), LockWaits::default());
        let guard = counters.memory.acquire(
            || Err(TryLockError::WouldBlock),
            || {
                while Instant::now().elapsed().is_zero() {}
                mutex.lock().unwrap()
            },
        );
        assert_eq!(*guard, 1);
        let waits = counters.waits();
        assert_eq!((waits.memory.count, waits.capacity.count), (1, 0));
        assert!(waits.memory.waited_ns > 0);
    }
}
