//! The handle of a thread on the store, and the parts that several operations on items share.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::sync::PoisonError;

use rapidhash::v3::rapidhash_v3_seeded;

use crate::counters::{ClassCounter, Counter, Counters};
use crate::epochs::WorkerSlot;
use crate::evacuate::Cursor;
use crate::evicted::EvictedItem;
use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::BlockRef;
use crate::heap::Location;
use crate::heap::block::Block;
use crate::heap::block::pieces_of;
use crate::heap::live::Column;
use crate::holes::Holes;
use crate::index::{Entry, Position, Writer};
use crate::limits::{RESIZE_BUCKETS, VISITS_MAX};
use crate::log::AllocTarget;
use crate::lower_tier::Restoring;
use crate::miniature::{Observation, SampleContext, SampleLimiter, SampledAccess, Traits};
use crate::miss::Miss;
use crate::size_class::{SizeClass, item_len};
use crate::store::Store;
use crate::sync::Arc;

/// The hash of a key, computed once per request, and the remembered position of the key's entry in
/// the index. [`Worker::prefetch_item`] sets the position. It is a hint: the entry may have moved
/// since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64, pub(crate) Position);

/// A reference to the store with a reference count for one worker. The worker has an `Arc<Lease>`,
/// and each of its uploads clones it. If uploads cloned the `Arc<Store>` instead, every upload of
/// every worker would write to the one reference count of the store, whose cache line would bounce
/// between the cores.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Store>);

impl Lease {
    /// The store itself, to compare it with another one.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0
    }
}

impl Deref for Lease {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

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
    /// The group of workers that write to the same open segments.
    stripe: usize,
    /// Number of reads left until the next one is sampled for `stats hotkeys`.
    pub(crate) reads_until_sample: Cell<u32>,
    sample_limiter: SampleLimiter,
    /// The segment that the worker is evacuating, and the position in it.
    pub(crate) cursor: Option<Cursor>,
    /// The holes that this worker's writes have left.
    pub(crate) holes: RefCell<Holes>,
    /// The tier's copy that this worker is writing back into memory.
    pub(crate) restoring: Option<Restoring>,
    /// Evicted items, for a log.
    pub(crate) evicted: RefCell<Vec<EvictedItem>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn new(store: &Arc<Store>, counters: Arc<Counters>, stripe: usize) -> Self {
        Self {
            store: Arc::clone(store),
            lease: Arc::new(Lease(Arc::clone(store))),
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

    /// Prefetches the index buckets of a key. It never waits and never fails.
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

    /// Records a sampled read for `stats hotkeys`, and chooses at random the number of reads until
    /// the next sample.
    #[cold]
    pub(crate) fn record_hot_key(&self, hash: KeyHash, key: &[u8]) {
        // The only other user of this lock is `stats hotkeys`, which holds it for a short time.
        let mut sketch = self
            .counters
            .sketch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.reads_until_sample.set(sketch.record(hash.0, key));
    }

    /// Passes a request to the miniatures, if its key is watched and the key's limit of samples per
    /// second is not reached. `access` is called only then.
    #[inline]
    pub(crate) fn sample(&self, hash: KeyHash, now_s: u32, access: impl FnOnce() -> SampledAccess) {
        if self.store.miniatures.watches(hash.0) && self.sample_limiter.admits(hash.0, now_s) {
            self.sample_watched(hash.0, now_s, access());
        }
    }

    /// Passes a request of a watched key to the miniatures.
    #[cold]
    fn sample_watched(&self, hash: u64, now_s: u32, access: SampledAccess) {
        let log = &self.store.log;
        let segments = log.segment_limit().saturating_sub(log.reserve());
        let context = SampleContext {
            bytes: u64::from(segments) * u64::from(log.heap.segment_size()),
            ghosts: self.store.ghosts.capacity(),
            flushes: log.flush_count(),
        };
        let observation = Observation {
            hash,
            access,
            now_s,
        };
        let set_eviction_policy = |eviction_policy| log.set_eviction_policy(eviction_policy);
        self.store
            .miniatures
            .observe(&observation, &context, set_eviction_policy);
    }

    /// Declares that the thread uses no items any more that it has found before this call. Called
    /// after each burst.
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
    /// index resizing and index insertion. Those of the requested keys are not counted. For tests
    /// and benchmarks: the increase during an operation is the operation's share of that work.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.counters.value(Counter::Visits)
    }

    /// Invalidates all items that were written before second `at_s`, once that second has come. If
    /// it is not in the future, invalidates all present items immediately.
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

    /// The target of an allocation for a new block: it selects the open segment.
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

    /// Returns why a read of this item misses: the item has expired or was flushed. Returns `None`
    /// if the item is valid.
    #[inline]
    pub(crate) fn miss_reason(
        &self,
        location: Location,
        block: Block<'_>,
        now_s: u32,
    ) -> Option<Miss> {
        // A segment records the number of flushes before it was opened. If another flush has
        // happened since, it has invalidated all items of the segment. While there was no flush at
        // all, the segment need not be read.
        let flushes = self.store.log.perform_due_flush(now_s);
        if flushes > 0 && self.store.log.heap.segment_of(location).flush_generation() != flushes {
            return Some(Miss::Flushed);
        }
        block.expiry().is_past(now_s).then_some(Miss::Expired)
    }

    /// Adds the length of a block to the live bytes, when the block is linked.
    #[inline]
    pub(crate) fn add_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.add(&self.column, number, len);
        self.counters.add(Counter::LiveBytes, len as u64);
    }

    /// Subtracts the length of a block from the live bytes, when the block is unlinked.
    #[inline]
    pub(crate) fn sub_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.sub(&self.column, number, len);
        self.counters
            .add(Counter::LiveBytes, (len as u64).wrapping_neg());
    }

    /// Counts an item that is being linked, by its size.
    #[inline]
    pub(crate) fn count_linked(&self, block: Block<'_>) {
        self.count_item(block, 1);
    }

    /// Counts an item that was unlinked, by its size.
    #[inline]
    fn count_unlinked(&self, block: Block<'_>) {
        self.count_item(block, 1_u64.wrapping_neg());
    }

    /// Adds an item `count` times to its size class, modulo 2^64.
    #[inline]
    fn count_item(&self, block: Block<'_>, count: u64) {
        let len = item_len(block.key().len(), block.flags(), block.value_len());
        let class = SizeClass::of_len(len);
        let bytes = count.wrapping_mul(len as u64);
        self.counters
            .add_to_class(class, ClassCounter::Items, count);
        self.counters
            .add_to_class(class, ClassCounter::Bytes, bytes);
    }

    /// Subtracts an unlinked item, with its pieces, from the live bytes, and marks its head block
    /// dead. Returns the length of the head block in bytes.
    #[inline]
    pub(crate) fn account_unlinked(&self, block_ref: &BlockRef<'_>) -> usize {
        let block = block_ref.block;
        let len = block.len();
        self.sub_live(block_ref);
        self.count_unlinked(block);
        block.mark_dead();
        if block.is_in_pieces() {
            let pieces = pieces_of(block).map(|piece| self.block_ref(piece));
            pieces.for_each(|piece| self.sub_live(&piece));
        }
        len
    }

    /// Counts the eviction of the item of `block`, which was stored in `part`.
    pub(crate) fn count_evicted(&self, block: Block<'_>, part: Part, now_s: u32) {
        let (access, class) = (block.access(), SizeClass::of_block(block));
        let idle_s = now_s.saturating_sub(access.time_s(now_s));
        self.counters.count(Counter::Evicted);
        self.counters.add_to_class(class, ClassCounter::Evicted, 1);
        self.counters.set_evicted_idle(class, idle_s);
        if block.expiry() != Expiry::NEVER {
            self.counters
                .add_to_class(class, ClassCounter::EvictedExpiring, 1);
        }
        if !access.is_fetched() {
            self.counters.count(Counter::EvictedUnfetched);
            self.counters
                .add_to_class(class, ClassCounter::EvictedUnfetched, 1);
        }
        if part == Part::Main {
            self.counters.count(Counter::EvictedMain);
        }
        self.counters.count_age(idle_s);
        self.record_evicted(block, idle_s, now_s);
    }

    /// Unlinks the item at `location`, which was found expired or flushed without a lock. Returns
    /// false, and does nothing, if the index does not refer to the location any more, or if a touch
    /// has extended the item's expiry.
    pub(crate) fn unlink_expired(&self, hash: u64, location: Location, now_s: u32) -> bool {
        let writer = self.store.index.lock(hash);
        let Some(found) = writer.find(|entry| entry.location() == location) else {
            return false;
        };
        let block = self.block(location);
        if self.miss_reason(location, block, now_s).is_none() {
            return false;
        }
        self.unlink_expired_found(&writer, &found, block, now_s);
        true
    }

    /// Unlinks an expired or flushed item. `found` is its entry, which was found under the lock of
    /// the shard that `writer` holds.
    pub(crate) fn unlink_expired_found(
        &self,
        writer: &Writer<'_>,
        found: &crate::index::Found,
        block: Block<'_>,
        now_s: u32,
    ) {
        writer.remove(found);
        self.remove_from_tier(writer, now_s);
        self.count_expired(block);
        self.account_unlinked(&self.block_ref(found.entry().location()));
    }

    /// Counts an expired or flushed item that leaves the index.
    pub(crate) fn count_expired(&self, block: Block<'_>) {
        let class = SizeClass::of_block(block);
        self.counters.count(Counter::Expired);
        self.counters.add_to_class(class, ClassCounter::Expired, 1);
        if !block.access().is_fetched() {
            self.counters.count(Counter::ExpiredUnfetched);
            self.counters
                .add_to_class(class, ClassCounter::ExpiredUnfetched, 1);
        }
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

/// Returns the properties of an item that the miniatures simulate.
pub(crate) fn traits(block: Block<'_>) -> Traits {
    let pieces_len = if block.is_in_pieces() {
        block.value_len()
    } else {
        0
    };
    Traits {
        bytes: u32::try_from(block.len() + pieces_len).unwrap_or(u32::MAX),
        expiry: block.expiry(),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.cursor.take());
        self.store.log.heap.live.release_column(&self.column);
        self.store.remove_worker(&self.counters);
    }
}
