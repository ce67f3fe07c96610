//! The caches of the multithreaded-cache study (TextileCache by A. Kosik and others, Reed College,
//! 2016): the published design, its unthreaded predecessor, and variants with other locks.
//!
//! A cache maps keys to values and evicts the least recently used items when the values together
//! would exceed maxmem. [`SmallCache`] is the interface, [`Design`] the list of designs:
//!
//! | Design | Table | Locks |
//! |---|---|---|
//! | [`Unthreaded`] | linear probing from 100 slots, doubles when more than half full | none |
//! | [`Global`] | the same | one for all |
//! | [`PerEntry`], as published | the same | one per slot; capacity, length, memory, recency |
//! | [`Presized`], as its authors propose | a fixed number of slots | one per slot; length, memory, recency |
//! | [`Striped`] | 16 of the unthreaded ones | one per table |
//! | [`StoreCache`] | Curtail's own store | see the store |
//!
//! The designs are those of the paper, but the code is new. It is not meant to repeat the
//! original's faults, since a comparison of locks needs caches that work. In the following table,
//! functions are those of the original's `src/cache.c` and `src/lru.c`.
//!
//! | Original | Here |
//! |---|---|
//! | `lru_add` and `lru_remove` change the list without a lock: a data race of nearly all operations. | The list has a lock, `recency`. |
//! | `cache_resize` runs while `caplock` is held for reading only; no function takes it for writing. It frees slots in whose locks other threads wait, and two threads may double at once. | Doubling holds `capacity` for writing, and checks again whether it is needed. |
//! | `cache_resize` counts `probelength` on from one key to the next, so `maxprobe` includes the probes of other keys, and searches grow with it. | Each key has its own distance. |
//! | `cache_resize` copies every key and value. | The items move. |
//! | `cache_set` looks for the key and writes the slot in two steps. Two sets of one new key may both insert it; two of different keys may choose the same empty slot (`tentative_abode`), and the later one overwrites the earlier. | The home slot's `longest_probe` lock covers both steps for one key. A slot is checked again under its write lock. |
//! | `cache_set`, `cache_get` and `cache_delete` release a slot's read lock, take its write lock, and do not compare the key again. In between the slot may have been emptied or given to another key. | A get copies under the read lock. A removal compares the key again. |
//! | `maxprobe` is read and written without its slot's lock, except by the first search of `cache_set`. | It is what the `longest_probe` lock protects. |
//! | `cache_get` returns a pointer to the value and releases the locks. A later set, delete or eviction frees it while the caller formats the answer. | A get appends the value to the caller's buffer. |
//! | `cache_delete` calls `lru_remove`, which takes the *least recently used* entry off the list, not the deleted one. The former is never evicted unless it is used again, the latter is an empty slot that eviction still finds. | The deleted slot is taken off the list. |
//! | `cache_resize` gives every empty slot a new list entry, while the entry of a deleted key may still be in the list with its old slot number. Eviction then removes whichever key is there now. | Doubling rebuilds the list from the items. |
//! | `cache_set` evicts until the value fits, and adds its size after it was stored. Threads that check at the same time exceed maxmem together. | Memory is reserved before the value is placed. |
//! | `cache_set` subtracts the size of the key's old value in that check. If eviction removes the old value itself, it is subtracted twice, and maxmem is exceeded. | The old value is removed before the others are evicted. |
//! | While evicting, `cache_set` swaps its read lock on `memlock` for a write lock and back, holding the slot's lock. Two threads that evict the same entry (the list has no lock) may wait for each other. | `memory` and `length` are taken alone. |
//! | A delete of an absent key returns without unlocking `caplock`. As no function takes it for writing, nobody notices. | Locks are released when their guards are dropped. |
//! | Not stored because it is too large, or because the list is empty: `cache_set` returns nothing, and the server answers "Value set in cache." | [`Stored`] is the outcome. |
//! | Keys end at a NUL and are not counted; values are counted with their NUL by the server. | Keys and values are byte strings. Keys are still not counted. |
//! | A new maxmem allocates a new cache and leaks the old one. Requests under way use the old one. | Maxmem changes in place, see [`SmallCache::set_maxmem`]. |
//!
//! [`LockWaits`] tells how often and how long threads waited for each kind of lock.

mod design;
mod entries;
mod global;
pub mod limits;
mod locks;
mod per_entry;
mod presized;
mod recency;
pub mod server;
mod small_cache;
mod store_cache;
mod striped;
mod table;
#[cfg(test)]
mod tests;
mod unthreaded;
pub mod wire;

pub use design::{CreateError, Created, Design, UnknownDesign};
pub use global::Global;
pub use locks::{LockWaits, Waits};
pub use per_entry::PerEntry;
pub use presized::Presized;
pub use small_cache::{SharedCache, SmallCache, Stored};
pub use store_cache::StoreCache;
pub use striped::Striped;
pub use unthreaded::Unthreaded;
