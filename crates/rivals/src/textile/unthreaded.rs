//! The study's unthreaded cache.

use super::small_cache::{SmallCache, Stored};
use super::table::{Item, Table};

/// One table with a memory limit, for one thread.
#[derive(Debug)]
pub struct Unthreaded {
    table: Table,
    maxmem: u64,
}

impl Unthreaded {
    /// An empty cache whose values take at most `maxmem` bytes.
    #[must_use]
    pub fn new(maxmem: u64) -> Self {
        Self {
            table: Table::new(),
            maxmem,
        }
    }
}

impl SmallCache for Unthreaded {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored {
        let value_len = value.len() as u64;
        if value_len > self.maxmem {
            return Stored::TooLarge;
        }
        self.table.remove(key);
        while self.table.used() > self.maxmem - value_len && self.table.evict().is_some() {}
        self.table.insert(Item {
            key: key.into(),
            value: value.into(),
        });
        Stored::Stored
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let item = self.table.touch(key);
        if let Some(item) = item {
            out.extend_from_slice(&item.value);
        }
        item.is_some()
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.table.remove(key).is_some()
    }

    fn space_used(&mut self) -> u64 {
        self.table.used()
    }

    fn set_maxmem(&mut self, maxmem: u64) -> bool {
        let is_empty = self.table.used() == 0;
        if is_empty {
            self.maxmem = maxmem;
        }
        is_empty
    }
}
