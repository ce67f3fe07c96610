//! The registry of all live fibres. `Runtime::stop` uses it to cancel them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fibre::{Fibre, Record};
use crate::sync::{Mutex, MutexGuard, lock};

/// The registry: one *shard* (a list with its own lock) for each processor, so that processors do
/// not contend for one lock. A fibre is in the shard of the processor that spawned it. The fibres
/// that other threads spawn are put in all shards in turn.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Shard]>,
}

/// One shard, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    list: Mutex<List>,
}

/// The entries of a shard. A fibre has the same entry until it is removed.
#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    /// Indices of the free entries.
    free: Vec<u32>,
}

/// A pointer to the record of a live fibre; null if the entry is free. A pointer that is not null
/// is valid: each fibre has a reference to its own record, and is removed from the registry before
/// this reference is dropped.
#[derive(Debug)]
struct Entry(*const Record);

// SAFETY: the record is `Sync`, and a pointer that is not null is valid.
unsafe impl Send for Entry {}

impl Registry {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            shards: (0..processors).map(|_| Shard::default()).collect(),
        }
    }

    /// Locks a shard.
    fn shard(&self, number: usize) -> MutexGuard<'_, List> {
        lock(&self.shards[number].list)
    }

    /// Inserts a new fibre into the shard of a processor.
    pub(crate) fn insert(&self, processor: usize, record: &Arc<Record>) {
        let mut shard = self.shard(processor);
        let entry = Entry(Arc::as_ptr(record));
        let index = match shard.free.pop() {
            Some(index) => {
                shard.entries[index as usize] = entry;
                index
            }
            None => {
                shard.entries.push(entry);
                shard.entries.len() as u32 - 1
            }
        };
        // The record stores the index of the entry and the number of the shard in one number. If
        // this number is divided by the number of shards, the quotient is the index of the entry,
        // and the remainder is the number of the shard.
        let index = index * self.shards.len() as u32 + processor as u32;
        record.registry_index.store(index, Ordering::Relaxed);
    }

    /// Removes a fibre that has ended.
    pub(crate) fn remove(&self, record: &Record) {
        let index = record.registry_index.load(Ordering::Relaxed);
        let count = self.shards.len() as u32;
        let mut shard = self.shard((index % count) as usize);
        let index = index / count;
        shard.entries[index as usize] = Entry(std::ptr::null());
        shard.free.push(index);
    }

    /// The number of live fibres.
    pub(crate) fn len(&self) -> usize {
        let shards = 0..self.shards.len();
        shards
            .map(|number| {
                let shard = self.shard(number);
                shard.entries.len() - shard.free.len()
            })
            .sum()
    }

    /// The live fibres in the shard of a processor.
    pub(crate) fn fibres(&self, processor: usize) -> Vec<Fibre> {
        let shard = self.shard(processor);
        let live = shard.entries.iter().filter(|entry| !entry.0.is_null());
        // SAFETY: the fibre is registered, so it still holds a reference to its record.
        live.map(|entry| unsafe { Fibre::from_record(entry.0) })
            .collect()
    }
}
