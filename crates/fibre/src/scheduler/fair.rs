//! Fairness by helping, after the Cforall runtime (T. Delisle, PhD thesis, University of Waterloo
//! 2022).
//!
//! Every processor has two lanes. The fibres it makes ready go to them in turn, and it takes from
//! the lane whose first fibre has waited longer. On every 2nd to every 64th take it also checks a
//! lane of another processor, picked at random. (The period doubles while such checks find
//! nothing.) It takes from that lane if the first fibre there has waited more than eight times the
//! average wait in the processor's own lanes. So if a processor is busy with one long fibre, the
//! others empty its lanes, even if their own lanes are never empty. No fibre waits for ever, and
//! the order is close to first come, first served, without a queue that all processors share.

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
    /// Number of lanes per processor. A single processor needs no comparison of ages, and has one
    /// lane.
    lanes_per_processor: usize,
    /// The lane in which each processor puts its next fibre.
    next_lanes: Box<[NextLane]>,
    /// The last-level cache on which each processor was last seen.
    caches: Box<[AtomicU32]>,
}

/// The counter of one processor, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct NextLane(AtomicU32);

impl Fair {
    pub(crate) fn new(processors: usize) -> Self {
        let lanes_per_processor = if processors == 1 { 1 } else { LANES };
        Self {
            lanes: (0..processors * lanes_per_processor)
                .map(|_| Lane::new())
                .collect(),
            lanes_per_processor,
            next_lanes: (0..processors).map(|_| NextLane::default()).collect(),
            caches: (0..processors).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Records the last-level cache that a processor runs on.
    pub(crate) fn record_cache(&self, processor: usize, cache: u32) {
        self.caches[processor].store(cache, Ordering::Relaxed);
    }

    fn own_lanes(&self, processor: usize) -> &[Lane] {
        &self.lanes[processor * self.lanes_per_processor..][..self.lanes_per_processor]
    }

    /// Puts a fibre in one of a processor's lanes: the next in turn, unless it is locked.
    fn push(&self, processor: usize, mut ready: Ready, now: u64) {
        let put = &self.next_lanes[processor].0;
        // Two concurrent callers may get the same number; one then takes another lane.
        let first = put.load(Ordering::Relaxed).wrapping_add(1);
        put.store(first, Ordering::Relaxed);
        let lanes = self.own_lanes(processor);
        for round in 0.. {
            let lane = &lanes[(first.wrapping_add(round)) as usize % lanes.len()];
            match lane.try_push(ready, now) {
                Ok(()) => return,
                Err(returned) => ready = returned,
            }
            if round as usize >= lanes.len() {
                pause(round);
            }
        }
    }

    /// The processor's own lanes, the one whose first fibre has waited longest first.
    fn by_age(&self, processor: usize) -> impl Iterator<Item = &Lane> {
        let lanes = self.own_lanes(processor);
        let since = |lane: &Lane| lane.since().unwrap_or(u64::MAX);
        let is_last_older = since(&lanes[self.lanes_per_processor - 1]) < since(&lanes[0]);
        let first = if is_last_older {
            self.lanes_per_processor - 1
        } else {
            0
        };
        (0..self.lanes_per_processor)
            .map(move |nth| &lanes[(first + nth) % self.lanes_per_processor])
    }

    /// Picks a lane of another processor at random; `None` mostly, if that processor runs on
    /// another last-level cache.
    fn pick(&self, state: &mut TakeState<'_>) -> Option<&Lane> {
        let number = state.random(self.lanes.len() - self.lanes_per_processor);
        let number = ((state.processor + 1) * self.lanes_per_processor + number) % self.lanes.len();
        let cache = |processor: usize| self.caches[processor].load(Ordering::Relaxed);
        let is_near = cache(number / self.lanes_per_processor) == cache(state.processor);
        (is_near || state.random(256) < FAR_STEAL_ODDS as usize).then(|| &self.lanes[number])
    }

    /// Counts a take. Every [`CLOCK_PERIOD`] takes reads the clock. Once per check period picks a
    /// lane of another processor, and takes its first fibre if that has waited too long.
    fn help(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        if self.has_one_processor() {
            return None;
        }
        state.takes_until_check -= 1;
        if state.takes_until_check.is_multiple_of(CLOCK_PERIOD) {
            state.clock.set(ticks());
        }
        if state.takes_until_check > 0 {
            return None;
        }
        let helped = self.help_one(state);
        state.check_period = match helped {
            Some(_) => HELP_PERIOD_MIN,
            None => (state.check_period * 2).clamp(HELP_PERIOD_MIN, HELP_PERIOD_MAX),
        };
        state.takes_until_check = state.check_period;
        helped
    }

    fn help_one(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let lane = self.pick(state)?;
        let since = lane.since()?;
        // The average of an empty lane is outdated: no fibre was taken from it recently.
        let own = self.own_lanes(state.processor).iter();
        let own = own.filter(|lane| lane.since().is_some());
        let average = own.map(Lane::average).max().unwrap_or(0);
        let cutoff = average.saturating_mul(HELP_FACTOR);
        let now = state.clock.get();
        (now.saturating_sub(since) > cutoff)
            .then(|| lane.try_pop(now))
            .flatten()
    }
}

const _: () = assert!(LANES <= 2, "`by_age` compares two lanes");

impl RunQueues for Fair {
    const SPINS: u32 = 1;

    fn has_one_processor(&self) -> bool {
        self.next_lanes.len() == 1
    }

    fn put(&self, origin: Origin, ready: Ready, idle: &IdleProcessors) {
        match origin {
            Some((processor, now)) => self.push(processor, ready, now),
            None => {
                // The cache of the processor that ran the fibre last holds the fibre's memory.
                let processor = ready.record().processor.load(Ordering::Relaxed);
                self.push(
                    processor as usize,
                    ready,
                    if self.has_one_processor() { 0 } else { ticks() },
                );
            }
        }
        if !self.has_one_processor() || origin.is_none() {
            idle.wake_one();
        }
    }

    fn has_more(&self, processor: usize) -> bool {
        let mut own = self.own_lanes(processor).iter();
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
                Err(returned) => ready = returned,
            }
        }
        // Other threads hold the locks of both lanes, so the fibre continues without a yield.
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
        let (first, now) = (
            state.processor * self.lanes_per_processor,
            state.clock.get(),
        );
        let count = self.lanes.len();
        // Takes each lane's lock, as `IdleProcessors` requires.
        (0..count).find_map(|nth| self.lanes[(first + nth) % count].pop(now))
    }
}
