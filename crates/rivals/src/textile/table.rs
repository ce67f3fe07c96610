//! The table of the study for one thread: open addressing with linear probing.
//!
//! An item lies at most `longest_probe` slots after its home slot, where `longest_probe` is a
//! number of the home slot. A search therefore passes over empty slots and ends after a known
//! number of them, and a deletion leaves no tombstone. The number only grows until the table
//! doubles.

use super::limits;
use super::recency::Recency;

/// A key and its value.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) key: Box<[u8]>,
    pub(super) value: Box<[u8]>,
}

impl Item {
    /// Length of the value in bytes.
    pub(super) fn value_len(&self) -> u64 {
        self.value.len() as u64
    }
}

/// The hash function djb2 of D. J. Bernstein (comp.lang.c, 1991), the original's default
/// (`defaultHash`), which ends at the NUL. Here a NUL is a byte like others.
pub(super) fn djb2(key: &[u8]) -> u64 {
    key.iter().fold(5381, |hash: u64, byte| {
        hash.wrapping_mul(33).wrapping_add(u64::from(*byte))
    })
}

#[derive(Debug, Default)]
struct Slot {
    item: Option<Item>,
    /// Distance to the most distant slot that an item with this home was placed in.
    longest_probe: u32,
}

/// Items by key and in order of recency, without a memory limit.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    slots_max: usize,
    recency: Recency,
    /// Number of items: at most half the slots between operations.
    length: usize,
    /// Sum of the lengths of all values, in bytes.
    used: u64,
}

impl Table {
    pub(super) fn new() -> Self {
        Self::with_slots(limits::SLOTS_INITIAL, limits::SLOTS_MAX)
    }

    fn with_slots(slots: usize, slots_max: usize) -> Self {
        Self {
            slots: std::iter::repeat_with(Slot::default).take(slots).collect(),
            slots_max,
            recency: Recency::new(slots),
            length: 0,
            used: 0,
        }
    }

    /// Sum of the lengths of all values, in bytes.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The item of a key, which becomes the most recently used one.
    pub(super) fn touch(&mut self, key: &[u8]) -> Option<&Item> {
        let slot = self.find(key)?;
        self.recency.touch(slot);
        self.slots[slot].item.as_ref()
    }

    /// Removes the item of a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Item> {
        let slot = self.find(key)?;
        self.take(slot)
    }

    /// Removes the least recently used item.
    pub(super) fn evict(&mut self) -> Option<Item> {
        let slot = self.recency.oldest()?;
        self.take(slot)
    }

    /// Adds an item whose key is absent, as the most recently used one. Returns the item that was
    /// evicted for it if the table could not double.
    pub(super) fn insert(&mut self, item: Item) -> Option<Item> {
        self.used += item.value_len();
        self.length += 1;
        place(&mut self.slots, &mut self.recency, item);
        if 2 * self.length <= self.slots.len() {
            return None;
        }
        if 2 * self.slots.len() > self.slots_max {
            return self.evict();
        }
        self.double();
        None
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        let capacity = self.slots.len();
        let home = home(key, capacity);
        let longest_probe = self.slots[home].longest_probe as usize;
        (home..=home + longest_probe)
            .map(|slot| slot % capacity)
            .find(|slot| {
                let item = self.slots[*slot].item.as_ref();
                item.is_some_and(|item| *item.key == *key)
            })
    }

    fn take(&mut self, slot: usize) -> Option<Item> {
        let item = self.slots[slot].item.take()?;
        self.recency.unlink(slot);
        self.length -= 1;
        self.used -= item.value_len();
        Some(item)
    }

    fn double(&mut self) {
        let capacity = 2 * self.slots.len();
        let mut slots: Vec<_> = std::iter::repeat_with(Slot::default)
            .take(capacity)
            .collect();
        let mut recency = Recency::new(capacity);
        for slot in self.recency.oldest_first() {
            if let Some(item) = self.slots[slot].item.take() {
                place(&mut slots, &mut recency, item);
            }
        }
        self.slots = slots;
        self.recency = recency;
    }
}

/// The slot at which the search for a key begins.
pub(super) fn home(key: &[u8], capacity: usize) -> usize {
    (djb2(key) % capacity as u64) as usize
}

/// Puts an item into the first empty slot from its home on. There is one: at most half the slots
/// are in use before.
fn place(slots: &mut [Slot], recency: &mut Recency, item: Item) {
    let capacity = slots.len();
    let home = home(&item.key, capacity);
    for probe in 0..capacity {
        let slot = (home + probe) % capacity;
        if slots[slot].item.is_none() {
            slots[slot].item = Some(item);
            let longest_probe = &mut slots[home].longest_probe;
            *longest_probe = (*longest_probe).max(probe as u32);
            recency.push(slot);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn djb2_is_that_of_the_original() {
        assert_eq!(djb2(b""), 5381);
        assert_eq!(djb2(b"a"), 177_670);
        assert_eq!(djb2(b"ab"), 5_863_208);
    }

    #[test]
    fn a_table_that_cannot_double_evicts() {
        let mut table = Table::with_slots(4, 16);
        for number in 0..20 {
            let evicted = table.insert(Item {
                key: [number].into(),
                value: [].into(),
            });
            let evicted = evicted.map(|item| item.key[0]);
            assert_eq!(evicted, number.checked_sub(8));
        }
        let present = (0..20).filter(|number| table.touch(&[*number]).is_some());
        assert!(present.eq(12..20));
    }
}
