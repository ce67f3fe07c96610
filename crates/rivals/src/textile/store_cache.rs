//! Curtail's own store behind the study's interface.
//!
//! Differences from the other designs:
//!
//! - Maxmem limits all memory of the store: values, keys, headers, index and what evacuation needs.
//!   A maxmem below the store's minimum has the effect of the minimum, except that a value larger
//!   than maxmem is rejected. So items are evicted earlier than maxmem suggests.
//! - Space used includes keys and headers of all items.
//! - The eviction policy is the store's, not least recently used.
//! - Keys are 1 to [`store::limits::KEY_MAX`] bytes; others are rejected as too large. So are
//!   values of more than half the memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use store::{Config, ConfigError, Expiry, Mode, Read, Rejected, Store, Worker, Write};

use super::limits;
use super::locks::LockWaits;
use super::small_cache::{SharedCache, SmallCache, Stored};

/// A [`store::Store`] as a cache of the study.
pub struct StoreCache(Arc<Shared>);

struct Shared {
    current: RwLock<Current>,
    /// Number of stores before the current one. It changes while `current` is locked for writing.
    generation: AtomicU64,
    /// When the cache was created.
    start: Instant,
}

struct Current {
    store: Arc<Store>,
    maxmem: u64,
}

impl Current {
    fn new(maxmem: u64) -> Result<Self, ConfigError> {
        let memory_bytes = maxmem.max(store::limits::MEMORY_MIN);
        let item_max = (memory_bytes / 2).min(limits::STORE_ITEM_MAX);
        let store = Store::new(Config {
            memory_bytes,
            item_max: item_max as u32,
            workers: limits::STORE_WORKERS,
            ..Config::DEFAULT
        })?;
        Ok(Self { store, maxmem })
    }
}

impl StoreCache {
    /// An empty store with `maxmem` bytes of memory, but at least [`store::limits::MEMORY_MIN`].
    ///
    /// # Errors
    ///
    /// The store cannot have that much memory.
    pub fn new(maxmem: u64) -> Result<Self, ConfigError> {
        Ok(Self(Arc::new(Shared {
            current: RwLock::new(Current::new(maxmem)?),
            generation: AtomicU64::new(0),
            start: Instant::now(),
        })))
    }
}

impl SharedCache for StoreCache {
    fn handle(&self) -> Box<dyn SmallCache> {
        Box::new(Handle::new(&self.0))
    }

    /// The store has no such locks: all counts are 0.
    fn lock_waits(&self) -> LockWaits {
        LockWaits::default()
    }
}

/// The handle of a thread.
struct Handle {
    shared: Arc<Shared>,
    /// The generation that `worker` and `maxmem` belong to.
    generation: u64,
    worker: Worker,
    maxmem: u64,
}

impl Handle {
    fn new(shared: &Arc<Shared>) -> Self {
        let current = shared
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut worker = current.store.worker();
        worker.offline();
        Self {
            shared: Arc::clone(shared),
            // Written under the lock that is held here.
            generation: shared.generation.load(Ordering::Relaxed),
            worker,
            maxmem: current.maxmem,
        }
    }

    /// Moves on to the current store if maxmem has changed.
    fn refresh(&mut self) {
        // Pairs with the release in `set_maxmem`: what another thread does after it has changed
        // maxmem happens after it, too.
        if self.shared.generation.load(Ordering::Acquire) != self.generation {
            *self = Self::new(&self.shared.clone());
        }
    }

    /// The current second. The cache was created in second 1.
    fn now_s(&self) -> u32 {
        let seconds = self.shared.start.elapsed().as_secs();
        u32::try_from(seconds + 1).unwrap_or(u32::MAX)
    }
}

impl SmallCache for Handle {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored {
        self.refresh();
        if value.len() as u64 > self.maxmem {
            return Stored::TooLarge;
        }
        let hash = self.worker.hash(key);
        let write = Write::plain(Mode::Set, Expiry::NEVER);
        let now_s = self.now_s();
        let mut stored = Stored::NoRoom;
        for _ in 0..limits::RESERVE_WAITS_MAX {
            match self.worker.put(key, hash, value, &write, now_s) {
                Ok(_) => stored = Stored::Stored,
                Err(Rejected::TooLarge) => stored = Stored::TooLarge,
                Err(Rejected::NoMemory | Rejected::HoldLimit | Rejected::Deferred) => {
                    self.worker.offline();
                    thread::yield_now();
                    continue;
                }
            }
            break;
        }
        if stored == Stored::NoRoom {
            // A value that was not replaced must not be returned later.
            self.worker.delete(key, hash, None, now_s);
        }
        self.worker.offline();
        stored
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.refresh();
        let hash = self.worker.hash(key);
        let now_s = self.now_s();
        let copied = self.worker.read(key, hash, now_s, Read::default(), |item| {
            item.value().for_each(|piece| out.extend_from_slice(piece));
            Some(())
        });
        let is_found = matches!(copied, Ok(Some(())));
        // The thread may sleep until its next operation.
        self.worker.offline();
        is_found
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.refresh();
        let hash = self.worker.hash(key);
        let deleted = self.worker.delete(key, hash, None, self.now_s());
        self.worker.offline();
        matches!(deleted, store::Deleted::Deleted(_))
    }

    fn space_used(&mut self) -> u64 {
        self.refresh();
        self.worker.store().statistics().bytes_live
    }

    /// Replaces the store by a new one. A set by another thread that runs at the same time may go
    /// to the old store and be lost.
    fn set_maxmem(&mut self, maxmem: u64) -> bool {
        {
            let current = self.shared.current.write();
            let mut current = current.unwrap_or_else(PoisonError::into_inner);
            if current.store.statistics().bytes_live != 0 {
                return false;
            }
            let Ok(new) = Current::new(maxmem) else {
                return false;
            };
            *current = new;
            // Pairs with the acquire in `refresh`.
            self.shared.generation.fetch_add(1, Ordering::Release);
        }
        self.refresh();
        true
    }
}
