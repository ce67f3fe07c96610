//! The queues of the miniature caches: the three of S3-FIFO for each policy, over the same slots.

use super::directory::{Directory, NONE, Slot, Traits};
use crate::eviction_policy::{POLICIES, POLICY_COUNT};
use crate::limits::MINIATURE_STEPS;

/// Bytes per slot here: newer, older, state.
pub(super) const SLOT_BYTES: u64 = POLICY_COUNT as u64 * (2 + 2 + 1);
/// The request counter saturates here, as that of the index does.
const FREQUENCY_MAX: u8 = 3;

/// The queue of a slot in a miniature cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Away,
    Small,
    Main,
    /// Evicted from the small part, and remembered as a ghost.
    Ghost,
}

const PLACES: [Place; 4] = [Place::Away, Place::Small, Place::Main, Place::Ghost];

/// The state of a slot in a miniature cache, in a byte.
#[derive(Debug, Clone, Copy)]
struct State(u8);

impl State {
    const AWAY: Self = Self(Place::Away as u8);

    fn new(place: Place, frequency: u8) -> Self {
        Self(frequency.min(FREQUENCY_MAX) << 2 | place as u8)
    }

    fn place(self) -> Place {
        PLACES[usize::from(self.0 & 3)]
    }

    fn frequency(self) -> u8 {
        self.0 >> 2
    }
}

/// The index of the queue among a cache's three.
fn queue_of(place: Place) -> Option<usize> {
    (place as usize).checked_sub(Place::Small as usize)
}

/// The queue for new items of a cache.
fn first_place(policy: usize) -> Place {
    match POLICIES[policy].probation {
        true => Place::Small,
        false => Place::Main,
    }
}

/// The state of an inserted item in a cache.
fn arrived(target: usize, before: State) -> State {
    match before.place() {
        Place::Ghost => State::new(Place::Main, 0),
        _ => State::new(first_place(target), 0),
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

/// The limits that [`Queues::make_room`] enforces on a miniature cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) ghosts: u32,
    /// Items expired by this second are evicted whatever their counter.
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
            state: vec![[State::AWAY.0; POLICY_COUNT]; slots + 1].into(),
            queues: Default::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.state.fill([State::AWAY.0; POLICY_COUNT]);
        self.queues = Default::default();
    }

    /// Number of items in a cache.
    pub(super) fn held(&self, target: usize) -> u32 {
        let [small, main, _] = &self.queues[target];
        small.len + main.len
    }

    fn state(&self, target: usize, slot: Slot) -> State {
        State(self.state[usize::from(slot)][target])
    }

    /// Whether a cache contains the item (a ghost does not count).
    pub(super) fn holds(&self, target: usize, slot: Slot) -> bool {
        let position = self.state(target, slot).place();
        matches!(position, Place::Small | Place::Main)
    }

    /// Whether no cache knows the item.
    pub(super) fn is_unknown(&self, slot: Slot) -> bool {
        (0..POLICY_COUNT).all(|target| self.state(target, slot).place() == Place::Away)
    }

    /// Counts a request for an item in a cache. `is_first`: whether it is the item's first request
    /// in the current second; later ones count only if the counter is zero.
    pub(super) fn count(&mut self, target: usize, slot: Slot, is_first: bool) {
        let state = self.state(target, slot);
        if is_first || state.frequency() == 0 {
            self.state[usize::from(slot)][target] =
                State::new(state.place(), state.frequency() + 1).0;
        }
    }

    /// Inserts an item into every cache that does not contain it. Nothing is evicted here, because
    /// the caller still uses the slot: call [`Queues::make_room`] afterwards. Returns whether at
    /// least one cache did not contain the item.
    pub(super) fn arrive(&mut self, directory: &Directory, slot: Slot) -> bool {
        let mut arrives = false;
        for target in 0..POLICY_COUNT {
            if !self.holds(target, slot) {
                let before = self.take(directory, target, slot);
                self.push(directory, target, slot, arrived(target, before));
                arrives = true;
            }
        }
        arrives
    }

    /// Overwrites an item: it stays in its part, as the newest.
    pub(super) fn rewrite(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before: [State; POLICY_COUNT] =
            std::array::from_fn(|target| self.take(directory, target, slot));
        directory.set_traits(slot, traits);
        for (target, before) in before.into_iter().enumerate() {
            let state = match before.place() {
                Place::Small | Place::Main => State::new(before.place(), before.frequency() + 1),
                Place::Ghost | Place::Away => arrived(target, before),
            };
            self.push(directory, target, slot, state);
        }
    }

    /// Updates the traits of an item.
    pub(super) fn change(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before = directory.bytes(slot);
        directory.set_traits(slot, traits);
        for target in 0..POLICY_COUNT {
            if let Some(number) = queue_of(self.state(target, slot).place()) {
                let bytes = &mut self.queues[target][number].bytes;
                *bytes = *bytes - before + directory.bytes(slot);
            }
        }
    }

    /// Removes a slot from all queues.
    pub(super) fn forget(&mut self, directory: &Directory, slot: Slot) {
        for target in 0..POLICY_COUNT {
            self.take(directory, target, slot);
        }
    }

    /// Evicts excess items, in a few steps.
    pub(super) fn make_room(&mut self, directory: &mut Directory, room: Room) {
        for target in 0..POLICY_COUNT {
            self.make_room_in(directory, target, room);
        }
    }

    fn make_room_in(&mut self, directory: &mut Directory, target: usize, room: Room) {
        let eviction_policy = &POLICIES[target];
        for _ in 0..MINIATURE_STEPS {
            let [small, main, ghosts] = &self.queues[target];
            let names = match eviction_policy.long_ghost_window {
                true => room.ghosts,
                false => room.ghosts / 2,
            };
            if ghosts.len > names {
                let slot = ghosts.oldest;
                self.take(directory, target, slot);
                self.drop_unknown(directory, slot);
                continue;
            }
            if small.bytes + main.bytes <= room.bytes {
                return;
            }
            let small_exceeds_share =
                small.bytes * 1000 > room.bytes * eviction_policy.small_thousandths;
            let slot = match (small.len > 0 && small_exceeds_share) || main.len == 0 {
                true => small.oldest,
                false => main.oldest,
            };
            let state = self.take(directory, target, slot);
            let stays = state.frequency().checked_sub(1);
            let next = match (state.place(), stays) {
                _ if directory.expiry(slot).is_past(room.now_s) => State::AWAY,
                (Place::Small, Some(frequency)) => State::new(Place::Main, frequency),
                (Place::Main, Some(frequency)) => match eviction_policy.decay {
                    true => State::new(Place::Main, frequency),
                    false => State::new(Place::Main, 0),
                },
                (Place::Small, None) => State::new(Place::Ghost, 0),
                _ => State::AWAY,
            };
            match next.place() {
                Place::Away => self.drop_unknown(directory, slot),
                _ => self.push(directory, target, slot, next),
            }
        }
    }

    fn drop_unknown(&self, directory: &mut Directory, slot: Slot) {
        if self.is_unknown(slot) {
            directory.remove(slot);
        }
    }

    /// Removes a slot from its queue. Returns its old state.
    fn take(&mut self, directory: &Directory, target: usize, slot: Slot) -> State {
        let at = usize::from(slot);
        let state = self.state(target, slot);
        let Some(number) = queue_of(state.place()) else {
            return state;
        };
        let queue = &mut self.queues[target][number];
        queue.len -= 1;
        queue.bytes -= directory.bytes(slot);
        let (newer, older) = (self.newer[at][target], self.older[at][target]);
        match newer {
            NONE => queue.newest = older,
            newer => self.older[usize::from(newer)][target] = older,
        }
        match older {
            NONE => queue.oldest = newer,
            older => self.newer[usize::from(older)][target] = newer,
        }
        self.state[at][target] = State::AWAY.0;
        state
    }

    fn push(&mut self, directory: &Directory, target: usize, slot: Slot, state: State) {
        let at = usize::from(slot);
        let Some(number) = queue_of(state.place()) else {
            return;
        };
        let queue = &mut self.queues[target][number];
        queue.len += 1;
        queue.bytes += directory.bytes(slot);
        let before = std::mem::replace(&mut queue.newest, slot);
        match before {
            NONE => queue.oldest = slot,
            before => self.newer[usize::from(before)][target] = slot,
        }
        self.older[at][target] = before;
        self.newer[at][target] = NONE;
        self.state[at][target] = state.0;
    }

    /// For tests: checks that every queue is intact and its sums match its slots.
    #[cfg(test)]
    pub(super) fn check(&self, directory: &Directory) {
        for (target, queues) in self.queues.iter().enumerate() {
            for (queue, position) in queues.iter().zip(&PLACES[1..]) {
                let (mut slot, mut len, mut bytes, mut before) = (queue.oldest, 0, 0, NONE);
                while slot != NONE {
                    assert_eq!(self.state(target, slot).place(), *position);
                    assert_eq!(self.older[usize::from(slot)][target], before);
                    assert_eq!(directory.find(directory.hash(slot)), Some(slot));
                    len += 1;
                    bytes += directory.bytes(slot);
                    before = slot;
                    slot = self.newer[usize::from(slot)][target];
                }
                assert_eq!((queue.newest, queue.len, queue.bytes), (before, len, bytes));
            }
        }
    }
}
