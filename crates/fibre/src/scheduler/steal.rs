//! Stealing in the order of a ring, after libfibre (Karsten and Barghi, POMACS 4(1), 2020).
//!
//! Every processor has a lane. Fibres made ready go to the lane of the processor that makes them
//! so, unless one rests: that is given the fibre into its hand and called. Who has nothing looks at
//! all the others, from its neighbour on; and spins for a while before it rests. Who never runs out
//! of work never looks: a fibre behind one that does not let go waits, however busy the others are
//! with their own.

use crate::fibre::{Ready, Record};
use crate::lane::Lane;
use crate::limits::SPIN_ROUNDS;
use crate::rest::Rest;
use crate::scheduler::{By, Choose, Lot};
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
    hand: AtomicPtr<Record>,
}

impl Steal {
    pub(crate) fn new(processors: usize) -> Self {
        let processor = |_| Processor {
            lane: Lane::new(),
            hand: AtomicPtr::new(ptr::null_mut()),
        };
        Self {
            processors: (0..processors).map(processor).collect(),
        }
    }
}

impl Processor {
    fn hand_over(&self, ready: Ready) {
        let record = ready.into_raw().cast_mut();
        // Release: pairs with `take_hand`, and so does the acquire: the fibre goes from one to the
        // other.
        let before = self.hand.swap(record, Ordering::AcqRel);
        if !before.is_null() {
            // It was called, and called again before it looked.
            // SAFETY: put here by `into_raw`, and taken out by the swap.
            self.lane.push(unsafe { Ready::from_raw(before) }, 0);
        }
    }

    fn take_hand(&self) -> Option<Ready> {
        if self.hand.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.empty_hand()
    }

    /// The same, whatever it looks like from afar: who announced that it rests before this is seen
    /// by whoever hands over after it, and the other way round.
    fn empty_hand(&self) -> Option<Ready> {
        // Acquire: pairs with `hand_over`.
        let record = self.hand.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: put here by `into_raw`, and taken out by the swap.
        (!record.is_null()).then(|| unsafe { Ready::from_raw(record) })
    }
}

impl Choose for Steal {
    const SPINS: u32 = SPIN_ROUNDS;

    fn is_alone(&self) -> bool {
        self.processors.len() == 1
    }

    fn put(&self, by: By, ready: Ready, rest: &Rest) {
        let calls = !self.is_alone() || by.is_none();
        if calls && let Some(resting) = rest.take_one() {
            self.processors[resting].hand_over(ready);
            if by.is_some_and(|(processor, _)| processor == resting) {
                // It is about to look.
                return;
            }
            if !rest.call(resting) {
                // It may run another already, and this one lies in its hand: for whoever rests.
                rest.call_one();
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
            rest.call_one();
        }
    }

    fn has_more(&self, processor: usize) -> bool {
        let own = &self.processors[processor];
        own.lane.since().is_some() || !own.hand.load(Ordering::Relaxed).is_null()
    }

    fn exchange(&self, lot: &mut Lot<'_>, ready: Ready) -> Ready {
        let own = &self.processors[lot.processor];
        match own.take_hand() {
            Some(handed) => {
                own.lane.push(ready, 0);
                handed
            }
            None => own.lane.try_exchange(ready, 0).unwrap_or_else(|back| back),
        }
    }

    fn take(&self, lot: &mut Lot<'_>) -> Option<Ready> {
        let own = &self.processors[lot.processor];
        own.take_hand().or_else(|| own.lane.try_pop(0))
    }

    fn steal(&self, lot: &mut Lot<'_>) -> Option<Ready> {
        let (me, count) = (lot.processor, self.processors.len());
        let others = (1..count).map(|nth| &self.processors[(me + nth) % count]);
        others
            .into_iter()
            .find_map(|other| other.lane.try_pop(0).or_else(|| other.take_hand()))
    }

    fn search(&self, lot: &mut Lot<'_>) -> Option<Ready> {
        let (me, count) = (lot.processor, self.processors.len());
        (0..count)
            .map(|nth| &self.processors[(me + nth) % count])
            .find_map(|processor| processor.empty_hand().or_else(|| processor.lane.pop(0)))
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        drop(self.take_hand());
    }
}
