//! The variant that the study's authors propose: the published design without doubling, and so
//! without the lock on the whole table. The number of slots follows from maxmem.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::entries::{Entries, LengthLimit, Slot, empty_slots};
use super::limits;
use super::locks::LockWaits;
use super::small_cache::{SharedCache, SmallCache, Stored};

/// A cache with a lock per slot and a fixed number of slots. It evicts when memory is used up or
/// half of the slots are in use, so that values shorter than [`limits::PRESIZED_ITEM_LEN`] on
/// average do not use all of maxmem.
///
/// The first set allocates the table. From then on maxmem cannot change, not even while the cache
/// is empty.
#[derive(Debug, Clone)]
pub struct Presized(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: OnceLock<PresizedTable>,
    /// Maxmem until there is a table, which is allocated while this is locked.
    maxmem: Mutex<u64>,
}

#[derive(Debug)]
struct PresizedTable {
    slots: Box<[Slot]>,
    entries: Entries,
}

impl PresizedTable {
    fn new(maxmem: u64) -> Self {
        let count = slots_for(maxmem);
        Self {
            slots: empty_slots(count),
            entries: Entries::new(count, maxmem),
        }
    }
}

/// Twice as many slots as maxmem has room for items of the assumed length.
fn slots_for(maxmem: u64) -> usize {
    let slots = 2 * (maxmem / limits::PRESIZED_ITEM_LEN);
    let slots = usize::try_from(slots).unwrap_or(usize::MAX);
    slots.clamp(limits::SLOTS_INITIAL, limits::PRESIZED_SLOTS_MAX)
}

impl Presized {
    /// An empty cache whose values take at most `maxmem` bytes.
    #[must_use]
    pub fn new(maxmem: u64) -> Self {
        Self(Arc::new(Shared {
            table: OnceLock::new(),
            maxmem: Mutex::new(maxmem),
        }))
    }

    fn table(&self) -> Option<&PresizedTable> {
        self.0.table.get()
    }

    fn allocated(&self) -> &PresizedTable {
        self.table().unwrap_or_else(|| {
            let maxmem = self.maxmem();
            self.0.table.get_or_init(|| PresizedTable::new(*maxmem))
        })
    }

    fn maxmem(&self) -> MutexGuard<'_, u64> {
        let maxmem = self.0.maxmem.lock();
        maxmem.unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedCache for Presized {
    fn handle(&self) -> Box<dyn SmallCache> {
        Box::new(self.clone())
    }

    fn lock_waits(&self) -> LockWaits {
        let table = self.table();
        table.map_or_else(LockWaits::default, |table| table.entries.waits.waits())
    }
}

impl SmallCache for Presized {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored {
        let table = self.allocated();
        let limit = LengthLimit {
            most: table.slots.len() / 2,
            evicts: true,
        };
        let stored = table.entries.set(&table.slots, limit, key, value);
        // With eviction allowed, a set does not fail.
        stored.unwrap_or(Stored::NoRoom)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.table()
            .is_some_and(|table| table.entries.get(&table.slots, key, out))
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.table()
            .is_some_and(|table| table.entries.delete(&table.slots, key))
    }

    fn space_used(&mut self) -> u64 {
        self.table().map_or(0, |table| table.entries.used())
    }

    fn set_maxmem(&mut self, maxmem: u64) -> bool {
        let mut current = self.maxmem();
        let is_unused = self.table().is_none();
        if is_unused {
            *current = maxmem;
        }
        is_unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_slots_follows_from_maxmem() {
        assert_eq!(slots_for(0), limits::SLOTS_INITIAL);
        assert_eq!(slots_for(256_000), 2_000);
        assert_eq!(slots_for(u64::MAX), limits::PRESIZED_SLOTS_MAX);
    }

    #[test]
    fn maxmem_changes_until_the_first_set() {
        let mut cache = Presized::new(0);
        assert!(cache.set_maxmem(3));
        assert_eq!(cache.set(b"key", b"long"), Stored::TooLarge);
        assert!(!cache.set_maxmem(4));
        assert_eq!(cache.set(b"key", b"abc"), Stored::Stored);
        assert_eq!(cache.space_used(), 3);
    }
}
