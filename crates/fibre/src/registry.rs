//! The registry of all live fibres, which `Runtime::stop` cancels.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fibre::{Fibre, Record};
use crate::sync::{Mutex, MutexGuard, lock};

/// The registry: a shard for each processor, with the fibres that it spawned.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Shard]>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

/// A live fibre; null if the entry is free. A fibre is removed before its own reference is dropped.
#[derive(Debug)]
struct Entry(*const Record);

// SAFETY: the record is `Sync`, and the pointer is valid while it is not null.
unsafe impl Send for Entry {}

impl Registry {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            shards: (0..processors).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, number: usize) -> MutexGuard<'_, List> {
        lock(&self.shards[number].list)
    }

    /// Inserts a new fibre into a processor's shard.
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

    /// The live fibres of one shard.
    pub(crate) fn fibres(&self, number: usize) -> Vec<Fibre> {
        let shard = self.shard(number);
        let live = shard.entries.iter().filter(|entry| !entry.0.is_null());
        // SAFETY: the fibre is registered, so its own reference still exists.
        live.map(|entry| unsafe { Fibre::from_record(entry.0) })
            .collect()
    }
}
