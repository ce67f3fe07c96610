//! The unthreaded cache behind one lock.

use std::sync::{Arc, Mutex};

use super::locks::{LockCounters, LockWaits};
use super::small_cache::{SharedCache, SmallCache, Stored};
use super::unthreaded::Unthreaded;

/// An [`Unthreaded`] cache in a mutex.
#[derive(Debug, Clone)]
pub struct Global(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cache: Mutex<Unthreaded>,
    waits: LockCounters,
}

impl Global {
    /// An empty cache whose values take at most `maxmem` bytes.
    #[must_use]
    pub fn new(maxmem: u64) -> Self {
        Self(Arc::new(Shared {
            cache: Mutex::new(Unthreaded::new(maxmem)),
            waits: LockCounters::default(),
        }))
    }

    fn locked<R>(&self, operation: impl FnOnce(&mut Unthreaded) -> R) -> R {
        operation(&mut self.0.waits.entry.lock(&self.0.cache))
    }
}

impl SharedCache for Global {
    fn handle(&self) -> Box<dyn SmallCache> {
        Box::new(self.clone())
    }

    fn lock_waits(&self) -> LockWaits {
        self.0.waits.waits()
    }
}

impl SmallCache for Global {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored {
        self.locked(|cache| cache.set(key, value))
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.locked(|cache| cache.get(key, out))
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.locked(|cache| cache.delete(key))
    }

    fn space_used(&mut self) -> u64 {
        self.locked(Unthreaded::space_used)
    }

    fn set_maxmem(&mut self, maxmem: u64) -> bool {
        self.locked(|cache| cache.set_maxmem(maxmem))
    }
}
