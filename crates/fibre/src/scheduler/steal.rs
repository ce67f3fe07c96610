//! Work stealing in ring order, after libfibre (Karsten and Barghi, POMACS 4(1), 2020).
//!
//! Every processor has a lane and a *handoff slot*, which holds at most one fibre. If some
//! processor is idle, a fibre that becomes ready is put in the handoff slot of that processor,
//! which is then woken. Otherwise the fibre is put in the lane of the processor that makes it
//! ready. (If the fibre is made ready by a thread that is not a processor, it is put in the lane of
//! the processor that ran it last.)
//!
//! A processor without ready fibres checks all other processors, beginning with the one whose
//! number is next. It repeats this for a while before it sleeps. A processor that always has ready
//! fibres of its own never checks the others. So a ready fibre can starve in its lane: for example,
//! the processor of this lane runs another fibre that does not yield, and all other processors
//! always have ready fibres of their own.
//!
//! The scheduler does not use times, so it passes 0 to the lanes for each time.

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

/// The queues of one processor.
// The alignment gives them cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Processor {
    lane: Lane,
    /// The handoff slot: null, or a fibre that a waker gave to this processor because it was
    /// announced as idle.
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
    /// Puts a fibre in the handoff slot. A fibre that is already there moves to the lane.
    fn hand_off(&self, ready: Ready) {
        let record = ready.into_raw().cast_mut();
        // Release: pairs with `swap_handoff`. Acquire: pairs with an earlier `hand_off`, whose
        // fibre this swap removes, and with `swap_handoff`, whose caller has announced itself.
        let displaced = self.handoff.swap(record, Ordering::AcqRel);
        if !displaced.is_null() {
            // Two wakers have chosen this processor, and it has not checked its slot in between.
            // SAFETY: an earlier `hand_off` stored the result of `into_raw`, and the swap removed
            // it.
            self.lane.push(unsafe { Ready::from_raw(displaced) }, 0);
        }
    }

    /// Takes the fibre from the handoff slot. If the slot is empty, only reads it, so that its
    /// cache line is not taken away from other CPUs.
    fn take_handoff(&self) -> Option<Ready> {
        if self.handoff.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.swap_handoff()
    }

    /// Takes the fibre from the handoff slot. Swaps the slot even if it is empty. This prevents a
    /// lost wake-up, as the lock of a lane does (`idle.rs`). A processor that becomes idle
    /// announces itself, then swaps each slot here. A waker (`put`) swaps a slot in `hand_off`. It
    /// then wakes the slot's processor or, if that processor was awake, another idle processor. If
    /// the waker's swap comes first, this call returns the waker's fibre. If the swap here comes
    /// first, the waker sees the announcement. (`put` also looks for an idle processor before it
    /// calls `hand_off`, but only to choose the slot.)
    fn swap_handoff(&self) -> Option<Ready> {
        // Acquire: pairs with the release in `hand_off`, so that the fibre's record is visible
        // here. Release: pairs with the acquire in a later `hand_off`, so that its caller sees that
        // this processor has announced itself.
        let record = self.handoff.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `hand_off` stored the result of `into_raw`, and the swap removed it.
        (!record.is_null()).then(|| unsafe { Ready::from_raw(record) })
    }
}

impl RunQueues for Steal {
    const ROUNDS_BEFORE_IDLE: u32 = STEAL_SPIN_ROUNDS;

    fn has_one_processor(&self) -> bool {
        self.processors.len() == 1
    }

    fn put(&self, origin: Origin, ready: Ready, idle: &IdleProcessors) {
        // If the caller is the only processor of the runtime, there is no other processor to wake.
        let may_wake = !self.has_one_processor() || origin.is_none();
        if may_wake && let Some(idle_processor) = idle.take_one() {
            self.processors[idle_processor].hand_off(ready);
            if origin.is_some_and(|(processor, _)| processor == idle_processor) {
                // The idle processor is the caller itself, which has just woken and is still
                // announced as idle. It checks its slot next, and needs no wake-up.
                return;
            }
            if !idle.wake(idle_processor) {
                // The chosen processor was awake. It may run another fibre first, while the new
                // fibre waits in its slot. So another idle processor is woken, which can steal the
                // new fibre from the slot.
                idle.wake_one();
            }
            return;
        }
        let processor = match origin {
            Some((processor, _)) => processor,
            None => ready.record().processor.load(Ordering::Relaxed) as usize,
        };
        self.processors[processor].lane.push(ready, 0);
        if may_wake {
            // A processor may have announced itself since `take_one` found no idle processor.
            idle.wake_one();
        }
    }

    fn has_more(&self, processor: usize) -> bool {
        let own = &self.processors[processor];
        !own.lane.is_empty() || !own.handoff.load(Ordering::Relaxed).is_null()
    }

    fn exchange(&self, state: &mut TakeState<'_>, ready: Ready) -> Ready {
        let own = &self.processors[state.processor];
        match own.take_handoff() {
            Some(handed_off) => {
                own.lane.push(ready, 0);
                handed_off
            }
            // If the lane is locked, the fibre continues to run without a yield.
            None => own
                .lane
                .try_exchange(ready, 0)
                .unwrap_or_else(|returned| returned),
        }
    }

    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let own = &self.processors[state.processor];
        own.take_handoff().or_else(|| own.lane.try_pop(0))
    }

    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let (number, count) = (state.processor, self.processors.len());
        let others = (1..count).map(|nth| &self.processors[(number + nth) % count]);
        others
            .into_iter()
            .find_map(|other| other.lane.try_pop(0).or_else(|| other.take_handoff()))
    }

    // Unlike `steal`, this function begins with the processor's own queues, and checks the slot of
    // a processor before its lane. It swaps a slot even if it is empty, and waits for the lock of a
    // lane: this prevents lost wake-ups (see `swap_handoff`).
    fn search(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let (number, count) = (state.processor, self.processors.len());
        (0..count)
            .map(|nth| &self.processors[(number + nth) % count])
            .find_map(|processor| processor.swap_handoff().or_else(|| processor.lane.pop(0)))
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        drop(self.take_handoff());
    }
}
