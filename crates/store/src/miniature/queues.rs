//! The queues of the small caches: S3-FIFO's three for each leaning, all of the same slots.

use super::directory::{Directory, NONE, Slot, Traits};
use crate::leaning::{LEANINGS, WAYS};
use crate::limits::MINIATURE_STEPS;

/// Bytes of a slot here: newer, older, state.
pub(super) const SLOT_BYTES: u64 = WAYS as u64 * (2 + 2 + 1);
/// The counter of requests stops here, as that of the index does.
const FREQUENCY_MAX: u8 = 3;

/// Where a small cache has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Away,
    Small,
    Main,
    /// It left the small part, and its name is still known.
    Ghost,
}

const PLACES: [Place; 4] = [Place::Away, Place::Small, Place::Main, Place::Ghost];

/// What a small cache knows of a slot, in a byte.
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

/// The number of a place's queue among a cache's three.
fn queue_of(place: Place) -> Option<usize> {
    (place as usize).checked_sub(Place::Small as usize)
}

/// Where a cache has what is new.
fn first_place(way: usize) -> Place {
    match LEANINGS[way].tries {
        true => Place::Small,
        false => Place::Main,
    }
}

/// How a cache has an item that comes.
fn arrived(way: usize, before: State) -> State {
    match before.place() {
        Place::Ghost => State::new(Place::Main, 0),
        _ => State::new(first_place(way), 0),
    }
}

/// First in, first out, but for what is taken from the middle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Queue {
    newest: Slot,
    oldest: Slot,
    len: u32,
    bytes: u64,
}

/// What a small cache may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) ghosts: u32,
    /// What has expired by this second stays for no count.
    pub(super) now_s: u32,
}

/// All queues.
#[derive(Debug)]
pub(super) struct Queues {
    newer: Box<[[Slot; WAYS]]>,
    older: Box<[[Slot; WAYS]]>,
    state: Box<[[u8; WAYS]]>,
    /// Of each leaning: small, main, ghosts.
    queues: [[Queue; 3]; WAYS],
}

impl Queues {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            newer: vec![[NONE; WAYS]; slots + 1].into(),
            older: vec![[NONE; WAYS]; slots + 1].into(),
            state: vec![[State::AWAY.0; WAYS]; slots + 1].into(),
            queues: Default::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.state.fill([State::AWAY.0; WAYS]);
        self.queues = Default::default();
    }

    /// Items that a cache holds.
    pub(super) fn held(&self, way: usize) -> u32 {
        let [small, main, _] = &self.queues[way];
        small.len + main.len
    }

    fn state(&self, way: usize, slot: Slot) -> State {
        State(self.state[usize::from(slot)][way])
    }

    /// Whether a cache holds the item, rather than its name or nothing.
    pub(super) fn holds(&self, way: usize, slot: Slot) -> bool {
        let place = self.state(way, slot).place();
        matches!(place, Place::Small | Place::Main)
    }

    /// Whether no cache knows it.
    pub(super) fn is_unknown(&self, slot: Slot) -> bool {
        (0..WAYS).all(|way| self.state(way, slot).place() == Place::Away)
    }

    /// A request of an item that a cache holds; `is_first`: in its second. Who has no count left
    /// has one at once.
    pub(super) fn count(&mut self, way: usize, slot: Slot, is_first: bool) {
        let state = self.state(way, slot);
        if is_first || state.frequency() == 0 {
            self.state[usize::from(slot)][way] = State::new(state.place(), state.frequency() + 1).0;
        }
    }

    /// An item comes to every cache that does not hold it. What is then too much leaves with
    /// [`Queues::make_room`], and not before: the slot is looked at until then. Returns whether
    /// there is such a cache.
    pub(super) fn arrive(&mut self, directory: &Directory, slot: Slot) -> bool {
        let mut arrives = false;
        for way in 0..WAYS {
            if !self.holds(way, slot) {
                let before = self.take(directory, way, slot);
                self.push(directory, way, slot, arrived(way, before));
                arrives = true;
            }
        }
        arrives
    }

    /// An item is written anew: it stays where it is, as the newest there.
    pub(super) fn rewrite(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before: [State; WAYS] = std::array::from_fn(|way| self.take(directory, way, slot));
        directory.set_traits(slot, traits);
        for (way, before) in before.into_iter().enumerate() {
            let state = match before.place() {
                Place::Small | Place::Main => State::new(before.place(), before.frequency() + 1),
                Place::Ghost | Place::Away => arrived(way, before),
            };
            self.push(directory, way, slot, state);
        }
    }

    /// An item has other traits than was known.
    pub(super) fn change(&mut self, directory: &mut Directory, slot: Slot, traits: Traits) {
        let before = directory.bytes(slot);
        directory.set_traits(slot, traits);
        for way in 0..WAYS {
            if let Some(number) = queue_of(self.state(way, slot).place()) {
                let bytes = &mut self.queues[way][number].bytes;
                *bytes = *bytes - before + directory.bytes(slot);
            }
        }
    }

    /// Takes a slot out of all queues.
    pub(super) fn forget(&mut self, directory: &Directory, slot: Slot) {
        for way in 0..WAYS {
            self.take(directory, way, slot);
        }
    }

    /// Lets what is too much leave, by a few steps.
    pub(super) fn make_room(&mut self, directory: &mut Directory, room: Room) {
        for way in 0..WAYS {
            self.make_room_in(directory, way, room);
        }
    }

    fn make_room_in(&mut self, directory: &mut Directory, way: usize, room: Room) {
        let leaning = &LEANINGS[way];
        for _ in 0..MINIATURE_STEPS {
            let [small, main, ghosts] = &self.queues[way];
            let names = match leaning.remembers_long {
                true => room.ghosts,
                false => room.ghosts / 2,
            };
            if ghosts.len > names {
                let slot = ghosts.oldest;
                self.take(directory, way, slot);
                self.drop_unknown(directory, slot);
                continue;
            }
            if small.bytes + main.bytes <= room.bytes {
                return;
            }
            let is_small_large = small.bytes * 1000 > room.bytes * leaning.small_thousandths;
            let slot = match (small.len > 0 && is_small_large) || main.len == 0 {
                true => small.oldest,
                false => main.oldest,
            };
            let state = self.take(directory, way, slot);
            let stays = state.frequency().checked_sub(1);
            let next = match (state.place(), stays) {
                _ if directory.expiry(slot).is_past(room.now_s) => State::AWAY,
                (Place::Small, Some(frequency)) => State::new(Place::Main, frequency),
                (Place::Main, Some(frequency)) => match leaning.keeps_count {
                    true => State::new(Place::Main, frequency),
                    false => State::new(Place::Main, 0),
                },
                (Place::Small, None) => State::new(Place::Ghost, 0),
                _ => State::AWAY,
            };
            match next.place() {
                Place::Away => self.drop_unknown(directory, slot),
                _ => self.push(directory, way, slot, next),
            }
        }
    }

    fn drop_unknown(&self, directory: &mut Directory, slot: Slot) {
        if self.is_unknown(slot) {
            directory.remove(slot);
        }
    }

    /// Takes a slot out of its queue. Returns what was known of it.
    fn take(&mut self, directory: &Directory, way: usize, slot: Slot) -> State {
        let at = usize::from(slot);
        let state = self.state(way, slot);
        let Some(number) = queue_of(state.place()) else {
            return state;
        };
        let queue = &mut self.queues[way][number];
        queue.len -= 1;
        queue.bytes -= directory.bytes(slot);
        let (newer, older) = (self.newer[at][way], self.older[at][way]);
        match newer {
            NONE => queue.newest = older,
            newer => self.older[usize::from(newer)][way] = older,
        }
        match older {
            NONE => queue.oldest = newer,
            older => self.newer[usize::from(older)][way] = newer,
        }
        self.state[at][way] = State::AWAY.0;
        state
    }

    fn push(&mut self, directory: &Directory, way: usize, slot: Slot, state: State) {
        let at = usize::from(slot);
        let Some(number) = queue_of(state.place()) else {
            return;
        };
        let queue = &mut self.queues[way][number];
        queue.len += 1;
        queue.bytes += directory.bytes(slot);
        let before = std::mem::replace(&mut queue.newest, slot);
        match before {
            NONE => queue.oldest = slot,
            before => self.newer[usize::from(before)][way] = slot,
        }
        self.older[at][way] = before;
        self.newer[at][way] = NONE;
        self.state[at][way] = state.0;
    }

    /// For tests: every queue is whole, and its sums are those of its slots.
    #[cfg(test)]
    pub(super) fn check(&self, directory: &Directory) {
        for (way, queues) in self.queues.iter().enumerate() {
            for (queue, place) in queues.iter().zip(&PLACES[1..]) {
                let (mut slot, mut len, mut bytes, mut before) = (queue.oldest, 0, 0, NONE);
                while slot != NONE {
                    assert_eq!(self.state(way, slot).place(), *place);
                    assert_eq!(self.older[usize::from(slot)][way], before);
                    assert_eq!(directory.find(directory.hash(slot)), Some(slot));
                    len += 1;
                    bytes += directory.bytes(slot);
                    before = slot;
                    slot = self.newer[usize::from(slot)][way];
                }
                assert_eq!((queue.newest, queue.len, queue.bytes), (before, len, bytes));
            }
        }
    }
}
