//! The simulation of watched requests in the miniature caches: one cache for each eviction policy.
//! Each policy has a score, which is the recent hit ratio of its cache.

use super::directory::{self, Directory, NONE, Slot, Traits};
use super::queues::{self, Capacity, Queues};
use crate::eviction_policy::POLICY_COUNT;
use crate::limits::{MINIATURE_SWEEP, SCORE_BITS, WATCHED_BITS_MAX, WATCHED_BITS_MIN};

/// A hit ratio of 1. Scores are fixed-point numbers with 32 fractional bits.
const ONE: i64 = 1 << 32;
/// The least difference in hit ratio at which a better policy replaces the current one: three
/// eighths of a percentage point. [`Simulation::select_policy`] adds an allowance for chance to it.
const MARGIN: i64 = 3 * ONE / 800;
/// Number of samples between two checks whether enough keys are watched.
const SAMPLING_CHECK_PERIOD: u32 = 1 << 14;
/// An item larger than this fraction (1/N) of a miniature cache is not simulated, because that one
/// item would determine the score. This has a cost: in the store such items take memory away from
/// the other items, but in a miniature they do not. So the more memory such items fill, the more
/// the simulation overestimates the hit ratio of the other items.
const LARGEST_PART: u64 = 8;

/// A request and its result in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledAccess {
    /// The item was found, by a read or at the start of a read-modify-write.
    Hit(Traits),
    /// A read found no item.
    Missed,
    /// The item was written.
    Stored(Traits),
    /// The item was deleted.
    Deleted,
}

/// A request of a watched key.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// The hash of the key.
    pub hash: u64,
    /// The request and its result.
    pub access: SampledAccess,
    /// The second of the request.
    pub now_s: u32,
}

/// The present sizes of the store, from which the sizes of the miniatures are computed, and the
/// number of the store's flushes.
#[derive(Debug, Clone, Copy)]
pub struct SampleContext {
    /// Bytes of memory for items.
    pub bytes: u64,
    /// Maximum number of ghosts that the store remembers.
    pub ghosts: u64,
    /// Number of flushes of the store so far.
    pub flushes: u32,
}

/// The miniature caches.
#[derive(Debug)]
pub(super) struct Simulation {
    /// N if one key in 2^N is watched. 64: no key is watched.
    watched_bits: u32,
    directory: Directory,
    queues: Queues,
    /// The recent hit ratio of each policy: an exponential moving average, in units of 1/[`ONE`].
    scores: [i64; POLICY_COUNT],
    /// The policy that was selected last.
    selected: usize,
    /// Number of flushes of the store when the miniatures were last cleared.
    flushes: u32,
    /// The next slot that [`Simulation::sweep`] examines. `NONE`: no sweep is in progress.
    sweep_position: Slot,
    /// Number of samples since the last check whether enough keys are watched.
    samples: u32,
}

impl Simulation {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            watched_bits: u64::BITS,
            directory: Directory::new(slots),
            queues: Queues::new(slots),
            scores: [0; POLICY_COUNT],
            selected: 0,
            flushes: 0,
            sweep_position: NONE,
            samples: 0,
        }
    }

    /// The size in bytes of a simulation with this many slots.
    pub(super) fn bytes(slots: usize) -> u64 {
        (slots as u64 + 1) * (directory::SLOT_BYTES + queues::SLOT_BYTES)
    }

    /// The threshold of the hashes. A key is watched if its hash is less than this number. 0: no
    /// key is watched.
    pub(super) fn threshold(&self) -> u64 {
        match self.watched_bits {
            u64::BITS => 0,
            bits => 1 << (u64::BITS - bits),
        }
    }

    /// Watches one key in 2^`bits`.
    pub(super) fn set_watched_bits(&mut self, bits: u32) {
        self.watched_bits = bits;
    }

    /// Simulates a watched request. Returns the best policy if it has changed.
    pub(super) fn observe(
        &mut self,
        observation: &Observation,
        context: &SampleContext,
    ) -> Option<usize> {
        if observation.hash >= self.threshold() {
            // The threshold was lowered after the worker read it, so the key is no longer watched.
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
                    self.remove(slot);
                }
            }
            SampledAccess::Stored(traits) => {
                self.simulate_write(observation, slot, traits, capacity);
            }
            SampledAccess::Missed => {
                self.simulate_read(observation, slot);
                if let Some(slot) = slot {
                    self.directory.set_missed(slot, true);
                }
            }
            SampledAccess::Hit(traits) => {
                self.simulate_read(observation, slot);
                // The item has no slot if it was stored before its key was watched, or if all
                // caches have evicted it.
                if let Some(slot) = slot.or_else(|| self.assign_slot(observation, traits)) {
                    self.directory.set_missed(slot, false);
                    self.insert_where_missing(slot, traits, capacity);
                }
            }
        }
        self.adjust_sampling();
        match observation.access {
            SampledAccess::Hit(_) | SampledAccess::Missed => self.select_policy(),
            SampledAccess::Stored(_) | SampledAccess::Deleted => None,
        }
    }

    /// Returns the slot of the item, unless the item has expired. Removes an expired item.
    fn find_live(&mut self, observation: &Observation) -> Option<Slot> {
        let slot = self.directory.find(observation.hash)?;
        if self.directory.expiry(slot).is_past(observation.now_s) {
            self.remove(slot);
            return None;
        }
        Some(slot)
    }

    /// Removes an item from all caches and releases its slot.
    fn remove(&mut self, slot: Slot) {
        self.queues.remove(&self.directory, slot);
        self.directory.remove(slot);
    }

    /// Simulates a read. The read is a hit in each cache that contains the item, and a miss in the
    /// other caches. Updates the score of every policy.
    fn simulate_read(&mut self, observation: &Observation, slot: Option<Slot>) {
        let is_first =
            slot.is_some_and(|slot| self.directory.record_request(slot, observation.now_s));
        let bits = self.score_bits();
        for policy in 0..POLICY_COUNT {
            let cached = slot.filter(|&slot| self.queues.contains(policy, slot));
            let hit = if cached.is_some() { ONE } else { 0 };
            self.scores[policy] += (hit - self.scores[policy]) >> bits;
            if let Some(slot) = cached {
                self.queues.count_request(policy, slot, is_first);
            }
        }
    }

    /// Returns N, where 2^N is the number of requests over which a score is averaged. The number of
    /// requests is two to four times the number of items in the cache of the selected policy. N is
    /// within [`SCORE_BITS`].
    fn score_bits(&self) -> u32 {
        let item_count = self.queues.item_count(self.selected).max(1);
        (item_count.ilog2() + 2).clamp(*SCORE_BITS.start(), *SCORE_BITS.end())
    }

    /// Inserts the item into each cache that does not contain it.
    fn insert_where_missing(&mut self, slot: Slot, traits: Traits, capacity: Capacity) {
        // A request that was not sampled may have changed the item's length or expiry.
        self.queues.set_traits(&mut self.directory, slot, traits);
        if self.queues.insert_missing(&self.directory, slot) {
            self.directory.forget_last_request(slot);
        }
        self.enforce_limits(slot, capacity);
    }

    /// Removes the item of `slot` if it is too large to be simulated. Then evicts items from each
    /// cache that exceeds its capacity.
    fn enforce_limits(&mut self, slot: Slot, capacity: Capacity) {
        if self.directory.bytes(slot) > capacity.bytes / LARGEST_PART {
            self.remove(slot);
        }
        self.queues.evict_excess(&mut self.directory, capacity);
    }

    /// Simulates a write of the item. `slot` is the item's slot, if it has one.
    fn simulate_write(
        &mut self,
        observation: &Observation,
        slot: Option<Slot>,
        traits: Traits,
        capacity: Capacity,
    ) {
        match slot {
            Some(slot) if self.directory.set_missed(slot, false) => {
                // The last read of the item missed in the store, and the client now writes the item
                // because of that miss. A cache that contains the item would have answered the
                // read, so the client would not have sent this write. Therefore the write only
                // inserts the item into the caches that do not contain it.
                self.insert_where_missing(slot, traits, capacity);
            }
            Some(slot) => {
                // The client overwrites the item without having missed it.
                self.queues.overwrite(&mut self.directory, slot, traits);
                self.enforce_limits(slot, capacity);
            }
            None => {
                if let Some(slot) = self.assign_slot(observation, traits) {
                    self.insert_where_missing(slot, traits, capacity);
                }
            }
        }
    }

    /// Assigns a slot to a new item. Returns `None` if no slot is free. Then only half as many keys
    /// are watched from now on, and a sweep begins to release the slots of the other half.
    fn assign_slot(&mut self, observation: &Observation, traits: Traits) -> Option<Slot> {
        let slot = self.directory.insert(observation.hash, traits);
        if slot.is_none() && self.sweep_position == NONE {
            self.watched_bits = (self.watched_bits + 1).min(WATCHED_BITS_MAX);
            self.sweep_position = 1;
        }
        slot
    }

    /// Makes a step of the sweep, if one is in progress: examines [`MINIATURE_SWEEP`] slots and
    /// removes the keys that are no longer watched.
    fn sweep(&mut self) {
        for _ in 0..MINIATURE_SWEEP {
            if self.sweep_position == NONE {
                return;
            }
            let (slot, next) = self.directory.visit(self.sweep_position);
            self.sweep_position = next;
            if let Some(slot) = slot.filter(|&slot| self.directory.hash(slot) >= self.threshold()) {
                self.remove(slot);
            }
        }
    }

    /// Counts a sample. Once in [`SAMPLING_CHECK_PERIOD`] samples, checks how many slots are in
    /// use. If fewer than an eighth are, twice as many keys are watched from now on.
    fn adjust_sampling(&mut self) {
        self.samples += 1;
        if self.samples < SAMPLING_CHECK_PERIOD {
            return;
        }
        self.samples = 0;
        let has_few_slots_in_use = self.directory.len() < self.directory.slots() / 8;
        if has_few_slots_in_use && self.watched_bits > WATCHED_BITS_MIN {
            self.watched_bits -= 1;
        }
    }

    /// Selects the policy with the highest score, if that score exceeds the score of the present
    /// policy by a margin. Returns the policy if it is selected now.
    fn select_policy(&mut self) -> Option<usize> {
        let bits = self.score_bits();
        // An average over few requests varies more by chance, so it needs a larger margin. The
        // allowance is six divided by the number of requests.
        let margin = MARGIN + ((3 * ONE) >> (bits - 1));
        let best = (0..POLICY_COUNT).max_by_key(|&policy| self.scores[policy])?;
        if self.scores[best] <= self.scores[self.selected] + margin {
            return None;
        }
        self.selected = best;
        Some(best)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
