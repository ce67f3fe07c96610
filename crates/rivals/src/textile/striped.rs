//! Several unthreaded tables, each behind a lock, with one memory limit.
//!
//! An operation holds the lock of one stripe at a time; only a change of maxmem takes all, in
//! their order. The memory used is one atomic sum. A set adds to it before it inserts, and a
//! removal subtracts afterwards, so the sum of all values never exceeds maxmem.
//!
//! Recency is a matter of each stripe: a set evicts from the stripe of its key first, and from the
//! other stripes in turn only if its own is empty.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use super::limits;
use super::locks::{LockCounters, LockWaits};
use super::small_cache::{SharedCache, SmallCache, Stored};
use super::table::{Item, Table, djb2};

/// A cache of [`limits::STRIPES`] stripes.
#[derive(Debug, Clone)]
pub struct Striped(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stripes: [Stripe; limits::STRIPES],
    /// Bytes of values, at most `maxmem`.
    used: AtomicU64,
    /// Changes only while all stripes are locked.
    maxmem: AtomicU64,
    waits: LockCounters,
}

/// In a cache line of its own, so that stripes do not slow down each other.
#[derive(Debug)]
#[repr(align(64))]
struct Stripe(Mutex<Table>);

impl Striped {
    /// An empty cache whose values take at most `maxmem` bytes.
    #[must_use]
    pub fn new(maxmem: u64) -> Self {
        Self(Arc::new(Shared {
            stripes: array::from_fn(|_| Stripe(Mutex::new(Table::new()))),
            used: AtomicU64::new(0),
            maxmem: AtomicU64::new(maxmem),
            waits: LockCounters::default(),
        }))
    }
}

impl Shared {
    fn lock(&self, stripe: usize) -> MutexGuard<'_, Table> {
        self.waits.entry.lock(&self.stripes[stripe].0)
    }

    /// Adds to the memory used. False: the sum would exceed maxmem.
    fn reserve(&self, bytes: u64) -> bool {
        let maxmem = self.maxmem.load(Relaxed);
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= maxmem);
        // Only the sum itself matters; the stripes' locks order everything else.
        self.used.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Removes the least recently used item of a stripe. False: there is none.
    fn evict(&self, table: &mut Table) -> bool {
        let evicted = table.evict();
        if let Some(item) = &evicted {
            self.release(item.value_len());
        }
        evicted.is_some()
    }

    /// Sets the value of a key, evicting from its stripe only. `None`: that was not enough, and the
    /// stripe is now empty.
    fn set_in(&self, table: &mut Table, key: &[u8], value: &[u8]) -> Option<Stored> {
        let value_len = value.len() as u64;
        if value_len > self.maxmem.load(Relaxed) {
            return Some(Stored::TooLarge);
        }
        loop {
            // The key becomes the most recently used one, so all others are evicted before it.
            let old_len = table.touch(key).map_or(0, Item::value_len);
            if self.reserve(value_len.saturating_sub(old_len)) {
                self.release(old_len.saturating_sub(value_len));
                break;
            }
            if !self.evict(table) {
                return None;
            }
        }
        table.remove(key);
        let evicted = table.insert(Item {
            key: key.into(),
            value: value.into(),
        });
        self.release(evicted.as_ref().map_or(0, Item::value_len));
        Some(Stored::Stored)
    }

    /// Evicts from all stripes after `own`, one after the other, until `bytes` fit.
    fn evict_from_others(&self, own: usize, bytes: u64) {
        for distance in 1..limits::STRIPES {
            let mut table = self.lock((own + distance) % limits::STRIPES);
            let most = self.maxmem.load(Relaxed).saturating_sub(bytes);
            while self.used.load(Relaxed) > most && self.evict(&mut table) {}
        }
    }
}

/// The stripe of a key: the upper bits of its hash, multiplied (Knuth, *The Art of Computer
/// Programming*, section 6.4), since the upper bits of djb2 of a short key are all 0, and the lower
/// ones choose the slot.
fn stripe_of(key: &[u8]) -> usize {
    const SHIFT: u32 = u64::BITS - limits::STRIPES.ilog2();
    (djb2(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT) as usize
}

impl SharedCache for Striped {
    fn handle(&self) -> Box<dyn SmallCache> {
        Box::new(self.clone())
    }

    fn lock_waits(&self) -> LockWaits {
        self.0.waits.waits()
    }
}

impl SmallCache for Striped {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored {
        let own = stripe_of(key);
        for _ in 0..limits::STRIPED_ROUNDS_MAX {
            let stored = self.0.set_in(&mut self.0.lock(own), key, value);
            if let Some(stored) = stored {
                return stored;
            }
            self.0.evict_from_others(own, value.len() as u64);
        }
        Stored::NoRoom
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let mut table = self.0.lock(stripe_of(key));
        let item = table.touch(key);
        if let Some(item) = item {
            out.extend_from_slice(&item.value);
        }
        item.is_some()
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let removed = self.0.lock(stripe_of(key)).remove(key);
        self.0.release(removed.as_ref().map_or(0, Item::value_len));
        removed.is_some()
    }

    fn space_used(&mut self) -> u64 {
        self.0.used.load(Relaxed)
    }

    fn set_maxmem(&mut self, maxmem: u64) -> bool {
        let _all: [_; limits::STRIPES] = array::from_fn(|stripe| self.0.lock(stripe));
        let is_empty = self.0.used.load(Relaxed) == 0;
        if is_empty {
            self.0.maxmem.store(maxmem, Relaxed);
        }
        is_empty
    }
}
