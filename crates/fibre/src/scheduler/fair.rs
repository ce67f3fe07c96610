//! Fairness by helping, after the Cforall runtime (T. Delisle, PhD thesis, University of Waterloo
//! 2022).
//!
//! Every processor has two lanes. If a processor makes a fibre ready, the fibre is put in one of
//! that processor's lanes; if another thread does, in one of the lanes of the processor that ran
//! the fibre last. The two lanes are used in turn. The processor dequeues from the lane whose head
//! fibre has waited longer.
//!
//! At intervals, a processor also checks a lane of another processor, picked at random. It *helps*
//! the other processor, that is, it takes the head fibre of this lane, if that fibre has waited
//! more than eight times as long as fibres on average wait in the helper's own lanes. (Each lane
//! has an average; the largest average of the helper's non-empty lanes counts.) After a check that
//! took a fibre, the next check follows two dequeues later. Each check that took none doubles this
//! interval, up to 64 dequeues.
//!
//! So if a processor runs one fibre for a long time, the other processors empty its lanes, even if
//! their own lanes are never empty. No fibre waits for ever, and fibres run almost in the order in
//! which they became ready, although there is no queue that all processors share.

use crate::fibre::Ready;
use crate::idle::IdleProcessors;
use crate::lane::Lane;
use crate::limits::{
    CLOCK_PERIOD, FAR_HELP_ODDS, HELP_FACTOR, HELP_PERIOD_MAX, HELP_PERIOD_MIN, LANES,
};
use crate::scheduler::{Origin, RunQueues, TakeState};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{pause, ticks};

/// The fair scheduler.
#[derive(Debug)]
pub(crate) struct Fair {
    lanes: Box<[Lane]>,
    /// The number of lanes of each processor: [`LANES`], but only one if there is one processor.
    lanes_per_processor: usize,
    /// For each processor, the number of fibres that were put in its lanes. This number determines
    /// the lane in which the next fibre is put.
    puts: Box<[PutCount]>,
    /// For each processor, the last-level cache of the CPU on which it ran at its start or after
    /// its last sleep.
    caches: Box<[AtomicU32]>,
}

/// The number of fibres that were put in the lanes of one processor, modulo 2³². Two fibres that
/// are put at the same time may be counted as one.
// The alignment gives the number cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PutCount(AtomicU32);

impl Fair {
    pub(crate) fn new(processors: usize) -> Self {
        let lanes_per_processor = if processors == 1 { 1 } else { LANES };
        Self {
            lanes: (0..processors * lanes_per_processor)
                .map(|_| Lane::new())
                .collect(),
            lanes_per_processor,
            puts: (0..processors).map(|_| PutCount::default()).collect(),
            caches: (0..processors).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Records the last-level cache of the CPU on which a processor runs.
    pub(crate) fn record_cache(&self, processor: usize, cache: u32) {
        self.caches[processor].store(cache, Ordering::Relaxed);
    }

    /// The lanes of a processor.
    fn own_lanes(&self, processor: usize) -> &[Lane] {
        &self.lanes[processor * self.lanes_per_processor..][..self.lanes_per_processor]
    }

    /// Puts a fibre in one of a processor's lanes at the time `now`. The lanes are used in turn,
    /// but a locked lane is skipped.
    fn push(&self, processor: usize, mut ready: Ready, now: u64) {
        let count = &self.puts[processor].0;
        // Two concurrent callers may get the same number, and so the same lane. If one of them
        // finds the lane locked, it uses the next lane.
        let turn = count.load(Ordering::Relaxed).wrapping_add(1);
        count.store(turn, Ordering::Relaxed);
        let lanes = self.own_lanes(processor);
        for round in 0.. {
            let lane = &lanes[(turn.wrapping_add(round)) as usize % lanes.len()];
            match lane.try_push(ready, now) {
                Ok(()) => return,
                Err(returned) => ready = returned,
            }
            if round as usize >= lanes.len() {
                pause(round);
            }
        }
    }

    /// The lanes of a processor, in the order in which the processor tries to dequeue from them.
    /// The first is the lane whose head fibre was enqueued earliest.
    fn oldest_head_first(&self, processor: usize) -> impl Iterator<Item = &Lane> {
        let lanes = self.own_lanes(processor);
        let head_since = |lane: &Lane| lane.head_since().unwrap_or(u64::MAX);
        let is_last_lane_older =
            head_since(&lanes[self.lanes_per_processor - 1]) < head_since(&lanes[0]);
        let first = if is_last_lane_older {
            self.lanes_per_processor - 1
        } else {
            0
        };
        (0..self.lanes_per_processor)
            .map(move |nth| &lanes[(first + nth) % self.lanes_per_processor])
    }

    /// Picks a lane of another processor at random. Returns this lane if the other processor runs
    /// on the same last-level cache as this one. If it does not, returns the lane with a
    /// probability of [`FAR_HELP_ODDS`] in 256, and `None` otherwise.
    fn pick(&self, state: &mut TakeState<'_>) -> Option<&Lane> {
        // The random number counts from the first lane of the next processor, so that no lane of
        // this processor is picked.
        let number = state.random(self.lanes.len() - self.lanes_per_processor);
        let number = ((state.processor + 1) * self.lanes_per_processor + number) % self.lanes.len();
        let cache = |processor: usize| self.caches[processor].load(Ordering::Relaxed);
        let is_near = cache(number / self.lanes_per_processor) == cache(state.processor);
        (is_near || state.random(256) < FAR_HELP_ODDS as usize).then(|| &self.lanes[number])
    }

    /// Called at the beginning of each dequeue. If a check of another processor's lane is due,
    /// makes the check, and returns the fibre that it took. Also reads the clock, in one of every
    /// [`CLOCK_PERIOD`] calls and before each check.
    fn help(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        if self.has_one_processor() {
            return None;
        }
        state.dequeues_until_check -= 1;
        if state.dequeues_until_check.is_multiple_of(CLOCK_PERIOD) {
            state.clock.set(ticks());
        }
        if state.dequeues_until_check > 0 {
            return None;
        }
        let helped = self.help_one(state);
        state.check_period = match helped {
            Some(_) => HELP_PERIOD_MIN,
            None => (state.check_period * 2).clamp(HELP_PERIOD_MIN, HELP_PERIOD_MAX),
        };
        state.dequeues_until_check = state.check_period;
        helped
    }

    /// Checks a lane of another processor. Takes the fibre at the head of this lane if the fibre
    /// has waited more than [`HELP_FACTOR`] times as long as fibres on average wait in the lanes of
    /// the calling processor.
    fn help_one(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let lane = self.pick(state)?;
        let head_since = lane.head_since()?;
        // The average of a lane changes only when a fibre is taken from it. So the average of an
        // empty lane may be long outdated, and is not used.
        let own = self.own_lanes(state.processor).iter();
        let non_empty = own.filter(|lane| !lane.is_empty());
        let average = non_empty.map(Lane::average).max().unwrap_or(0);
        let cutoff = average.saturating_mul(HELP_FACTOR);
        let now = state.clock.get();
        (now.saturating_sub(head_since) > cutoff)
            .then(|| lane.try_pop(now))
            .flatten()
    }
}

const _: () = assert!(LANES <= 2, "`oldest_head_first` compares two lanes");

impl RunQueues for Fair {
    const ROUNDS_BEFORE_IDLE: u32 = 1;

    fn has_one_processor(&self) -> bool {
        self.puts.len() == 1
    }

    fn put(&self, origin: Origin, ready: Ready, idle: &IdleProcessors) {
        match origin {
            Some((processor, now)) => self.push(processor, ready, now),
            None => {
                // The memory of the fibre is probably in the CPU cache of the processor that ran
                // the fibre last. The clock is not read if there is only one processor, because a
                // single processor does not compare waits.
                let processor = ready.record().processor.load(Ordering::Relaxed);
                self.push(
                    processor as usize,
                    ready,
                    if self.has_one_processor() { 0 } else { ticks() },
                );
            }
        }
        // If the caller is the only processor of the runtime, there is no other processor to wake.
        if !self.has_one_processor() || origin.is_none() {
            idle.wake_one();
        }
    }

    fn has_more(&self, processor: usize) -> bool {
        let mut own = self.own_lanes(processor).iter();
        own.any(|lane| !lane.is_empty())
    }

    fn exchange(&self, state: &mut TakeState<'_>, mut ready: Ready) -> Ready {
        if let Some(helped) = self.help(state) {
            self.push(state.processor, ready, state.clock.get());
            return helped;
        }
        let now = state.clock.get();
        for lane in self.oldest_head_first(state.processor) {
            match lane.try_exchange(ready, now) {
                Ok(first) => return first,
                Err(returned) => ready = returned,
            }
        }
        // All lanes of this processor were locked by other threads, so the fibre continues to run
        // without a yield.
        ready
    }

    fn take(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        if let Some(helped) = self.help(state) {
            return Some(helped);
        }
        let now = state.clock.get();
        self.oldest_head_first(state.processor)
            .find_map(|lane| lane.try_pop(now))
    }

    fn steal(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        // The lane may be one of this processor's own. That does no harm.
        self.lanes[state.random(self.lanes.len())].try_pop(state.clock.get())
    }

    fn search(&self, state: &mut TakeState<'_>) -> Option<Ready> {
        let (first, now) = (
            state.processor * self.lanes_per_processor,
            state.clock.get(),
        );
        let count = self.lanes.len();
        // `pop` locks each lane, even an empty one. `idle.rs` relies on this: a waker that locks a
        // lane after this search sees that this processor has announced itself.
        (0..count).find_map(|nth| self.lanes[(first + nth) % count].pop(now))
    }
}
