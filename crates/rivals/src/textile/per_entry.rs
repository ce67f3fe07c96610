//! The published design, with its faults corrected: a read-write lock per slot and global locks.
//!
//! `capacity` is the lock on the table as a whole. Every operation holds it for reading from begin
//! to end, and doubling holds it for writing. Lock order: `capacity`, then those of
//! [`entries`](super::entries).

use std::sync::{Arc, RwLock};

use super::entries::{Entries, LengthLimit, Slot, empty_slots};
use super::limits;
use super::locks::{LockCounters, LockWaits};
use super::small_cache::{SharedCache, SmallCache, Stored};

/// A cache with a lock per slot, whose table doubles when more than half of its slots are in use.
#[derive(Debug, Clone)]
pub struct PerEntry(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    capacity: RwLock<Box<[Slot]>>,
    entries: Entries,
    slots_max: usize,
}

impl PerEntry {
    /// An empty cache whose values take at most `maxmem` bytes.
    #[must_use]
    pub fn new(maxmem: u64) -> Self {
        Self::with_slots(limits::SLOTS_INITIAL, limits::SLOTS_MAX, maxmem)
    }

    fn with_slots(slots: usize, slots_max: usize, maxmem: u64) -> Self {
        Self(Arc::new(Shared {
            capacity: RwLock::new(empty_slots(slots)),
            entries: Entries::new(slots, maxmem),
            slots_max,
        }))
    }

    fn waits(&self) -> &LockCounters {
        &self.0.entries.waits
    }

    fn locked<R>(&self, operation: impl FnOnce(&[Slot], &Entries) -> R) -> R {
        let slots = self.waits().capacity.read(&self.0.capacity);
        operation(&slots, &self.0.entries)
    }

    fn can_double(&self, slots: usize) -> bool {
        2 * slots <= self.0.slots_max
    }

    fn is_crowded(&self, slots: usize) -> bool {
        2 * self.0.entries.length() > slots && self.can_double(slots)
    }

    /// Doubles the table if no other thread has done so meanwhile.
    fn double(&self) {
        let mut slots = self.waits().capacity.write(&self.0.capacity);
        if self.is_crowded(slots.len()) {
            let count = 2 * slots.len();
            *slots = self.0.entries.rehash(&mut slots, count);
        }
    }
}

impl SharedCache for PerEntry {
    fn handle(&self) -> Box<dyn SmallCache> {
        Box::new(self.clone())
    }

    fn lock_waits(&self) -> LockWaits {
        self.waits().waits()
    }
}

impl SmallCache for PerEntry {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored {
        for _ in 0..limits::DOUBLINGS_MAX {
            let (stored, is_crowded) = self.locked(|slots, entries| {
                let can_double = self.can_double(slots.len());
                // A table that can double may briefly be more than half full: many threads may
                // insert before the first of them doubles it.
                let limit = LengthLimit {
                    most: if can_double {
                        slots.len()
                    } else {
                        slots.len() / 2
                    },
                    evicts: !can_double,
                };
                let stored = entries.set(slots, limit, key, value);
                (stored, self.is_crowded(slots.len()))
            });
            if is_crowded {
                self.double();
            }
            // Otherwise the table was full, and has doubled.
            if let Ok(stored) = stored {
                return stored;
            }
        }
        Stored::NoRoom
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.locked(|slots, entries| entries.get(slots, key, out))
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.locked(|slots, entries| entries.delete(slots, key))
    }

    fn space_used(&mut self) -> u64 {
        self.0.entries.used()
    }

    fn set_maxmem(&mut self, maxmem: u64) -> bool {
        self.0.entries.set_maxmem(maxmem)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::super::locks::preemption;
    use super::*;

    #[test]
    fn a_table_that_cannot_double_evicts() {
        let mut cache = PerEntry::with_slots(4, 16, 0);
        for number in 0..20 {
            assert_eq!(cache.set(&[number], b""), Stored::Stored);
        }
        let present = (0..20).filter(|number| cache.get(&[*number], &mut Vec::new()));
        let present: Vec<u8> = present.collect();
        assert_eq!(present, [12, 13, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn threads_that_find_the_table_crowded_double_it_once() {
        let cache = PerEntry::with_slots(4, 1 << 20, 0);
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for thread in 0..8 {
                let (mut handle, barrier) = (cache.handle(), &barrier);
                scope.spawn(move || {
                    preemption::enable(thread);
                    for number in 0..100_u64 {
                        barrier.wait();
                        let key = (100 * thread + number).to_le_bytes();
                        assert_eq!(handle.set(&key, b""), Stored::Stored);
                    }
                });
            }
        });
        // 800 items are more than half of 1024 slots.
        assert_eq!(cache.locked(|slots, _| slots.len()), 2048);
    }
}
