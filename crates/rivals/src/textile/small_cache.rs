//! The interface of the study's caches.

use super::locks::LockWaits;

/// A cache of the study. Keys and values are byte strings, of any length and content. Only values
/// count against maxmem.
pub trait SmallCache: Send {
    /// Stores `value` under `key` and makes it the most recently used item, after as many least
    /// recently used items as needed have been evicted. A value larger than maxmem is rejected, and
    /// an earlier value of the key stays, as in the original.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Stored;

    /// Appends the value of `key` to `out` and makes it the most recently used item. False: the key
    /// is absent, and `out` is unchanged.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> bool;

    /// Removes `key`. False: it was absent.
    fn delete(&mut self, key: &[u8]) -> bool;

    /// Sum of the lengths of all values, in bytes. While other threads set values, it includes the
    /// memory reserved for these. It never exceeds maxmem. [`Design::Store`] differs, see there.
    ///
    /// [`Design::Store`]: super::Design::Store
    fn space_used(&mut self) -> u64;

    /// Changes maxmem, in bytes, while the cache is empty (space used is 0). False: it is not
    /// empty, and maxmem is unchanged.
    fn set_maxmem(&mut self, maxmem: u64) -> bool;
}

/// The outcome of [`SmallCache::set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The value was stored.
    Stored,
    /// The value is larger than maxmem. An earlier value of the key stays.
    TooLarge,
    /// Sets by other threads kept all memory reserved for as many attempts as the limits allow. The
    /// key is absent. Unthreaded caches never return this.
    NoRoom,
}

/// A cache for several threads. Each thread uses a handle of its own.
pub trait SharedCache: Send + Sync {
    /// A new handle of this cache.
    fn handle(&self) -> Box<dyn SmallCache>;

    /// Waits for locks since the cache was created, over all threads.
    fn lock_waits(&self) -> LockWaits;
}
