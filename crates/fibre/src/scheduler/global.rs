//! One lane for all processors. This is the simplest scheduler, and the baseline with which the
//! others are compared. It does not use times, so it passes 0 to the lane for each time.

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use crate::lane::Lane;
use crate::scheduler::{Origin, RunQueues, TakeState};
use crate::sync::pause;

/// The scheduler with one lane.
#[derive(Debug)]
pub(crate) struct Global {
    lane: Lane,
    /// The number of processors.
    processors: usize,
}

impl Global {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            lane: Lane::new(),
            processors,
        }
    }
}

impl RunQueues for Global {
    const ROUNDS_BEFORE_IDLE: u32 = 1;

    fn has_one_processor(&self) -> bool {
        self.processors == 1
    }

    fn put(&self, _origin: Origin, ready: Ready, idle: &IdleProcessors) {
        self.lane.push(ready, 0);
        idle.wake_one();
    }

    fn exchange(&self, _state: &mut TakeState<'_>, mut ready: Ready) -> Ready {
        for round in 0.. {
            match self.lane.try_exchange(ready, 0) {
                Ok(first) => return first,
                // The lane is locked: tries again after a pause.
                Err(returned) => ready = returned,
            }
            pause(round);
        }
        // Unreachable: the range has no end.
        ready
    }

    fn has_more(&self, _processor: usize) -> bool {
        !self.lane.is_empty()
    }

    fn take(&self, _state: &mut TakeState<'_>) -> Option<Ready> {
        if self.lane.is_empty() {
            return None;
        }
        self.lane.pop(0)
    }

    fn steal(&self, _state: &mut TakeState<'_>) -> Option<Ready> {
        // There is no other lane: `take` has just tried the only one.
        None
    }

    fn search(&self, _state: &mut TakeState<'_>) -> Option<Ready> {
        self.lane.pop(0)
    }
}
