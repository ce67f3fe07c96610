//! Fair by helping, after the Cforall runtime (T. Delisle, PhD thesis, University of Waterloo
//! 2022).
//!
//! Every processor has two lanes. Fibres it makes ready go to them in turn, and it takes from the
//! one whose first has waited longer. Every other time it looks at one lane picked at random, and
//! takes from that if its first has waited more than eight times as long as fibres wait in the
//! processor's own lanes. So a lane whose processor is busy with one long fibre is emptied by the
//! others, whose lanes need never run dry for that: nobody waits for ever, and the order is not far
//! from that of coming, though no list is shared by all.

use crate::fibre::Ready;
use crate::lane::Lane;
use crate::limits::{FAR_ODDS, HELP_FACTOR, LANES};
use crate::rest::Rest;
use crate::scheduler::{Choose, Lot};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{pause, ticks};

/// The fair scheduler.
#[derive(Debug)]
pub(crate) struct Fair {
    lanes: Box<[Lane]>,
    processors: Box<[Processor]>,
}

/// What others may know of a processor.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Processor {
    /// The last-level cache it is at, as far as is known.
    cache: AtomicU32,
    /// Fibres it has put.
    put: AtomicU32,
}

impl Fair {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            lanes: (0..processors * LANES).map(|_| Lane::new()).collect(),
            processors: (0..processors).map(|_| Processor::default()).collect(),
        }
    }

    /// Notes which last-level cache a processor is at.
    pub(crate) fn settle(&self, processor: usize, cache: u32) {
        self.processors[processor]
            .cache
            .store(cache, Ordering::Relaxed);
    }

    fn own(&self, processor: usize) -> &[Lane] {
        &self.lanes[processor * LANES..][..LANES]
    }

    /// Puts a fibre in one of a processor's lanes, the next in turn if nobody is at it.
    fn push(&self, processor: usize, mut ready: Ready) {
        let put = &self.processors[processor].put;
        // Two that come at once may get the same number: they find another lane.
        let first = put.load(Ordering::Relaxed).wrapping_add(1);
        put.store(first, Ordering::Relaxed);
        let lanes = self.own(processor);
        for round in 0.. {
            let lane = &lanes[(first.wrapping_add(round)) as usize % LANES];
            match lane.try_push(ready) {
                Ok(()) => return,
                Err(back) => ready = back,
            }
            if round as usize >= LANES {
                pause(round);
            }
        }
    }

    /// The first of the own lane whose first has waited longest, or of another of one's own.
    fn take_own(&self, processor: usize) -> Option<Ready> {
        let lanes = self.own(processor);
        let since = |lane: &Lane| lane.since().unwrap_or(u64::MAX);
        let oldest = usize::from(since(&lanes[1]) < since(&lanes[0]));
        (0..LANES).find_map(|nth| lanes[(oldest + nth) % LANES].try_pop().one())
    }

    /// A lane to be looked at: any, but seldom one of a processor that is far away.
    fn pick(&self, lot: &mut Lot) -> Option<&Lane> {
        let number = lot.random(self.lanes.len());
        let cache = |processor: usize| self.processors[processor].cache.load(Ordering::Relaxed);
        let is_near = cache(number / LANES) == cache(lot.processor);
        (is_near || lot.random(256) < FAR_ODDS as usize).then(|| &self.lanes[number])
    }

    /// Takes from a lane picked at random, if its first has waited long.
    fn help(&self, lot: &mut Lot) -> Option<Ready> {
        let since = self.pick(lot)?;
        let (lane, since) = (since, since.since()?);
        let own = self.own(lot.processor);
        let average = own.iter().map(Lane::average).max().unwrap_or(0);
        let cutoff = average.saturating_mul(HELP_FACTOR);
        if ticks().saturating_sub(since) <= cutoff {
            return None;
        }
        lane.try_pop().one()
    }
}

const _: () = assert!(LANES == 2, "`take_own` compares two");

impl Choose for Fair {
    const SPINS: u32 = 1;

    fn is_alone(&self) -> bool {
        self.processors.len() == 1
    }

    fn put(&self, from: Option<usize>, ready: Ready, rest: &Rest) {
        let processor = match from {
            Some(processor) => processor,
            // Where its memory is near.
            None => ready.record().processor.load(Ordering::Relaxed) as usize,
        };
        self.push(processor, ready);
        if !self.is_alone() || from.is_none() {
            rest.call_one();
        }
    }

    fn put_back(&self, from: usize, ready: Ready) {
        self.push(from, ready);
    }

    fn take(&self, lot: &mut Lot) -> Option<Ready> {
        lot.turn = lot.turn.wrapping_add(1);
        if lot.turn.is_multiple_of(2)
            && !self.is_alone()
            && let Some(ready) = self.help(lot)
        {
            return Some(ready);
        }
        self.take_own(lot.processor)
    }

    fn steal(&self, lot: &mut Lot) -> Option<Ready> {
        self.lanes[lot.random(self.lanes.len())].try_pop().one()
    }

    fn search(&self, lot: &mut Lot) -> Option<Ready> {
        let first = lot.processor * LANES;
        let count = self.lanes.len();
        for nth in 0..count {
            let lane = &self.lanes[(first + nth) % count];
            // Only a lock shows what others have just put there.
            if let Some(ready) = lane.pop() {
                return Some(ready);
            }
        }
        None
    }
}
