//! The pool of worker contexts of `threads`. A thread borrows a context for each turn.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use service::Worker;

use crate::connection_tasks::ContextChoice;
use crate::worker_context::WorkerContext;

/// The worker contexts, and the list of the free contexts.
pub(super) struct ContextPool<S: Worker> {
    /// All contexts. The lock of a context is never contended, because a context is locked only
    /// while it is not in the list of free contexts.
    all: Box<[Mutex<WorkerContext<S>>]>,
    free: Mutex<Free>,
    /// Signalled when a context becomes free.
    is_free: Condvar,
}

/// The list of free contexts.
struct Free {
    /// Indices of the free contexts. The most recently used context is the last.
    numbers: VecDeque<usize>,
    /// The number of threads that wait for a context.
    waiting_threads: usize,
}

/// A borrowed context. Dropping it takes the context offline and returns it to the pool.
pub(super) struct BorrowedContext<'a, S: Worker> {
    // Fields are dropped in the order of their declaration. So the context is unlocked before it
    // enters the list of free contexts, and its next borrower does not wait for the lock.
    context: MutexGuard<'a, WorkerContext<S>>,
    _return: ReturnToPool<'a, S>,
}

/// Puts a context into the list of free contexts when dropped.
struct ReturnToPool<'a, S: Worker> {
    contexts: &'a ContextPool<S>,
    number: usize,
}

impl<S: Worker> ContextPool<S> {
    pub(super) fn new(contexts: impl Iterator<Item = WorkerContext<S>>) -> Self {
        let all: Box<[_]> = contexts.map(Mutex::new).collect();
        let numbers = (0..all.len()).collect();
        Self {
            all,
            free: Mutex::new(Free {
                numbers,
                waiting_threads: 0,
            }),
            is_free: Condvar::new(),
        }
    }

    /// Borrows the most recently used of the free contexts. Waits if all contexts are in use.
    pub(super) fn borrow(&self) -> BorrowedContext<'_, S> {
        let mut free = self.free();
        let number = loop {
            if let Some(number) = free.numbers.pop_back() {
                break number;
            }
            free.waiting_threads += 1;
            free = self
                .is_free
                .wait(free)
                .unwrap_or_else(PoisonError::into_inner);
            free.waiting_threads -= 1;
        };
        drop(free);
        self.lock_context(number)
    }

    /// Borrows a free context, selected by `choice`. Returns `None` if all contexts are in use.
    pub(super) fn try_borrow(&self, choice: ContextChoice) -> Option<BorrowedContext<'_, S>> {
        let mut free = self.free();
        let number = match choice {
            ContextChoice::MostRecent => free.numbers.pop_back(),
            ContextChoice::LeastRecent => free.numbers.pop_front(),
        }?;
        drop(free);
        Some(self.lock_context(number))
    }

    /// Returns the number of contexts.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Locks a context that the caller has taken from the list of free contexts, and brings it
    /// online.
    fn lock_context(&self, number: usize) -> BorrowedContext<'_, S> {
        let entry = &self.all[number];
        let mut context = entry.lock().unwrap_or_else(|poisoned| {
            // The last thread that used this context panicked and left it inconsistent.
            entry.clear_poison();
            let mut context = poisoned.into_inner();
            context.reset();
            context
        });
        context.service.online();
        BorrowedContext {
            context,
            _return: ReturnToPool {
                contexts: self,
                number,
            },
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        // The lock may be poisoned, but the list is consistent: no code that changes it panics.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Worker> Deref for BorrowedContext<'_, S> {
    type Target = WorkerContext<S>;

    fn deref(&self) -> &WorkerContext<S> {
        &self.context
    }
}

impl<S: Worker> DerefMut for BorrowedContext<'_, S> {
    fn deref_mut(&mut self) -> &mut WorkerContext<S> {
        &mut self.context
    }
}

impl<S: Worker> Drop for BorrowedContext<'_, S> {
    fn drop(&mut self) {
        self.context.service.offline();
    }
}

impl<S: Worker> Drop for ReturnToPool<'_, S> {
    fn drop(&mut self) {
        let mut free = self.contexts.free();
        free.numbers.push_back(self.number);
        let has_waiting_thread = free.waiting_threads > 0;
        drop(free);
        if has_waiting_thread {
            self.contexts.is_free.notify_one();
        }
    }
}
