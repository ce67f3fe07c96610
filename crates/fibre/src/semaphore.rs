//! A semaphore: permits, and those who wait for one, first come first served.

use std::time::Duration;

use crate::sync::{Mutex, lock};
use crate::wait::{Standing, WaitList};

/// A semaphore. Who waits is served in the order of coming, and nobody overtakes: a permit goes to
/// who waits first, not to who asks next. For fibres and threads alike.
#[derive(Debug)]
pub struct Semaphore {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    permits: usize,
    waiting: WaitList,
}

impl Semaphore {
    /// With so many permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self {
            state: Mutex::new(State {
                permits,
                waiting: WaitList::new(),
            }),
        }
    }

    /// Takes a permit; waits for one.
    pub fn acquire(&self) {
        if let Some(waiter) = self.take_or_enter() {
            waiter.wait_for_grant();
        }
    }

    /// Takes a permit, if there is one.
    pub fn try_acquire(&self) -> bool {
        let mut state = lock(&self.state);
        let has = state.permits > 0;
        state.permits -= usize::from(has);
        has
    }

    /// Takes a permit; waits for one so long. False: it did in vain.
    pub fn acquire_timeout(&self, timeout: Duration) -> bool {
        let Some(waiter) = self.take_or_enter() else {
            return true;
        };
        let leave = |waiter: &Standing| lock(&self.state).waiting.leave(waiter);
        waiter.wait_for_grant_within(timeout, leave)
    }

    /// None: a permit was there.
    fn take_or_enter(&self) -> Option<Standing> {
        let mut state = lock(&self.state);
        if state.permits > 0 {
            state.permits -= 1;
            return None;
        }
        Some(state.waiting.enter())
    }

    /// Gives a permit back, or a new one.
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

    /// Permits nobody has.
    #[must_use]
    pub fn permits(&self) -> usize {
        lock(&self.state).permits
    }
}
