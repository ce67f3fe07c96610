//! A mutex that blocks the fibre only, and a condition to wait for with it.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::semaphore::Semaphore;
use crate::sync::{self, lock};
use crate::wait::{Standing, WaitList};

/// Data that one fibre, or thread, has at a time; handed on in the order of asking. Held across
/// waits, it is held: nobody runs with it meanwhile, but nobody's thread is blocked either.
///
/// There is no poison: after a panic with the guard held the next one finds what was left.
pub struct Mutex<T: ?Sized> {
    semaphore: Semaphore,
    data: UnsafeCell<T>,
}

// SAFETY: the semaphore has one permit, and only who has it touches the data.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// The data, held. Dropped, it is the next one's.
///
/// What only one thread may look at, only one may through a guard:
///
/// ```compile_fail
/// let mutex = fibre::Mutex::new(std::cell::Cell::new(0));
/// let guard = mutex.lock();
/// std::thread::scope(|scope| {
///     scope.spawn(|| guard.set(1));
/// });
/// ```
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// What it gives to others is the data: a guard may be shared where that may.
    data: PhantomData<&'a mut T>,
}

impl<T> Mutex<T> {
    /// Guards `data`.
    pub fn new(data: T) -> Self {
        Self {
            semaphore: Semaphore::new(1),
            data: UnsafeCell::new(data),
        }
    }

    /// The data, when nobody else can have it.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the data.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.semaphore.acquire();
        MutexGuard {
            mutex: self,
            data: PhantomData,
        }
    }

    /// The data, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let has = self.semaphore.try_acquire();
        has.then(|| MutexGuard {
            mutex: self,
            data: PhantomData,
        })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard is the permit.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.semaphore.release();
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition on what a [`Mutex`] guards: who waits is told when it may have come about, first
/// come first told. Unlike with threads nobody is told for no reason, but others may have been
/// faster.
#[derive(Debug, Default)]
pub struct Condition {
    waiting: sync::Mutex<WaitList>,
}

impl Condition {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the data go, waits to be told, and waits for the data again.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex;
        let waiter = lock(&self.waiting).enter();
        drop(guard);
        waiter.wait_for_grant();
        mutex.lock()
    }

    /// As [`Condition::wait`], so long at most. False: it was not told.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex;
        let waiter = lock(&self.waiting).enter();
        drop(guard);
        let leave = |waiter: &Standing| lock(&self.waiting).leave(waiter);
        let is_told = waiter.wait_for_grant_within(timeout, leave);
        (mutex.lock(), is_told)
    }

    /// Tells who waits first.
    pub fn notify_one(&self) {
        let first = lock(&self.waiting).pop();
        if let Some(waiter) = first {
            waiter.grant();
        }
    }

    /// Tells all who wait now.
    pub fn notify_all(&self) {
        let all = std::mem::take(&mut *lock(&self.waiting));
        all.grant_all();
    }
}
