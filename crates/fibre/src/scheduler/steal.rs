//! Stealing in the order of a ring, after libfibre (Karsten and Barghi, POMACS 4(1), 2020).
//!
//! Every processor has a lane. Fibres made ready go to the lane of the processor that makes them
//! so, unless one rests: that is given the fibre into its hand and called. Who has nothing looks at
//! all the others, from its neighbour on; and spins for a while before it rests. Who never runs out
//! of work never looks: a fibre behind one that does not let go waits, however busy the others are
//! with their own.

use crate::fibre::{Ready, Record};
use crate::idle::IdleProcessors;
use crate::lane::Lane;
use crate::limits::STEAL_SPIN_ROUNDS;
use crate::scheduler::{Origin, RunQueues, TakeState};
use crate::sync::atomic::{AtomicPtr, Ordering};
use std::ptr;

/// The stealing scheduler.
#[derive(Debug)]
pub(crate) struct Steal {
    processors: Box<[Processor]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Processor {
    lane: Lane,
    /// A fibre that was handed to it while it rested.
    handoff: AtomicPtr<Record>,
}

impl Steal {
    pub(crate) fn new(processors: usize) -> Self {
        let processor = |_| Processor {
            lane: Lane::new(),
            handoff: AtomicPtr::new(ptr::null_mut()),
        };
        Self {
            processors: (0..processors).map(processor).collect(),
        }
    }
}

impl Processor {
    fn hand_off(&self, ready: Ready) {
        let record = ready.into_raw().cast_mut();
        // Release: pairs with `swap_handoff`. Acquire: pairs with an earlier `hand_off`, whose
        // fibre is taken out.
        let before = self.handoff.swap(record, Ordering::AcqRel);
        if !before.is_null() {
            // It was called, and called again before it looked.
            // SAFETY: put here by `into_raw`, and taken out by the swap.
            self.lane.push(unsafe { Ready::from_raw(before) }, 0);
        }
    }

    fn take_handoff(&self) -> Option<Ready> {
        if self.handoff.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.swap_handoff()
    }

    /// The same, whatever it looks like from afar: who announced that it rests before this is seen
    /// by whoever hands over after it, and the other way round.
    fn swap_handoff(&self) -> Option<Ready> {
        // Acquire: pairs with `hand_off`.
        let record = self.handoff.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: put here by `into_raw`, and taken out by the swap.
        (!record.is_null()).then(|| unsafe { Ready::from_raw(record) })
    }
}

impl RunQueues for Steal {
    const SPINS: u32 = STEAL_SPIN_ROUNDS;

    fn is_alone(&self) -> bool {
        self.processors.len() == 1
    }

    fn put(&self, by: Origin, ready: Ready, idle: &IdleProcessors) {
        let calls = !self.is_alone() || by.is_none();
        if calls && let Some(resting) = idle.take_one() {
            self.processors[resting].hand_off(ready);
            if by.is_some_and(|(processor, _)| processor == resting) {
                // It is about to look.
                return;
            }
            if !idle.wake(resting) {
                // It may run another already, and this one lies in its hand: for whoever rests.
                idle.wake_one();
            }
            return;
        }
        let processor = match by {
            Some((processor, _)) => processor,
            None => ready.record().processor.load(Ordering::Relaxed) as usize,
        };
        self.processors[processor].lane.push(ready, 0);
        if calls {
            // Somebody may have announced itself between the two.
            idle.wake_one();
        }
    }

    fn has_more(&self, processor: usize) -> bool {
        let own = &self.processors[processor];
        own.lane.since().is_some() || !own.handoff.load(Ordering::Relaxed).is_null()
    }

    fn exchange(&self, state: &mut TakeState<'_>, ready: Ready) -> Ready {
        let own = &self.processors[state.processor];
        match own.take_handoff() {
            Some(handed) => {
                own.lane.push(ready, 0);
                handed
            }
            None => own.lane.try_exchange(ready, 0).unwrap_or_else(|back| back),
        }
    }

    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let own = &self.processors[state.processor];
        own.take_handoff().or_else(|| own.lane.try_pop(0))
    }

    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let (me, count) = (state.processor, self.processors.len());
        let others = (1..count).map(|nth| &self.processors[(me + nth) % count]);
        others
            .into_iter()
            .find_map(|other| other.lane.try_pop(0).or_else(|| other.take_handoff()))
    }

    fn search(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let (me, count) = (state.processor, self.processors.len());
        (0..count)
            .map(|nth| &self.processors[(me + nth) % count])
            .find_map(|processor| processor.swap_handoff().or_else(|| processor.lane.pop(0)))
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        drop(self.take_handoff());
    }
}
