//! One shard: a table from hash to slot, and the slots in a list from most to least recent.

use hashbrown::HashTable;

use crate::item::Expiry;
use crate::ledger::Block;

/// No slot.
const NONE: u32 = u32::MAX;

/// Where an item stands in its shard.
pub(crate) type SlotIndex = u32;

/// What the index knows of an item.
#[derive(Debug)]
pub(crate) struct Slot {
    /// None: the slot is free.
    pub(crate) block: Option<Block>,
    pub(crate) hash: u64,
    pub(crate) cas: u64,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) last_access_s: u32,
    /// The flush generation it was written in.
    pub(crate) generation: u32,
    pub(crate) fetched: bool,
    pub(crate) stale: bool,
    pub(crate) claimed: bool,
    newer: u32,
    older: u32,
}

/// The facts of an item to be linked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) cas: u64,
    pub(crate) stale: bool,
    pub(crate) claimed: bool,
}

impl Slot {
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            flags: self.flags,
            expiry: self.expiry,
            cas: self.cas,
            stale: self.stale,
            claimed: self.claimed,
        }
    }
}

/// Counters of a shard, read for statistics.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) items: u64,
    pub(crate) stored: u64,
    pub(crate) evicted: u64,
    pub(crate) evicted_unfetched: u64,
    pub(crate) expired: u64,
    pub(crate) expired_unfetched: u64,
}

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    table: HashTable<SlotIndex>,
    slots: Vec<Slot>,
    free: u32,
    newest: u32,
    oldest: u32,
    cursor: usize,
    cas: u64,
    pub(crate) tally: Tally,
}

impl Shard {
    pub(crate) fn new() -> Self {
        Self {
            table: HashTable::new(),
            slots: Vec::new(),
            free: NONE,
            newest: NONE,
            oldest: NONE,
            cursor: 0,
            cas: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) fn slot(&self, index: SlotIndex) -> &Slot {
        &self.slots[index as usize]
    }

    pub(crate) fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// A number no item of this shard had as CAS before.
    pub(crate) fn next_cas(&mut self) -> u64 {
        self.cas += 1;
        self.cas
    }

    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<SlotIndex> {
        let is_it = |&index: &SlotIndex| {
            let slot = &self.slots[index as usize];
            slot.hash == hash && slot.block.as_ref().is_some_and(|block| block.key() == key)
        };
        self.table.find(hash, is_it).copied()
    }

    /// The item read or written least recently.
    pub(crate) fn oldest(&self) -> Option<SlotIndex> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Links a new item, which must not be there yet.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        block: Block,
        facts: Facts,
        now_s: u32,
        gen_: u32,
    ) -> SlotIndex {
        let slot = Slot {
            block: Some(block),
            hash,
            cas: facts.cas,
            flags: facts.flags,
            expiry: facts.expiry,
            last_access_s: now_s,
            generation: gen_,
            fetched: false,
            stale: facts.stale,
            claimed: facts.claimed,
            newer: NONE,
            older: NONE,
        };
        let index = self.place(slot);
        let slots = &self.slots;
        self.table
            .insert_unique(hash, index, |&index| slots[index as usize].hash);
        self.push_newest(index);
        self.tally.items += 1;
        self.tally.stored += 1;
        index
    }

    /// Gives an item a new block and facts; returns the old block, to be dropped outside the lock.
    pub(crate) fn replace(
        &mut self,
        index: SlotIndex,
        block: Block,
        facts: Facts,
        now_s: u32,
        gen_: u32,
    ) -> Option<Block> {
        self.make_newest(index);
        self.tally.stored += 1;
        let slot = &mut self.slots[index as usize];
        slot.cas = facts.cas;
        slot.flags = facts.flags;
        slot.expiry = facts.expiry;
        slot.last_access_s = now_s;
        slot.generation = gen_;
        slot.fetched = false;
        slot.stale = facts.stale;
        slot.claimed = facts.claimed;
        slot.block.replace(block)
    }

    /// Unlinks an item; returns its block, to be dropped outside the lock.
    pub(crate) fn remove(&mut self, index: SlotIndex) -> Option<Block> {
        self.unlink(index);
        let hash = self.slots[index as usize].hash;
        if let Ok(entry) = self.table.find_entry(hash, |&at| at == index) {
            entry.remove();
        }
        let slot = &mut self.slots[index as usize];
        slot.older = self.free;
        self.free = index;
        self.tally.items -= 1;
        slot.block.take()
    }

    /// Notes a read.
    pub(crate) fn touch(&mut self, index: SlotIndex, now_s: u32) {
        let slot = &mut self.slots[index as usize];
        slot.fetched = true;
        if slot.last_access_s != now_s {
            slot.last_access_s = now_s;
            self.make_newest(index);
        }
    }

    /// The items of the next `most` slots in turn.
    pub(crate) fn next_slots(&mut self, most: usize) -> impl Iterator<Item = SlotIndex> + use<> {
        let start = if self.cursor < self.slots.len() {
            self.cursor
        } else {
            0
        };
        let end = self.slots.len().min(start + most);
        self.cursor = end;
        // A shard has fewer slots than `NONE`: `place` sees to it.
        start as SlotIndex..end as SlotIndex
    }

    /// Whether the last step of [`Shard::next_slots`] was the last of its round.
    pub(crate) fn round_is_over(&self) -> bool {
        self.cursor >= self.slots.len()
    }

    /// Bytes of the table and the slots.
    pub(crate) fn index_bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<Slot>() + self.table.allocation_size()) as u64
    }

    fn place(&mut self, slot: Slot) -> SlotIndex {
        if self.free != NONE {
            let index = self.free;
            self.free = self.slots[index as usize].older;
            self.slots[index as usize] = slot;
            return index;
        }
        let index = self.slots.len();
        assert!(index < NONE as usize, "a shard cannot hold so many items");
        self.slots.push(slot);
        index as SlotIndex
    }

    /// Makes an item the last to be evicted.
    pub(crate) fn make_newest(&mut self, index: SlotIndex) {
        if self.newest != index {
            self.unlink(index);
            self.push_newest(index);
        }
    }

    fn push_newest(&mut self, index: SlotIndex) {
        let second = self.newest;
        let slot = &mut self.slots[index as usize];
        slot.newer = NONE;
        slot.older = second;
        match second {
            NONE => self.oldest = index,
            second => self.slots[second as usize].newer = index,
        }
        self.newest = index;
    }

    fn unlink(&mut self, index: SlotIndex) {
        let (newer, older) = {
            let slot = &self.slots[index as usize];
            (slot.newer, slot.older)
        };
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        flags: 0,
        expiry: Expiry::NEVER,
        cas: 1,
        stale: false,
        claimed: false,
    };

    fn shard_of(keys: &[&[u8]]) -> Shard {
        let mut shard = Shard::new();
        for (hash, key) in keys.iter().enumerate() {
            shard.insert(hash as u64, Block::new(key, 1), FACTS, 0, 0);
        }
        shard
    }

    fn oldest_key(shard: &Shard) -> Vec<u8> {
        shard
            .slot(shard.oldest().unwrap())
            .block
            .as_ref()
            .unwrap()
            .key()
            .to_vec()
    }

    #[test]
    fn the_least_recent_is_the_oldest() {
        let mut shard = shard_of(&[b"a", b"b", b"c"]);
        assert_eq!(oldest_key(&shard), b"a");
        let a = shard.find(0, b"a").unwrap();
        shard.touch(a, 1);
        assert_eq!(oldest_key(&shard), b"b");
        let b = shard.find(1, b"b").unwrap();
        assert!(shard.remove(b).is_some());
        assert_eq!(shard.find(1, b"b"), None);
        assert_eq!(oldest_key(&shard), b"c");
    }

    #[test]
    fn a_freed_slot_is_used_again() {
        let mut shard = shard_of(&[b"a", b"b"]);
        let a = shard.find(0, b"a").unwrap();
        shard.remove(a);
        shard.insert(9, Block::new(b"z", 1), FACTS, 0, 0);
        assert_eq!(shard.find(9, b"z"), Some(a));
        assert_eq!(shard.tally.items, 2);
    }

    #[test]
    fn keys_with_the_same_hash_are_told_apart() {
        let mut shard = Shard::new();
        shard.insert(7, Block::new(b"one", 1), FACTS, 0, 0);
        shard.insert(7, Block::new(b"two", 1), FACTS, 0, 0);
        let one = shard.find(7, b"one").unwrap();
        shard.remove(one);
        assert_eq!(shard.find(7, b"one"), None);
        assert!(shard.find(7, b"two").is_some());
    }

    #[test]
    fn maintenance_goes_round() {
        let mut shard = shard_of(&[b"a", b"b", b"c"]);
        assert_eq!(shard.next_slots(2).count(), 2);
        assert!(!shard.round_is_over());
        assert_eq!(shard.next_slots(2).count(), 1);
        assert!(shard.round_is_over());
        assert_eq!(shard.next_slots(2).count(), 2);
    }
}
