//! A mutex that blocks only the fibre, and a condition variable for it.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::semaphore::Semaphore;
use crate::sync::{self, lock};
use crate::wait::{ListWaiter, WaitList};

/// A mutual-exclusion lock for fibres and threads. Waiters get the lock first come, first served. A
/// fibre may wait, for example for input, while it holds the lock. Other fibres then wait longer
/// for the lock, but no processor is blocked.
///
/// There is no poisoning. If a holder panics, the next holder sees the data as the panic left it.
pub struct Mutex<T: ?Sized> {
    semaphore: Semaphore,
    data: UnsafeCell<T>,
}

// SAFETY: the semaphore has one permit, and only the holder of this permit accesses the data.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// A guard that gives exclusive access to the data of a mutex. Dropping it unlocks the mutex.
///
/// A guard is `Sync` only if the data is `Sync`, so this does not compile:
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
    /// Makes the guard `Sync` only if the data is `Sync`, because a shared reference to the guard
    /// gives access to the data.
    data: PhantomData<&'a mut T>,
}

impl<T> Mutex<T> {
    /// Creates a mutex that guards `data`.
    pub fn new(data: T) -> Self {
        Self {
            semaphore: Semaphore::new(1),
            data: UnsafeCell::new(data),
        }
    }

    /// Consumes the mutex and returns the data.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, waiting until it is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.semaphore.acquire();
        MutexGuard {
            mutex: self,
            data: PhantomData,
        }
    }

    /// Locks the mutex, if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let is_acquired = self.semaphore.try_acquire();
        is_acquired.then(|| MutexGuard {
            mutex: self,
            data: PhantomData,
        })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the only permit of the mutex's semaphore.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the only permit of the mutex's semaphore.
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

/// A condition variable for a [`Mutex`]. Waiters are notified first come, first served. There are
/// no spurious wake-ups. But a waiter must check its condition again after a notification: before
/// it has locked the mutex again, another fibre or thread may lock the mutex and change the data.
#[derive(Debug, Default)]
pub struct Condition {
    waiting: sync::Mutex<WaitList>,
}

impl Condition {
    /// Creates a condition variable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex;
        // The waiter is in the list before the mutex is unlocked, so no notification is missed.
        let waiter = lock(&self.waiting).push_current();
        drop(guard);
        waiter.wait_for_grant();
        mutex.lock()
    }

    /// As [`Condition::wait`], but waits for a notification no longer than `timeout`. (Locking the
    /// mutex again may take longer.) Returns the guard, and true if there was a notification.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex;
        let waiter = lock(&self.waiting).push_current();
        drop(guard);
        let remove = |waiter: &ListWaiter| lock(&self.waiting).remove(waiter);
        let is_notified = waiter.wait_for_grant_within(timeout, remove);
        (mutex.lock(), is_notified)
    }

    /// Notifies the first waiter.
    pub fn notify_one(&self) {
        let first = lock(&self.waiting).pop();
        if let Some(waiter) = first {
            waiter.grant();
        }
    }

    /// Notifies all current waiters.
    pub fn notify_all(&self) {
        let all = std::mem::take(&mut *lock(&self.waiting));
        all.grant_all();
    }
}
