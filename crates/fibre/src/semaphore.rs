//! A fair counting semaphore.

use std::time::Duration;

use crate::sync::{Mutex, lock};
use crate::wait::{ListWaiter, WaitList};

/// A counting semaphore for fibres and threads. Waiters are served first come, first served: if
/// there are waiters, a released permit is given to the first of them, and no other caller can take
/// it.
#[derive(Debug)]
pub struct Semaphore {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The number of free permits; 0 while there are waiters.
    permits: usize,
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

    /// Takes a permit, if there is one.
    pub fn try_acquire(&self) -> bool {
        let mut state = lock(&self.state);
        let is_taken = state.permits > 0;
        state.permits -= usize::from(is_taken);
        is_taken
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

    /// Takes a permit if there is one, and returns `None`. Otherwise appends the caller to the list
    /// of waiters, and returns the new entry.
    fn take_or_queue(&self) -> Option<ListWaiter> {
        let mut state = lock(&self.state);
        if state.permits > 0 {
            state.permits -= 1;
            return None;
        }
        Some(state.waiting.push_current())
    }

    /// Releases a permit. The caller need not have acquired one, so this can also add a permit to
    /// the semaphore.
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
