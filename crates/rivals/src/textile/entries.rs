//! Items in slots with a lock each, and the global locks beside them: what [`PerEntry`] and
//! [`Presized`] have in common. They differ in how they hold the slots.
//!
//! The layout is that of [`table`](super::table): a key lies at most `longest_probe` slots after
//! its home slot. The slot's `longest_probe` lock protects this number, and also serialises the
//! keys that have this home: a search holds it for reading, a set or delete for writing. So only
//! one thread at a time places or removes a key, and readers do not see the moment between the
//! removal of an old value and the placing of the new one. Eviction does not take this lock.
//!
//! Lock order: `longest_probe` of one slot → `recency` → `item` of one slot. `length` and `memory`
//! are held alone. `item` is also taken without `recency`, but only to read.
//!
//! Invariants:
//!
//! - A slot holds an item if and only if it is in the list of recency. Both change while `recency`
//!   is locked.
//! - A set reserves in `length` and `memory` before it places its item; a removal subtracts from
//!   them afterwards. So the sum of all values never exceeds maxmem, and a set that has its
//!   reservation finds an empty slot.
//! - A thread that has reserved memory waits for no thread that has not, so sets that wait for
//!   memory do not wait for each other in a cycle.
//!
//! [`PerEntry`]: super::PerEntry
//! [`Presized`]: super::Presized

use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;

use super::limits;
use super::locks::LockCounters;
use super::recency::Recency;
use super::small_cache::Stored;
use super::table::{Item, home};

/// A slot of the table.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Distance to the most distant slot that an item with this home was placed in.
    longest_probe: RwLock<u32>,
    item: RwLock<Option<Item>>,
}

/// Empty slots.
pub(super) fn empty_slots(count: usize) -> Box<[Slot]> {
    std::iter::repeat_with(Slot::default).take(count).collect()
}

/// How many items the slots may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct LengthLimit {
    /// Most items, at least 1 and at most the number of slots.
    pub(super) most: usize,
    /// Whether a set evicts to stay within the limit. If not, it fails.
    pub(super) evicts: bool,
}

/// The slots hold as many items as they may.
#[derive(Debug)]
pub(super) struct Full;

#[derive(Debug)]
struct Memory {
    /// Bytes of values that are stored or for which memory is reserved, at most `maxmem`.
    used: u64,
    maxmem: u64,
}

/// What a cache has besides its slots. Each operation takes the slots, always the same ones until
/// [`Entries::rehash`].
#[derive(Debug)]
pub(super) struct Entries {
    /// Items that are stored or for which a slot is reserved. The original has read-write locks
    /// here and for the memory. Nearly all operations write, so these are mutexes.
    length: Mutex<usize>,
    memory: Mutex<Memory>,
    recency: Mutex<Recency>,
    pub(super) waits: LockCounters,
}

impl Entries {
    /// No items in `slots` slots.
    pub(super) fn new(slots: usize, maxmem: u64) -> Self {
        Self {
            length: Mutex::new(0),
            memory: Mutex::new(Memory { used: 0, maxmem }),
            recency: Mutex::new(Recency::new(slots)),
            waits: LockCounters::default(),
        }
    }

    /// Items that are stored or for which a slot is reserved.
    pub(super) fn length(&self) -> usize {
        *self.waits.length.lock(&self.length)
    }

    /// Bytes of values, reserved memory included.
    pub(super) fn used(&self) -> u64 {
        self.waits.memory.lock(&self.memory).used
    }

    /// The limit of `used` in bytes.
    pub(super) fn maxmem(&self) -> u64 {
        self.waits.memory.lock(&self.memory).maxmem
    }

    /// Changes maxmem if no memory is used.
    pub(super) fn set_maxmem(&self, maxmem: u64) -> bool {
        let mut memory = self.waits.memory.lock(&self.memory);
        let is_empty = memory.used == 0;
        if is_empty {
            memory.maxmem = maxmem;
        }
        is_empty
    }

    /// Sets the value of a key. Fails, without any change, if the key is new, `limit` is reached
    /// and eviction is not allowed for it.
    pub(super) fn set(
        &self,
        slots: &[Slot],
        limit: LengthLimit,
        key: &[u8],
        value: &[u8],
    ) -> Result<Stored, Full> {
        let item = Item {
            key: key.into(),
            value: value.into(),
        };
        if item.value_len() > self.maxmem() {
            return Ok(Stored::TooLarge);
        }
        let home = home(key, slots.len());
        let mut longest_probe = self.waits.entry.write(&slots[home].longest_probe);
        match self.remove(slots, home, *longest_probe, key) {
            // The new item takes over what `length` counts for the old one.
            Some(old) => self.release_memory(old.value_len()),
            None => {
                if !self.reserve_slot(slots, limit)? {
                    return Ok(Stored::NoRoom);
                }
            }
        }
        let reserved = self.reserve_memory(slots, item.value_len());
        if reserved == Stored::Stored {
            let probe = self.place(slots, home, item);
            *longest_probe = (*longest_probe).max(probe);
        } else {
            self.release_slot();
        }
        Ok(reserved)
    }

    /// Appends the value of a key to `out`.
    pub(super) fn get(&self, slots: &[Slot], key: &[u8], out: &mut Vec<u8>) -> bool {
        let home = home(key, slots.len());
        let longest_probe = self.waits.entry.read(&slots[home].longest_probe);
        for slot in probed(slots.len(), home, *longest_probe) {
            let item = self.waits.entry.read(&slots[slot].item);
            if let Some(value) = value_of(item.as_ref(), key) {
                out.extend_from_slice(value);
                drop(item);
                // If the item is evicted here, another one may take the slot and be touched
                // instead. That changes when it is evicted and nothing else.
                self.waits.recency.lock(&self.recency).touch(slot);
                return true;
            }
        }
        false
    }

    /// Removes a key. False: it is absent.
    pub(super) fn delete(&self, slots: &[Slot], key: &[u8]) -> bool {
        let home = home(key, slots.len());
        let longest_probe = self.waits.entry.write(&slots[home].longest_probe);
        let removed = self.remove(slots, home, *longest_probe, key);
        if let Some(item) = &removed {
            self.release_memory(item.value_len());
            self.release_slot();
        }
        removed.is_some()
    }

    /// Moves all items to `count` new slots, at least as many as now, in the same order of recency.
    /// The caller has excluded all other operations.
    pub(super) fn rehash(&self, slots: &mut [Slot], count: usize) -> Box<[Slot]> {
        let mut new = empty_slots(count);
        let mut recency = self.waits.recency.lock(&self.recency);
        let old = std::mem::replace(&mut *recency, Recency::new(count));
        for slot in old.oldest_first() {
            if let Some(item) = exclusive(&mut slots[slot].item).take() {
                let home = home(&item.key, count);
                let probe = self.place_linked(&new, &mut recency, home, item);
                let longest_probe = exclusive(&mut new[home].longest_probe);
                *longest_probe = (*longest_probe).max(probe);
            }
        }
        new
    }

    /// Takes the item of a key out of its slot and out of the list of recency, but not out of the
    /// sums. The caller holds the home slot's `longest_probe` for writing.
    fn remove(&self, slots: &[Slot], home: usize, longest_probe: u32, key: &[u8]) -> Option<Item> {
        let slot = probed(slots.len(), home, longest_probe).find(|slot| {
            let item = self.waits.entry.read(&slots[*slot].item);
            value_of(item.as_ref(), key).is_some()
        })?;
        self.take(slots, slot, key)
    }

    /// Takes the item out of the slot in which a search found `key`. None: since the search, the
    /// item was evicted, and the slot may hold another one.
    fn take(&self, slots: &[Slot], slot: usize, key: &[u8]) -> Option<Item> {
        let mut recency = self.waits.recency.lock(&self.recency);
        let mut item = self.waits.entry.write(&slots[slot].item);
        value_of(item.as_ref(), key)?;
        recency.unlink(slot);
        item.take()
    }

    /// Removes the least recently used item. False: there is none.
    fn evict(&self, slots: &[Slot]) -> bool {
        let mut recency = self.waits.recency.lock(&self.recency);
        let Some(slot) = recency.oldest() else {
            return false;
        };
        recency.unlink(slot);
        let item = self.waits.entry.write(&slots[slot].item).take();
        drop(recency);
        if let Some(item) = item {
            self.release_memory(item.value_len());
            self.release_slot();
        }
        true
    }

    /// Counts an item that will be placed. False: other threads' sets have reserved all slots.
    fn reserve_slot(&self, slots: &[Slot], limit: LengthLimit) -> Result<bool, Full> {
        for _ in 0..limits::RESERVE_WAITS_MAX {
            loop {
                let mut length = self.waits.length.lock(&self.length);
                if *length < limit.most {
                    *length += 1;
                    return Ok(true);
                }
                drop(length);
                if !limit.evicts {
                    return Err(Full);
                }
                if !self.evict(slots) {
                    break;
                }
            }
            thread::yield_now();
        }
        Ok(false)
    }

    fn release_slot(&self) {
        *self.waits.length.lock(&self.length) -= 1;
    }

    /// Evicts until `bytes` fit, and reserves them.
    fn reserve_memory(&self, slots: &[Slot], bytes: u64) -> Stored {
        for _ in 0..limits::RESERVE_WAITS_MAX {
            loop {
                let mut memory = self.waits.memory.lock(&self.memory);
                // Maxmem may have changed since the set began.
                let Some(most) = memory.maxmem.checked_sub(bytes) else {
                    return Stored::TooLarge;
                };
                if memory.used <= most {
                    memory.used += bytes;
                    return Stored::Stored;
                }
                drop(memory);
                if !self.evict(slots) {
                    break;
                }
            }
            // All memory is reserved by sets that have not placed their items yet.
            thread::yield_now();
        }
        Stored::NoRoom
    }

    fn release_memory(&self, bytes: u64) {
        self.waits.memory.lock(&self.memory).used -= bytes;
    }

    /// Puts an item, for which a slot is reserved, into the first empty slot from its home on.
    /// Returns the distance from there.
    fn place(&self, slots: &[Slot], home: usize, item: Item) -> u32 {
        for (probe, slot) in probed(slots.len(), home, slots.len() as u32 - 1).enumerate() {
            if self.waits.entry.read(&slots[slot].item).is_some() {
                continue;
            }
            let mut recency = self.waits.recency.lock(&self.recency);
            let mut place = self.waits.entry.write(&slots[slot].item);
            if place.is_none() {
                *place = Some(item);
                recency.push(slot);
                return probe as u32;
            }
        }
        // Every slot was in use when it was looked at, though never all at once. While the list is
        // locked, no item comes or goes.
        let mut recency = self.waits.recency.lock(&self.recency);
        self.place_linked(slots, &mut recency, home, item)
    }

    /// The same while the list of recency is locked.
    fn place_linked(&self, slots: &[Slot], recency: &mut Recency, home: usize, item: Item) -> u32 {
        for (probe, slot) in probed(slots.len(), home, slots.len() as u32 - 1).enumerate() {
            let mut place = self.waits.entry.write(&slots[slot].item);
            if place.is_none() {
                *place = Some(item);
                recency.push(slot);
                return probe as u32;
            }
        }
        unreachable!("fewer items than slots are placed, and one slot is reserved for this item")
    }
}

/// The slots from `home` to the one `longest_probe` after it.
fn probed(capacity: usize, home: usize, longest_probe: u32) -> impl Iterator<Item = usize> {
    (home..=home + longest_probe as usize).map(move |slot| slot % capacity)
}

/// What a lock protects, which no other thread can have locked.
fn exclusive<T>(lock: &mut RwLock<T>) -> &mut T {
    lock.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// The value of an item if its key is `key`.
fn value_of<'a>(item: Option<&'a Item>, key: &[u8]) -> Option<&'a [u8]> {
    item.filter(|item| *item.key == *key)
        .map(|item| &*item.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another thread evicts the item between the search of a delete and its removal, and places
    /// one with the same home in its slot.
    #[test]
    fn item_that_replaced_an_evicted_one_is_not_taken_for_it() {
        let slots = empty_slots(1);
        let entries = Entries::new(1, 100);
        let limit = LengthLimit {
            most: 1,
            evicts: true,
        };
        let set = |key| entries.set(&slots, limit, key, b"value").ok();
        assert_eq!(set(b"evicted"), Some(Stored::Stored));
        assert_eq!(set(b"other"), Some(Stored::Stored));
        assert!(entries.take(&slots, 0, b"evicted").is_none());
        let mut found = Vec::new();
        assert!(entries.get(&slots, b"other", &mut found) && found == b"value");
    }
}
