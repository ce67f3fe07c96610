//! The queues of the miniature caches. The cache of each policy has the three queues of S3-FIFO:
//! small part, main part and ghosts. A queue is a doubly linked list of slots. All caches use the
//! slots of one directory, so a slot can be in one queue of each cache.

use super::directory::{Directory, NONE, Slot, Traits};
use crate::eviction_policy::{
    EvictionDecision, POLICIES, POLICY_COUNT, Part, leaves_ghost, next_part,
};
use crate::limits::{FREQUENCY_MAX, MINIATURE_STEPS};

/// Bytes per slot in the arrays of [`Queues`]: `newer`, `older`, `state`.
pub(super) const SLOT_BYTES: u64 = POLICY_COUNT as u64 * (2 + 2 + 1);

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

/// The values of [`Queued`] in the order of their numbers.
const QUEUED: [Queued; 4] = [Queued::Absent, Queued::Small, Queued::Main, Queued::Ghost];

/// The state of a slot in one miniature cache. Bits 0 and 1: the queue that the slot is in. Bits 2
/// to 7: the frequency counter.
#[derive(Debug, Clone, Copy)]
struct State(u8);

impl State {
    /// The state of a slot in no queue.
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

/// The index of a queue in an element of [`Queues::queues`]. `None` for [`Queued::Absent`].
fn queue_index(queued: Queued) -> Option<usize> {
    (queued as usize).checked_sub(Queued::Small as usize)
}

/// The queue of a part.
fn queue_of(part: Part) -> Queued {
    match part {
        Part::Small => Queued::Small,
        Part::Main => Queued::Main,
    }
}

/// Returns the state of an item after its insertion into a cache. `before` is its state in that
/// cache before the insertion.
fn inserted_state(policy: usize, before: State) -> State {
    let part = POLICIES[policy].part_of_new(|| before.queued() == Queued::Ghost);
    State::new(queue_of(part), 0)
}

/// A FIFO queue from which any slot can be removed. Its links are in [`Queues`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Queue {
    /// The slot that was added last. `NONE` if the queue is empty.
    newest: Slot,
    /// The slot that was added first. `NONE` if the queue is empty.
    oldest: Slot,
    /// Number of slots in the queue.
    len: u32,
    /// Sum of the item lengths of these slots, in bytes.
    bytes: u64,
}

/// The limits that [`Queues::evict_excess`] enforces on each miniature cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    /// Maximum number of bytes of the items in the small and the main part.
    pub(super) bytes: u64,
    /// Maximum number of ghosts. A policy without a long ghost window uses half of them.
    pub(super) ghosts: u32,
    /// The current second. An item that has expired is evicted even if its frequency is not 0.
    pub(super) now_s: u32,
}

/// The queues of all miniature caches.
#[derive(Debug)]
pub(super) struct Queues {
    /// For each slot and policy: the next newer slot in the same queue.
    newer: Box<[[Slot; POLICY_COUNT]]>,
    /// For each slot and policy: the next older slot in the same queue.
    older: Box<[[Slot; POLICY_COUNT]]>,
    /// For each slot and policy: its [`State`].
    state: Box<[[u8; POLICY_COUNT]]>,
    /// For each policy: the queues of the small part, the main part and the ghosts.
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

    /// Empties all queues.
    pub(super) fn clear(&mut self) {
        self.state.fill([State::ABSENT.0; POLICY_COUNT]);
        self.queues = Default::default();
    }

    /// The number of items in the cache of a policy, without ghosts.
    pub(super) fn item_count(&self, policy: usize) -> u32 {
        let [small, main, _] = &self.queues[policy];
        small.len + main.len
    }

    fn state(&self, policy: usize, slot: Slot) -> State {
        State(self.state[usize::from(slot)][policy])
    }

    /// Whether the cache of a policy contains the item. A ghost is not an item.
    pub(super) fn contains(&self, policy: usize, slot: Slot) -> bool {
        let queued = self.state(policy, slot).queued();
        matches!(queued, Queued::Small | Queued::Main)
    }

    /// Whether the slot is in no queue of any cache.
    pub(super) fn is_in_no_cache(&self, slot: Slot) -> bool {
        (0..POLICY_COUNT).all(|policy| self.state(policy, slot).queued() == Queued::Absent)
    }

    /// Increments the frequency counter of an item in the cache of a policy, after a request for
    /// the item. `is_first` is true for the item's first request in the current second. A later
    /// request in the same second increments the counter only if it is zero.
    pub(super) fn count_request(&mut self, policy: usize, slot: Slot, is_first: bool) {
        let state = self.state(policy, slot);
        if is_first || state.frequency() == 0 {
            self.state[usize::from(slot)][policy] =
                State::new(state.queued(), state.frequency() + 1).0;
        }
    }

    /// Inserts an item into every cache that does not contain it. Returns whether at least one
    /// cache did not contain it. Evicts nothing, because an eviction could release the slot, which
    /// the caller still uses. So the caller has to call [`Queues::evict_excess`] afterwards.
    pub(super) fn insert_missing(&mut self, directory: &Directory, slot: Slot) -> bool {
        let mut was_missing = false;
        for policy in 0..POLICY_COUNT {
            if !self.contains(policy, slot) {
                let before = self.unlink(directory, policy, slot);
                self.push_newest(directory, policy, slot, inserted_state(policy, before));
                was_missing = true;
            }
        }
        was_missing
    }

    /// Overwrites an item. In each cache that contains the item, the item becomes the newest of its
    /// part, and its frequency is incremented. The other caches insert the item.
    pub(super) fn overwrite(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before: [State; POLICY_COUNT] =
            std::array::from_fn(|policy| self.unlink(directory, policy, slot));
        directory.set_traits(slot, traits);
        for (policy, before) in before.into_iter().enumerate() {
            let state = match before.queued() {
                Queued::Small | Queued::Main => State::new(before.queued(), before.frequency() + 1),
                Queued::Ghost | Queued::Absent => inserted_state(policy, before),
            };
            self.push_newest(directory, policy, slot, state);
        }
    }

    /// Updates the length and expiry of an item, without moving it in its queues.
    pub(super) fn set_traits(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before = directory.bytes(slot);
        directory.set_traits(slot, traits);
        for policy in 0..POLICY_COUNT {
            if let Some(index) = queue_index(self.state(policy, slot).queued()) {
                let bytes = &mut self.queues[policy][index].bytes;
                *bytes = *bytes - before + directory.bytes(slot);
            }
        }
    }

    /// Removes a slot from the queues of all caches.
    pub(super) fn remove(&mut self, directory: &Directory, slot: Slot) {
        for policy in 0..POLICY_COUNT {
            self.unlink(directory, policy, slot);
        }
    }

    /// Evicts items and drops ghosts until each cache is within the capacity, in at most
    /// [`MINIATURE_STEPS`] steps for each cache. The next call continues.
    pub(super) fn evict_excess(&mut self, directory: &mut Directory, capacity: Capacity) {
        for policy in 0..POLICY_COUNT {
            self.evict_excess_of(directory, policy, capacity);
        }
    }

    /// Does the work of [`Queues::evict_excess`] for the cache of one policy.
    fn evict_excess_of(&mut self, directory: &mut Directory, policy: usize, capacity: Capacity) {
        let eviction_policy = &POLICIES[policy];
        for _ in 0..MINIATURE_STEPS {
            let [small, main, ghosts] = &self.queues[policy];
            if ghosts.len > eviction_policy.ghost_window(capacity.ghosts) {
                let slot = ghosts.oldest;
                self.unlink(directory, policy, slot);
                self.remove_if_in_no_cache(directory, slot);
                continue;
            }
            if small.bytes + main.bytes <= capacity.bytes {
                return;
            }
            // The cache holds too many bytes.
            let small_share = eviction_policy.small_share(capacity.bytes);
            let part = next_part(small.bytes, small_share, main.len == 0);
            let slot = match part {
                Part::Small => small.oldest,
                Part::Main => main.oldest,
            };
            let state = self.unlink(directory, policy, slot);
            // Policies without decay keep an item if its last request was late in the life of its
            // segment. A miniature has no segments, so it treats every request as late.
            let next = match eviction_policy.decide(part, state.frequency(), || true) {
                _ if directory.expiry(slot).is_past(capacity.now_s) => State::ABSENT,
                EvictionDecision::Keep { part, frequency } => State::new(queue_of(part), frequency),
                EvictionDecision::Evict if leaves_ghost(part) => State::new(Queued::Ghost, 0),
                EvictionDecision::Evict => State::ABSENT,
            };
            match next.queued() {
                Queued::Absent => self.remove_if_in_no_cache(directory, slot),
                _ => self.push_newest(directory, policy, slot, next),
            }
        }
    }

    /// Releases a slot that is in no queue of any cache.
    fn remove_if_in_no_cache(&self, directory: &mut Directory, slot: Slot) {
        if self.is_in_no_cache(slot) {
            directory.remove(slot);
        }
    }

    /// Removes a slot from its queue in the cache of a policy. Returns its old state.
    fn unlink(&mut self, directory: &Directory, policy: usize, slot: Slot) -> State {
        let at = usize::from(slot);
        let state = self.state(policy, slot);
        let Some(index) = queue_index(state.queued()) else {
            return state;
        };
        let queue = &mut self.queues[policy][index];
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

    /// Adds a slot to the queue that `state` names, as the newest, and sets its state.
    fn push_newest(&mut self, directory: &Directory, policy: usize, slot: Slot, state: State) {
        let at = usize::from(slot);
        let Some(index) = queue_index(state.queued()) else {
            return;
        };
        let queue = &mut self.queues[policy][index];
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

    /// For tests: checks that the links of every queue are consistent, and that its length and
    /// bytes are the sums over its slots.
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
