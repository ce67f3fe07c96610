//! The handle of a thread on the store, and the parts that several operations on items share.

pub(crate) mod access;
mod accounting;
mod cursor;
pub(crate) mod evicted;
mod holes;
pub(crate) mod tier;
mod validity;

use std::cell::{Cell, RefCell};
use std::fmt;

use rapidhash::v3::rapidhash_v3_seeded;

pub(crate) use cursor::Cursor;
use evicted::EvictedItems;
use holes::Holes;
use tier::Restoring;

use crate::epochs::WorkerSlot;
use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::block::Block;
use crate::heap::live::Column;
use crate::heap::{BlockRef, Location};
use crate::index::{Entry, Position};
use crate::limits::{RESIZE_BUCKETS, VISITS_MAX};
use crate::log::AllocTarget;
use crate::miniature::SampleLimiter;
use crate::statistics::counters::{Counter, Counters};
use crate::statistics::size_class::item_len;
use crate::store::{Lease, Store};
use crate::sync::Arc;

/// The hash of a key, computed once per request, and the remembered position of the key's entry in
/// the index. [`Worker::prefetch_item`] sets the position. It is a hint: the entry may have moved
/// since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64, pub(crate) Position);

/// The handle of one thread on the store.
///
/// A worker is *online* while its thread may use items, and *offline* while the thread sleeps. An
/// online worker has to declare regularly that it is [quiescent](Worker::quiescent), which means
/// that it uses no items at that moment. Until every online worker has done so, memory of removed
/// items is not reused. Every operation on items sets an offline worker online.
pub struct Worker {
    pub(crate) store: Arc<Store>,
    /// The reference to the store that the worker's uploads clone: see [`Lease`].
    pub(crate) lease: Arc<Lease>,
    worker_slot: WorkerSlot,
    is_online: Cell<bool>,
    /// The value of [`Worker::visits`] at the start of the current write.
    pub(crate) visits_before: Cell<u64>,
    /// True while the worker waits for a segment. Evacuation by a waiting worker ignores access
    /// frequency already when two free segments are left (`Log::is_critical`).
    pub(crate) is_waiting: bool,
    pub(crate) counters: Arc<Counters>,
    /// The column of the table of live bytes (`heap/live.rs`) in which this worker counts.
    column: Column,
    /// The worker's number. Modulo the number of stripes, it selects the open segments to which the
    /// worker writes.
    stripe: usize,
    /// Number of accesses left until the next one is sampled for `stats hotkeys`.
    pub(crate) reads_until_sample: Cell<u32>,
    sample_limiter: SampleLimiter,
    /// The segment that the worker is evacuating, and the position in it.
    pub(crate) cursor: Option<Cursor>,
    /// How much of the segment of each part that the worker has evicted last had expired, in
    /// thousandths of its items' bytes.
    pub(crate) expired_thousandths: [u32; 2],
    /// The holes that this worker's writes have left.
    pub(crate) holes: RefCell<Holes>,
    /// The tier's copy that this worker is writing back into memory.
    pub(crate) restoring: Option<Restoring>,
    /// Records of evicted items, for the caller to take (`worker/evicted.rs`).
    pub(crate) evicted: RefCell<EvictedItems>,
}

impl Store {
    /// Creates a handle on the store for one thread.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Worker {
        let (counters, number) = self.add_counters();
        Worker::new(self, counters, number)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Worker {
    fn new(store: &Arc<Store>, counters: Arc<Counters>, stripe: usize) -> Self {
        Self {
            store: Arc::clone(store),
            lease: Arc::new(Lease::new(store)),
            worker_slot: store.epochs.register(),
            is_online: Cell::new(false),
            visits_before: Cell::new(0),
            is_waiting: false,
            counters,
            column: store.log.heap.live.take_column(),
            stripe,
            reads_until_sample: Cell::new(0),
            sample_limiter: SampleLimiter::default(),
            cursor: None,
            expired_thousandths: [0; 2],
            holes: RefCell::new(Holes::new()),
            restoring: None,
            evicted: RefCell::default(),
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Computes the hash of a key.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = rapidhash_v3_seeded(key, &self.store.secrets);
        KeyHash(hash, Position::default())
    }

    /// Prefetches the index buckets of a key. A hint: never waits and never fails.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.store.index.prefetch(hash.0);
    }

    /// Prefetches the item of a key, and stores the position of its index entry in `hash`. A later
    /// read or put with this hash tries that position before it searches. Call this some requests
    /// after [`prefetch`](Self::prefetch), when the buckets have arrived in the processor's cache;
    /// otherwise this call waits for them.
    #[inline]
    pub fn prefetch_item(&self, hash: &mut KeyHash) {
        if let Some(found) = self.store.index.find_candidate(hash.0, hash.1) {
            hash.1 = found.position();
            self.store.log.heap.prefetch(found.entry().location());
        }
    }

    /// Declares that the thread no longer uses any item that it found before this call. To be
    /// called after each burst of requests.
    pub fn quiescent(&mut self) {
        self.announce_quiescence();
    }

    /// Declares that the thread goes to sleep and uses no items. Implies [`Worker::quiescent`].
    pub fn offline(&mut self) {
        self.is_online.set(false);
        self.worker_slot.offline();
    }

    /// Declares that the thread is awake.
    pub fn online(&mut self) {
        self.ensure_online();
    }

    /// Sets the worker online if it is offline. Called at the start of every operation.
    #[inline]
    pub(crate) fn ensure_online(&self) {
        if !self.is_online.get() {
            self.is_online.set(true);
            self.worker_slot.online();
        }
    }

    /// Panics if the owner of an upload or a walk is another store, because its locations have no
    /// meaning in this one.
    pub(crate) fn check_owner(&self, owner: &Arc<Store>) {
        assert!(
            Arc::ptr_eq(owner, &self.store),
            "an upload or a walk of another store"
        );
    }

    /// Announces that the worker holds no references to blocks, if it is online. This is true
    /// because a block borrows the worker, and this call needs the worker exclusively. The
    /// exceptions are blocks of a pin, an upload, a draft or the cursor of an evacuation; each of
    /// them keeps its segment from being reused.
    pub(crate) fn announce_quiescence(&mut self) {
        if self.is_online.get() {
            self.worker_slot.quiescent();
        }
    }

    /// The number of blocks and index buckets that this worker has visited so far for evacuation,
    /// index resizing and index insertion. The blocks and buckets of the requested keys are not
    /// counted. For tests and benchmarks: the increase during an operation is the operation's share
    /// of that work.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.counters.value(Counter::Visits)
    }

    /// Invalidates all items that were written before second `at_s`, once that second has come. If
    /// `at_s` is not in the future, invalidates all present items immediately.
    pub fn flush(&self, at_s: u32, now_s: u32) {
        self.store.log.flush(at_s, now_s);
    }

    /// The number of visits ([`Worker::visits`]) that the current write may still make. Leaves
    /// enough for a step of index resizing.
    pub(crate) fn visits_left(&self) -> usize {
        let visited = (self.visits() - self.visits_before.get()) as usize;
        VISITS_MAX.saturating_sub(visited + RESIZE_BUCKETS)
    }

    /// Whether an item is within the maximum size, counted as memcached counts it.
    pub(crate) fn fits(&self, key: &[u8], flags: u32, value_len: usize) -> bool {
        item_len(key.len(), flags, value_len) <= self.store.config().item_max as usize
    }

    /// Returns the block at a location. The worker must have read the location from the index, or
    /// from the piece list of an item, since it was last quiescent. The block borrows the worker,
    /// so the worker cannot become quiescent while the block is in use
    /// ([`Worker::announce_quiescence`]).
    #[inline]
    pub(crate) fn block(&self, location: Location) -> Block<'_> {
        // SAFETY: the worker is online and borrowed; no location is kept across quiescence.
        unsafe { self.store.log.heap.block(location) }
    }

    /// Returns the block at a location, as [`Worker::block`] does, with its segment.
    #[inline]
    pub(crate) fn block_ref(&self, location: Location) -> BlockRef<'_> {
        BlockRef {
            location,
            block: self.block(location),
            segment: self.store.log.heap.segment_of(location),
        }
    }

    /// Returns the properties of a new block that select its open segment.
    #[inline]
    pub(crate) fn target(&self, part: Part, expiry: Expiry, now_s: u32) -> AllocTarget {
        AllocTarget {
            stripe: self.stripe,
            part,
            expiry,
            now_s,
            is_copy: false,
        }
    }

    /// Whether the block of an item with this expiry gets an expiry word. A touch of an item
    /// without the word has to move the item to another block. In a store that never evicts, there
    /// may be no memory for that block, so every block gets the word from the start.
    #[inline]
    pub(crate) fn needs_expiry_word(&self, expiry: Expiry) -> bool {
        expiry != Expiry::NEVER || !self.store.config().evicts
    }

    /// Whether the entry's item has this key.
    #[inline]
    pub(crate) fn has_key(&self, entry: Entry, key: &[u8]) -> bool {
        self.block(entry.location()).key() == key
    }

    /// Makes a step of index resizing, if one is due. Whenever the size of the index has become a
    /// multiple of the segment size, adjusts the number of segments.
    pub(crate) fn resize_index_step(&self) {
        use crate::index::ResizeStep;
        let step = self.store.index.resize_step();
        if step != ResizeStep::Idle {
            self.counters.add(Counter::Visits, RESIZE_BUCKETS as u64);
        }
        if let ResizeStep::Resized(bytes) = step
            && bytes.is_multiple_of(u64::from(self.store.log.heap.segment_size()))
        {
            self.store.update_segment_limit();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.cursor.take());
        self.store.log.heap.live.release_column(&self.column);
        self.store.remove_counters(&self.counters);
    }
}
