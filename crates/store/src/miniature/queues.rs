//! The queues of the miniature caches. Each policy has the three queues of S3-FIFO. All policies
//! share the slots of the directory.

use super::directory::{Directory, NONE, Slot, Traits};
use crate::eviction_policy::{POLICIES, POLICY_COUNT};
use crate::limits::MINIATURE_STEPS;

/// Bytes per slot in these tables: newer, older, state.
pub(super) const SLOT_BYTES: u64 = POLICY_COUNT as u64 * (2 + 2 + 1);
/// The value at which the request counter saturates, as in the index.
const FREQUENCY_MAX: u8 = 3;

/// The queue that a slot is in, in one miniature cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    /// In no queue.
    Absent,
    /// In the small part.
    Small,
    /// In the main part.
    Main,
    /// Evicted from the small part, and remembered as a ghost.
    Ghost,
}

const QUEUED: [Queued; 4] = [Queued::Absent, Queued::Small, Queued::Main, Queued::Ghost];

/// The state of a slot in a miniature cache, in a byte.
#[derive(Debug, Clone, Copy)]
struct State(u8);

impl State {
    const ABSENT: Self = Self(Queued::Absent as u8);

    fn new(queued: Queued, frequency: u8) -> Self {
        Self(frequency.min(FREQUENCY_MAX) << 2 | queued as u8)
    }

    fn queued(self) -> Queued {
        QUEUED[usize::from(self.0 & 3)]
    }

    fn frequency(self) -> u8 {
        self.0 >> 2
    }
}

/// The index of the queue among a cache's three.
fn queue_of(queued: Queued) -> Option<usize> {
    (queued as usize).checked_sub(Queued::Small as usize)
}

/// The queue for new items in the cache of a policy.
fn first_queue(policy: usize) -> Queued {
    match POLICIES[policy].probation {
        true => Queued::Small,
        false => Queued::Main,
    }
}

/// The state of an item after it is inserted, given its state before.
fn inserted_state(policy: usize, before: State) -> State {
    match before.queued() {
        Queued::Ghost => State::new(Queued::Main, 0),
        _ => State::new(first_queue(policy), 0),
    }
}

/// A FIFO queue from which any slot can be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Queue {
    newest: Slot,
    oldest: Slot,
    len: u32,
    bytes: u64,
}

/// The limits that [`Queues::evict_excess`] enforces on a miniature cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    pub(super) bytes: u64,
    pub(super) ghosts: u32,
    /// The current second: expired items are evicted whatever their counter.
    pub(super) now_s: u32,
}

/// All queues.
#[derive(Debug)]
pub(super) struct Queues {
    newer: Box<[[Slot; POLICY_COUNT]]>,
    older: Box<[[Slot; POLICY_COUNT]]>,
    state: Box<[[u8; POLICY_COUNT]]>,
    /// For each policy: small, main, ghosts.
    queues: [[Queue; 3]; POLICY_COUNT],
}

impl Queues {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            newer: vec![[NONE; POLICY_COUNT]; slots + 1].into(),
            older: vec![[NONE; POLICY_COUNT]; slots + 1].into(),
            state: vec![[State::ABSENT.0; POLICY_COUNT]; slots + 1].into(),
            queues: Default::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.state.fill([State::ABSENT.0; POLICY_COUNT]);
        self.queues = Default::default();
    }

    /// Number of items in a cache.
    pub(super) fn item_count(&self, policy: usize) -> u32 {
        let [small, main, _] = &self.queues[policy];
        small.len + main.len
    }

    fn state(&self, policy: usize, slot: Slot) -> State {
        State(self.state[usize::from(slot)][policy])
    }

    /// Whether a cache contains the item (a ghost does not count).
    pub(super) fn contains(&self, policy: usize, slot: Slot) -> bool {
        let queued = self.state(policy, slot).queued();
        matches!(queued, Queued::Small | Queued::Main)
    }

    /// Whether the slot is in no queue of any cache.
    pub(super) fn is_in_no_cache(&self, slot: Slot) -> bool {
        (0..POLICY_COUNT).all(|policy| self.state(policy, slot).queued() == Queued::Absent)
    }

    /// Counts a request for an item in a cache. `is_first`: whether it is the item's first request
    /// in the current second; later ones count only if the counter is zero.
    pub(super) fn count(&mut self, policy: usize, slot: Slot, is_first: bool) {
        let state = self.state(policy, slot);
        if is_first || state.frequency() == 0 {
            self.state[usize::from(slot)][policy] =
                State::new(state.queued(), state.frequency() + 1).0;
        }
    }

    /// Inserts an item into every cache that does not contain it. Nothing is evicted here, because
    /// the caller still uses the slot: call [`Queues::evict_excess`] afterwards. Returns whether at
    /// least one cache did not contain the item.
    pub(super) fn insert_missing(&mut self, directory: &Directory, slot: Slot) -> bool {
        let mut was_missing = false;
        for policy in 0..POLICY_COUNT {
            if !self.contains(policy, slot) {
                let before = self.take(directory, policy, slot);
                self.push(directory, policy, slot, inserted_state(policy, before));
                was_missing = true;
            }
        }
        was_missing
    }

    /// Overwrites an item: it stays in its part, as the newest.
    pub(super) fn rewrite(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before: [State; POLICY_COUNT] =
            std::array::from_fn(|policy| self.take(directory, policy, slot));
        directory.set_traits(slot, traits);
        for (policy, before) in before.into_iter().enumerate() {
            let state = match before.queued() {
                Queued::Small | Queued::Main => State::new(before.queued(), before.frequency() + 1),
                Queued::Ghost | Queued::Absent => inserted_state(policy, before),
            };
            self.push(directory, policy, slot, state);
        }
    }

    /// Updates the traits of an item.
    pub(super) fn change(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before = directory.bytes(slot);
        directory.set_traits(slot, traits);
        for policy in 0..POLICY_COUNT {
            if let Some(number) = queue_of(self.state(policy, slot).queued()) {
                let bytes = &mut self.queues[policy][number].bytes;
                *bytes = *bytes - before + directory.bytes(slot);
            }
        }
    }

    /// Removes a slot from all queues.
    pub(super) fn forget(&mut self, directory: &Directory, slot: Slot) {
        for policy in 0..POLICY_COUNT {
            self.take(directory, policy, slot);
        }
    }

    /// Evicts items in excess of the capacity, in a bounded number of steps.
    pub(super) fn evict_excess(&mut self, directory: &mut Directory, capacity: Capacity) {
        for policy in 0..POLICY_COUNT {
            self.evict_excess_of(directory, policy, capacity);
        }
    }

    fn evict_excess_of(&mut self, directory: &mut Directory, policy: usize, capacity: Capacity) {
        let eviction_policy = &POLICIES[policy];
        for _ in 0..MINIATURE_STEPS {
            let [small, main, ghosts] = &self.queues[policy];
            let ghosts_max = match eviction_policy.long_ghost_window {
                true => capacity.ghosts,
                false => capacity.ghosts / 2,
            };
            if ghosts.len > ghosts_max {
                let slot = ghosts.oldest;
                self.take(directory, policy, slot);
                self.remove_if_in_no_cache(directory, slot);
                continue;
            }
            if small.bytes + main.bytes <= capacity.bytes {
                return;
            }
            let small_exceeds_share =
                small.bytes * 1000 > capacity.bytes * eviction_policy.small_thousandths;
            let slot = match (small.len > 0 && small_exceeds_share) || main.len == 0 {
                true => small.oldest,
                false => main.oldest,
            };
            let state = self.take(directory, policy, slot);
            let decremented = state.frequency().checked_sub(1);
            let next = match (state.queued(), decremented) {
                _ if directory.expiry(slot).is_past(capacity.now_s) => State::ABSENT,
                (Queued::Small, Some(frequency)) => State::new(Queued::Main, frequency),
                (Queued::Main, Some(frequency)) => match eviction_policy.decay {
                    true => State::new(Queued::Main, frequency),
                    false => State::new(Queued::Main, 0),
                },
                (Queued::Small, None) => State::new(Queued::Ghost, 0),
                _ => State::ABSENT,
            };
            match next.queued() {
                Queued::Absent => self.remove_if_in_no_cache(directory, slot),
                _ => self.push(directory, policy, slot, next),
            }
        }
    }

    fn remove_if_in_no_cache(&self, directory: &mut Directory, slot: Slot) {
        if self.is_in_no_cache(slot) {
            directory.remove(slot);
        }
    }

    /// Removes a slot from its queue. Returns its old state.
    fn take(&mut self, directory: &Directory, policy: usize, slot: Slot) -> State {
        let at = usize::from(slot);
        let state = self.state(policy, slot);
        let Some(number) = queue_of(state.queued()) else {
            return state;
        };
        let queue = &mut self.queues[policy][number];
        queue.len -= 1;
        queue.bytes -= directory.bytes(slot);
        let (newer, older) = (self.newer[at][policy], self.older[at][policy]);
        match newer {
            NONE => queue.newest = older,
            newer => self.older[usize::from(newer)][policy] = older,
        }
        match older {
            NONE => queue.oldest = newer,
            older => self.newer[usize::from(older)][policy] = newer,
        }
        self.state[at][policy] = State::ABSENT.0;
        state
    }

    fn push(&mut self, directory: &Directory, policy: usize, slot: Slot, state: State) {
        let at = usize::from(slot);
        let Some(number) = queue_of(state.queued()) else {
            return;
        };
        let queue = &mut self.queues[policy][number];
        queue.len += 1;
        queue.bytes += directory.bytes(slot);
        let before = std::mem::replace(&mut queue.newest, slot);
        match before {
            NONE => queue.oldest = slot,
            before => self.newer[usize::from(before)][policy] = slot,
        }
        self.older[at][policy] = before;
        self.newer[at][policy] = NONE;
        self.state[at][policy] = state.0;
    }

    /// For tests: checks that every queue is intact and its sums match its slots.
    #[cfg(test)]
    pub(super) fn check(&self, directory: &Directory) {
        for (policy, queues) in self.queues.iter().enumerate() {
            for (queue, queued) in queues.iter().zip(&QUEUED[1..]) {
                let (mut slot, mut len, mut bytes, mut before) = (queue.oldest, 0, 0, NONE);
                while slot != NONE {
                    assert_eq!(self.state(policy, slot).queued(), *queued);
                    assert_eq!(self.older[usize::from(slot)][policy], before);
                    assert_eq!(directory.find(directory.hash(slot)), Some(slot));
                    len += 1;
                    bytes += directory.bytes(slot);
                    before = slot;
                    slot = self.newer[usize::from(slot)][policy];
                }
                assert_eq!((queue.newest, queue.len, queue.bytes), (before, len, bytes));
            }
        }
    }
}
