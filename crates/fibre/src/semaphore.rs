//! A fair counting semaphore.

use std::time::Duration;

use crate::sync::{Mutex, lock};
use crate::wait::{ListWaiter, WaitList};

/// A counting semaphore for fibres and threads. It is fair: if there are waiters, a permit that is
/// released goes to the first waiter, and no other caller can take it.
#[derive(Debug)]
pub struct Semaphore {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The number of free permits; 0 while there are waiters.
    permits: usize,
    /// The fibres and threads that wait for a permit.
    waiting: WaitList,
}

impl Semaphore {
    /// Creates a semaphore with `permits` permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self {
            state: Mutex::new(State {
                permits,
                waiting: WaitList::new(),
            }),
        }
    }

    /// Takes a permit, waiting until there is one.
    pub fn acquire(&self) {
        if let Some(waiter) = self.take_or_queue() {
            waiter.wait_for_grant();
        }
    }

    /// Takes a permit and returns true, if there is a free one. Otherwise returns false.
    pub fn try_acquire(&self) -> bool {
        let mut state = lock(&self.state);
        let is_acquired = state.permits > 0;
        state.permits -= usize::from(is_acquired);
        is_acquired
    }

    /// Takes a permit, waiting until there is one or the timeout has passed. Returns false after a
    /// timeout.
    pub fn acquire_timeout(&self, timeout: Duration) -> bool {
        let Some(waiter) = self.take_or_queue() else {
            return true;
        };
        let remove = |waiter: &ListWaiter| lock(&self.state).waiting.remove(waiter);
        waiter.wait_for_grant_within(timeout, remove)
    }

    /// Takes a permit if there is a free one, and returns `None`. Otherwise appends the caller to
    /// the list of waiters, and returns it as a waiter; the caller must then wait.
    fn take_or_queue(&self) -> Option<ListWaiter> {
        let mut state = lock(&self.state);
        if state.permits > 0 {
            state.permits -= 1;
            return None;
        }
        Some(state.waiting.push_current())
    }

    /// Releases a permit: gives it to the first waiter, or makes it free. The caller need not have
    /// acquired a permit, so this can also increase the number of permits.
    pub fn release(&self) {
        let mut state = lock(&self.state);
        match state.waiting.pop() {
            Some(waiter) => {
                drop(state);
                waiter.grant();
            }
            None => state.permits += 1,
        }
    }

    /// The number of free permits.
    #[must_use]
    pub fn permits(&self) -> usize {
        lock(&self.state).permits
    }
}
