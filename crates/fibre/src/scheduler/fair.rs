//! Fair by helping, after the Cforall runtime (T. Delisle, PhD thesis, University of Waterloo
//! 2022).
//!
//! Every processor has two lanes. Fibres it makes ready go to them in turn, and it takes from the
//! one whose first has waited longer. Now and then (every second to every 64th time, the less often
//! the longer there was nothing to help) it looks at one of another's lanes, picked at random, and
//! takes from that if its first has waited more than eight times as long as fibres wait in the
//! processor's own. So a lane whose processor is busy with one long fibre is emptied by the
//! others, whose lanes need never run dry for that: nobody waits for ever, and the order is not far
//! from that of coming, though no list is shared by all.

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use crate::lane::Lane;
use crate::limits::{
    CLOCK_PERIOD, FAR_STEAL_ODDS, HELP_FACTOR, HELP_PERIOD_MAX, HELP_PERIOD_MIN, LANES,
};
use crate::scheduler::{Origin, RunQueues, TakeState};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{pause, ticks};

/// The fair scheduler.
#[derive(Debug)]
pub(crate) struct Fair {
    lanes: Box<[Lane]>,
    /// Lanes of each processor: one that is alone tells no ages, and has one.
    each: usize,
    /// Which of its lanes a processor puts the next fibre in.
    puts: Box<[Put]>,
    /// The last-level cache each processor is at, as far as is known.
    caches: Box<[AtomicU32]>,
}

/// A processor's own, apart from what others read.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Put(AtomicU32);

impl Fair {
    pub(crate) fn new(processors: usize) -> Self {
        let each = if processors == 1 { 1 } else { LANES };
        Self {
            lanes: (0..processors * each).map(|_| Lane::new()).collect(),
            each,
            puts: (0..processors).map(|_| Put::default()).collect(),
            caches: (0..processors).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Notes which last-level cache a processor is at.
    pub(crate) fn note_cache(&self, processor: usize, cache: u32) {
        self.caches[processor].store(cache, Ordering::Relaxed);
    }

    fn own(&self, processor: usize) -> &[Lane] {
        &self.lanes[processor * self.each..][..self.each]
    }

    /// Puts a fibre in one of a processor's lanes, the next in turn if nobody is at it.
    fn push(&self, processor: usize, mut ready: Ready, now: u64) {
        let put = &self.puts[processor].0;
        // Two that come at once may get the same number: they find another lane.
        let first = put.load(Ordering::Relaxed).wrapping_add(1);
        put.store(first, Ordering::Relaxed);
        let lanes = self.own(processor);
        for round in 0.. {
            let lane = &lanes[(first.wrapping_add(round)) as usize % lanes.len()];
            match lane.try_push(ready, now) {
                Ok(()) => return,
                Err(back) => ready = back,
            }
            if round as usize >= lanes.len() {
                pause(round);
            }
        }
    }

    /// The own lanes, the one whose first has waited longest before the others.
    fn by_age(&self, processor: usize) -> impl Iterator<Item = &Lane> {
        let lanes = self.own(processor);
        let since = |lane: &Lane| lane.since().unwrap_or(u64::MAX);
        let is_last_older = since(&lanes[self.each - 1]) < since(&lanes[0]);
        let first = if is_last_older { self.each - 1 } else { 0 };
        (0..self.each).map(move |nth| &lanes[(first + nth) % self.each])
    }

    /// Another's lane to be looked at: any, but seldom one of a processor that is far away.
    fn pick(&self, state: &mut TakeState<'_>) -> Option<&Lane> {
        let number = state.random(self.lanes.len() - self.each);
        let number = ((state.processor + 1) * self.each + number) % self.lanes.len();
        let cache = |processor: usize| self.caches[processor].load(Ordering::Relaxed);
        let is_near = cache(number / self.each) == cache(state.processor);
        (is_near || state.random(256) < FAR_STEAL_ODDS as usize).then(|| &self.lanes[number])
    }

    /// Looks at the clock, where it is time to, and at a lane picked at random, and takes from it
    /// if its first has waited long.
    fn help(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        if self.is_alone() {
            return None;
        }
        state.left -= 1;
        if state.left.is_multiple_of(CLOCK_PERIOD) {
            state.clock.set(ticks());
        }
        if state.left > 0 {
            return None;
        }
        let helped = self.help_one(state);
        state.period = match helped {
            Some(_) => HELP_PERIOD_MIN,
            None => (state.period * 2).clamp(HELP_PERIOD_MIN, HELP_PERIOD_MAX),
        };
        state.left = state.period;
        helped
    }

    fn help_one(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let lane = self.pick(state)?;
        let since = lane.since()?;
        // Where nobody waits, nobody has been taken for a while: what it says is of another time.
        let own = self.own(state.processor).iter();
        let own = own.filter(|lane| lane.since().is_some());
        let average = own.map(Lane::average).max().unwrap_or(0);
        let cutoff = average.saturating_mul(HELP_FACTOR);
        let now = state.clock.get();
        (now.saturating_sub(since) > cutoff)
            .then(|| lane.try_pop(now))
            .flatten()
    }
}

const _: () = assert!(LANES <= 2, "`by_age` compares two");

impl RunQueues for Fair {
    const SPINS: u32 = 1;

    fn is_alone(&self) -> bool {
        self.puts.len() == 1
    }

    fn put(&self, by: Origin, ready: Ready, idle: &IdleProcessors) {
        match by {
            Some((processor, now)) => self.push(processor, ready, now),
            None => {
                // Where its memory is near.
                let processor = ready.record().processor.load(Ordering::Relaxed);
                self.push(
                    processor as usize,
                    ready,
                    if self.is_alone() { 0 } else { ticks() },
                );
            }
        }
        if !self.is_alone() || by.is_none() {
            idle.wake_one();
        }
    }

    fn has_more(&self, processor: usize) -> bool {
        let mut own = self.own(processor).iter();
        own.any(|lane| lane.since().is_some())
    }

    fn exchange(&self, state: &mut TakeState<'_>, mut ready: Ready) -> Ready {
        if let Some(helped) = self.help(state) {
            self.push(state.processor, ready, state.clock.get());
            return helped;
        }
        let now = state.clock.get();
        for lane in self.by_age(state.processor) {
            match lane.try_exchange(ready, now) {
                Ok(first) => return first,
                Err(back) => ready = back,
            }
        }
        // Others are at both: it has let them go first.
        ready
    }

    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        if let Some(helped) = self.help(state) {
            return Some(helped);
        }
        let now = state.clock.get();
        self.by_age(state.processor)
            .find_map(|lane| lane.try_pop(now))
    }

    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        self.lanes[state.random(self.lanes.len())].try_pop(state.clock.get())
    }

    fn search(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let (first, now) = (state.processor * self.each, state.clock.get());
        let count = self.lanes.len();
        // Each by its lock: see `IdleProcessors`.
        (0..count).find_map(|nth| self.lanes[(first + nth) % count].pop(now))
    }
}
