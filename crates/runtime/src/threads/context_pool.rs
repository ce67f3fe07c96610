//! The pool of worker contexts. A thread borrows one for the duration of a burst.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use service::Worker;

use crate::connection_tasks::ContextChoice;
use crate::worker_context::WorkerContext;

/// The worker contexts.
pub(super) struct ContextPool<S: Worker> {
    all: Box<[Mutex<WorkerContext<S>>]>,
    free: Mutex<Free>,
    is_free: Condvar,
}

struct Free {
    /// Indices of free contexts, the most recently used last.
    numbers: VecDeque<usize>,
    /// Threads that wait for a context.
    waiting_threads: usize,
}

/// A borrowed context. When dropped, it goes offline and returns to the pool.
pub(super) struct BorrowedContext<'a, S: Worker> {
    // Fields drop in the order of their declaration: a context is unlocked before it returns to the
    // pool.
    context: MutexGuard<'a, WorkerContext<S>>,
    _return: ReturnToPool<'a, S>,
}

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

    /// Borrows the most recently used context. Waits if all are in use.
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

    /// Borrows a context if one is free.
    pub(super) fn try_borrow(&self, choice: ContextChoice) -> Option<BorrowedContext<'_, S>> {
        let mut free = self.free();
        let number = match choice {
            ContextChoice::MostRecent => free.numbers.pop_back(),
            ContextChoice::LeastRecent => free.numbers.pop_front(),
        }?;
        drop(free);
        Some(self.lock_context(number))
    }

    /// The number of contexts.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    fn lock_context(&self, number: usize) -> BorrowedContext<'_, S> {
        let entry = &self.all[number];
        let mut context = entry.lock().unwrap_or_else(|poisoned| {
            // The thread that held it panicked.
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
        // No code panics while the list is inconsistent.
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
        let is_awaited = free.waiting_threads > 0;
        drop(free);
        if is_awaited {
            self.contexts.is_free.notify_one();
        }
    }
}
