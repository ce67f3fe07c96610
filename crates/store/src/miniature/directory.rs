//! The directory of watched keys: a hash table with a slot for each key that is in at least one of
//! the miniature caches.
//!
//! Each column of the table is an array of its own, indexed by slot, and 0 means "none" in all of
//! them. So nothing has been written to a slot that was never used, and the kernel has allocated no
//! pages for a range of such slots.

use crate::expiry::Expiry;

/// The number of a slot, or [`NONE`].
pub(super) type Slot = u16;
/// No slot.
pub(super) const NONE: Slot = 0;
/// Bytes per slot in the arrays of [`Directory`]: `hash`, `bytes`, `expiry`, `last_request_s`,
/// `next`, `first`, `is_missed`.
pub(super) const SLOT_BYTES: u64 = 8 + 4 + 4 + 4 + 2 + 2 + 1;

/// The properties of an item that the miniatures simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// The length of the item's blocks in bytes.
    pub bytes: u32,
    /// The expiry of the item.
    pub expiry: Expiry,
}

/// The hash table from the hash of a key to its slot. Keys of one bucket form a chain of slots.
#[derive(Debug)]
pub(super) struct Directory {
    /// The first slot of each bucket's chain.
    first: Box<[Slot]>,
    /// The next slot in the chain, or in the list of free slots.
    next: Box<[Slot]>,
    /// The hash of the slot's key.
    hash: Box<[u64]>,
    /// The length of the item's blocks in bytes.
    bytes: Box<[u32]>,
    /// The expiry of the item, as [`Expiry::word`].
    expiry: Box<[u32]>,
    /// The second of the last request, plus one. 0: no request since the item was inserted.
    last_request_s: Box<[u32]>,
    /// Whether the last read of the item missed in the store. If so, the next write is the client's
    /// reaction to that miss.
    is_missed: Box<[bool]>,
    /// The lowest slot that was never used.
    fresh: Slot,
    /// The first slot in the list of released slots.
    free: Slot,
    /// Number of slots in use.
    len: usize,
}

impl Directory {
    /// Creates a directory of this many slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            first: vec![NONE; slots].into(),
            next: vec![NONE; slots + 1].into(),
            hash: vec![0; slots + 1].into(),
            bytes: vec![0; slots + 1].into(),
            expiry: vec![0; slots + 1].into(),
            last_request_s: vec![0; slots + 1].into(),
            is_missed: vec![false; slots + 1].into(),
            fresh: 1,
            free: NONE,
            len: 0,
        }
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.first.fill(NONE);
        (self.fresh, self.free, self.len) = (1, NONE, 0);
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.first.len()
    }

    /// Number of slots in use.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bucket of a hash.
    fn bucket(&self, hash: u64) -> usize {
        // Use the low bits, because the high bits of the hash are 0 for every watched key.
        (hash as u32) as usize % self.first.len()
    }

    /// Returns the slot of a hash, if it has one.
    pub(super) fn find(&self, hash: u64) -> Option<Slot> {
        let mut slot = self.first[self.bucket(hash)];
        while slot != NONE {
            if self.hash[usize::from(slot)] == hash {
                return Some(slot);
            }
            slot = self.next[usize::from(slot)];
        }
        None
    }

    /// Assigns a slot to a hash that has none. Returns `None` if no slot is free.
    pub(super) fn insert(&mut self, hash: u64, traits: Traits) -> Option<Slot> {
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self.next[usize::from(slot)];
            slot
        } else if usize::from(self.fresh) <= self.slots() {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        let bucket = self.bucket(hash);
        let at = usize::from(slot);
        self.next[at] = self.first[bucket];
        self.first[bucket] = slot;
        self.hash[at] = hash;
        self.last_request_s[at] = 0;
        self.is_missed[at] = false;
        self.set_traits(slot, traits);
        self.len += 1;
        Some(slot)
    }

    /// Releases a slot.
    pub(super) fn remove(&mut self, slot: Slot) {
        let bucket = self.bucket(self.hash(slot));
        let next = self.next[usize::from(slot)];
        let mut at = self.first[bucket];
        if at == slot {
            self.first[bucket] = next;
        } else {
            while at != NONE && self.next[usize::from(at)] != slot {
                at = self.next[usize::from(at)];
            }
            debug_assert_ne!(at, NONE, "the slot is not in its chain");
            self.next[usize::from(at)] = next;
        }
        self.next[usize::from(slot)] = self.free;
        self.free = slot;
        self.len -= 1;
    }

    pub(super) fn hash(&self, slot: Slot) -> u64 {
        self.hash[usize::from(slot)]
    }

    pub(super) fn bytes(&self, slot: Slot) -> u64 {
        u64::from(self.bytes[usize::from(slot)])
    }

    pub(super) fn expiry(&self, slot: Slot) -> Expiry {
        Expiry::from_word(self.expiry[usize::from(slot)])
    }

    pub(super) fn set_traits(&mut self, slot: Slot, traits: Traits) {
        self.bytes[usize::from(slot)] = traits.bytes;
        self.expiry[usize::from(slot)] = traits.expiry.word();
    }

    /// Records a request in second `now_s`. Returns whether the request raises the frequency
    /// counters: whether it is the first request in this second, or the first since the item was
    /// inserted.
    pub(super) fn record_request(&mut self, slot: Slot, now_s: u32) -> bool {
        let last_request_s = &mut self.last_request_s[usize::from(slot)];
        std::mem::replace(last_request_s, now_s + 1) != now_s + 1
    }

    /// Forgets the second of the last request, as for an item just inserted. So
    /// [`Directory::record_request`] returns true for the next request.
    pub(super) fn forget_last_request(&mut self, slot: Slot) {
        self.last_request_s[usize::from(slot)] = 0;
    }

    /// Sets whether the last read of the item missed in the store. Returns the old value.
    pub(super) fn set_missed(&mut self, slot: Slot, is_missed: bool) -> bool {
        std::mem::replace(&mut self.is_missed[usize::from(slot)], is_missed)
    }

    /// Makes a step of an iteration over all slots. Returns `slot` if it is in use, and the slot of
    /// the next step, or `NONE` at the end.
    pub(super) fn visit(&self, slot: Slot) -> (Option<Slot>, Slot) {
        if slot >= self.fresh {
            return (None, NONE);
        }
        let is_used = self.find(self.hash(slot)) == Some(slot);
        (is_used.then_some(slot), slot + 1)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    const TRAITS: Traits = Traits {
        bytes: 10,
        expiry: Expiry::NEVER,
    };

    #[test]
    fn an_inserted_hash_is_found_until_it_is_removed() {
        let mut directory = Directory::new(8);
        let slots: Vec<Slot> = (0..8)
            .map(|hash| directory.insert(hash * 8, TRAITS).unwrap())
            .collect();
        assert_eq!(directory.insert(99, TRAITS), None, "no slot is free");
        for removed in [3, 0, 7] {
            directory.remove(slots[removed]);
        }
        assert_eq!(directory.len(), 5);
        for (hash, &slot) in (0..8).zip(&slots) {
            let found = directory.find(hash * 8);
            assert_eq!(found, (![0, 3, 7].contains(&hash)).then_some(slot));
        }
        assert!(directory.insert(99, TRAITS).is_some());
        let mut visited = 0;
        let mut next = 1;
        while next != NONE {
            let (slot, after) = directory.visit(next);
            visited += usize::from(slot.is_some());
            next = after;
        }
        assert_eq!(visited, 6);
    }

    #[test]
    fn the_first_request_and_the_first_of_each_second_raise_the_frequency() {
        let mut directory = Directory::new(8);
        let slot = directory.insert(1, TRAITS).unwrap();
        let counts: Vec<bool> = [0, 0, 1, 1, 2]
            .map(|now_s| directory.record_request(slot, now_s))
            .into();
        assert_eq!(counts, [true, false, true, false, true]);
        directory.forget_last_request(slot);
        assert!(directory.record_request(slot, 2));
    }
}
