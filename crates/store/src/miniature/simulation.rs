//! The simulation of watched requests in the miniature caches.

use super::directory::{self, Directory, NONE, Slot, Traits};
use super::queues::{self, Capacity, Queues};
use crate::eviction_policy::POLICY_COUNT;
use crate::limits::{MINIATURE_SWEEP, SCORE_BITS, WATCHED_BITS_MAX, WATCHED_BITS_MIN};

/// The score of a cache with hits only.
const ONE: i64 = 1 << 32;
/// A policy replaces the current one only if its hit ratio is better by this much: a quarter of a
/// percentage point.
const MARGIN: i64 = ONE / 400;
/// Number of samples between two checks whether enough keys are watched.
const SAMPLING_CHECK_PERIOD: u32 = 1 << 14;
/// An item larger than this fraction (1/N) of a miniature cache is not simulated. If such items
/// fill much of the memory, the miniatures have too much memory for the remaining items.
const LARGEST_PART: u64 = 8;

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampledAccess {
    /// A read hit.
    Hit(Traits),
    /// A read missed.
    Missed,
    /// The item was written.
    Stored(Traits),
    /// The item was deleted.
    Deleted,
}

/// A watched request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation {
    pub(crate) hash: u64,
    pub(crate) access: SampledAccess,
    pub(crate) now_s: u32,
}

/// The state of the store at the time of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleContext {
    /// Bytes available for items.
    pub(crate) bytes: u64,
    /// Maximum number of ghosts that the store remembers.
    pub(crate) ghosts: u64,
    /// Number of flushes.
    pub(crate) flushes: u32,
}

/// The miniature caches.
#[derive(Debug)]
pub(super) struct Simulation {
    /// One key in 2^N is watched.
    watched_bits: u32,
    directory: Directory,
    queues: Queues,
    /// The recent hit ratio of each policy, as a weighted average.
    scores: [i64; POLICY_COUNT],
    best: usize,
    flushes: u32,
    /// Position of the search for keys that are no longer watched; `NONE`: there are none.
    sweep: Slot,
    samples: u32,
}

impl Simulation {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            watched_bits: u64::BITS,
            directory: Directory::new(slots),
            queues: Queues::new(slots),
            scores: [0; POLICY_COUNT],
            best: 0,
            flushes: 0,
            sweep: NONE,
            samples: 0,
        }
    }

    /// Size in bytes of a simulation with this many slots.
    pub(super) fn bytes(slots: usize) -> u64 {
        (slots as u64 + 1) * (directory::SLOT_BYTES + queues::SLOT_BYTES)
    }

    /// Keys with hashes below this are watched; 0: none.
    pub(super) fn threshold(&self) -> u64 {
        match self.watched_bits {
            u64::BITS => 0,
            bits => 1 << (u64::BITS - bits),
        }
    }

    /// Watches one key in 2^`bits`.
    pub(super) fn watch_one_in(&mut self, bits: u32) {
        self.watched_bits = bits;
    }

    /// Simulates a watched request. Returns the best policy if it has changed.
    pub(super) fn observe(
        &mut self,
        observation: &Observation,
        context: &SampleContext,
    ) -> Option<usize> {
        if observation.hash >= self.threshold() {
            // The key is no longer watched.
            return None;
        }
        if self.flushes != context.flushes {
            self.flushes = context.flushes;
            self.directory.clear();
            self.queues.clear();
        }
        self.sweep();
        let capacity = Capacity {
            bytes: context.bytes >> self.watched_bits,
            ghosts: (context.ghosts >> self.watched_bits) as u32,
            now_s: observation.now_s,
        };
        let slot = self.find_live(observation);
        match observation.access {
            SampledAccess::Deleted => {
                if let Some(slot) = slot {
                    self.forget(slot);
                }
            }
            SampledAccess::Stored(traits) => self.store(observation, slot, traits, capacity),
            SampledAccess::Missed => {
                self.read(observation, slot);
                if let Some(slot) = slot {
                    self.directory.set_missed(slot, true);
                }
            }
            SampledAccess::Hit(traits) => {
                self.read(observation, slot);
                if let Some(slot) = slot.or_else(|| self.insert(observation, traits)) {
                    self.directory.set_missed(slot, false);
                    self.fill(slot, traits, capacity);
                }
            }
        }
        self.adjust_sampling();
        match observation.access {
            SampledAccess::Hit(_) | SampledAccess::Missed => self.select_policy(),
            SampledAccess::Stored(_) | SampledAccess::Deleted => None,
        }
    }

    /// The slot of an item that has not expired.
    fn find_live(&mut self, observation: &Observation) -> Option<Slot> {
        let slot = self.directory.find(observation.hash)?;
        if self.directory.expiry(slot).is_past(observation.now_s) {
            self.forget(slot);
            return None;
        }
        Some(slot)
    }

    fn forget(&mut self, slot: Slot) {
        self.queues.forget(&self.directory, slot);
        self.directory.remove(slot);
    }

    /// Simulates a read: it is a hit in each cache that contains the item.
    fn read(&mut self, observation: &Observation, slot: Option<Slot>) {
        let is_first =
            slot.is_some_and(|slot| self.directory.count_second(slot, observation.now_s));
        let bits = self.score_bits();
        for policy in 0..POLICY_COUNT {
            let held = slot.filter(|&slot| self.queues.contains(policy, slot));
            let hit = if held.is_some() { ONE } else { 0 };
            self.scores[policy] += (hit - self.scores[policy]) >> bits;
            if let Some(slot) = held {
                self.queues.count(policy, slot, is_first);
            }
        }
    }

    /// The length of the average: about four times as many requests as a cache has items.
    fn score_bits(&self) -> u32 {
        let held = self.queues.item_count(self.best).max(1);
        (held.ilog2() + 2).clamp(*SCORE_BITS.start(), *SCORE_BITS.end())
    }

    /// Inserts the item into each cache that does not contain it.
    fn fill(&mut self, slot: Slot, traits: Traits, capacity: Capacity) {
        // The item may have been touched or overwritten by a request that was not sampled.
        self.queues.change(&mut self.directory, slot, traits);
        if self.queues.insert_missing(&self.directory, slot) {
            self.directory.reset_counted(slot);
        }
        self.enforce_limits(slot, capacity);
    }

    fn enforce_limits(&mut self, slot: Slot, capacity: Capacity) {
        if self.directory.bytes(slot) > capacity.bytes / LARGEST_PART {
            // The item would fill a large part of the cache, and distort the score.
            self.forget(slot);
        }
        self.queues.evict_excess(&mut self.directory, capacity);
    }

    fn store(
        &mut self,
        observation: &Observation,
        slot: Option<Slot>,
        traits: Traits,
        capacity: Capacity,
    ) {
        match slot {
            Some(slot) if self.directory.set_missed(slot, false) => {
                self.fill(slot, traits, capacity);
            }
            Some(slot) => {
                self.queues.rewrite(&mut self.directory, slot, traits);
                self.enforce_limits(slot, capacity);
            }
            None => {
                if let Some(slot) = self.insert(observation, traits) {
                    self.fill(slot, traits, capacity);
                }
            }
        }
    }

    /// Assigns a slot to a new item. If no slot is free, fewer keys are watched from now on.
    fn insert(&mut self, observation: &Observation, traits: Traits) -> Option<Slot> {
        let slot = self.directory.insert(observation.hash, traits);
        if slot.is_none() && self.sweep == NONE {
            self.watched_bits = (self.watched_bits + 1).min(WATCHED_BITS_MAX);
            self.sweep = 1;
        }
        slot
    }

    /// Removes some keys that are no longer watched.
    fn sweep(&mut self) {
        for _ in 0..MINIATURE_SWEEP {
            if self.sweep == NONE {
                return;
            }
            let (slot, next) = self.directory.walk(self.sweep);
            self.sweep = next;
            if let Some(slot) = slot.filter(|&slot| self.directory.hash(slot) >= self.threshold()) {
                self.forget(slot);
            }
        }
    }

    /// Counts a sample. Periodically checks the number of watched keys, and watches more if it is
    /// small.
    fn adjust_sampling(&mut self) {
        self.samples += 1;
        if self.samples < SAMPLING_CHECK_PERIOD {
            return;
        }
        self.samples = 0;
        let is_few = self.directory.len() < self.directory.slots() / 8;
        if is_few && self.watched_bits > WATCHED_BITS_MIN {
            self.watched_bits -= 1;
        }
    }

    fn select_policy(&mut self) -> Option<usize> {
        let bits = self.score_bits();
        // The fewer requests a score covers, the more it varies by chance.
        let margin = MARGIN + (ONE >> (bits - 2));
        let best = (0..POLICY_COUNT).max_by_key(|&policy| self.scores[policy])?;
        if self.scores[best] <= self.scores[self.best] + margin {
            return None;
        }
        self.best = best;
        Some(best)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
