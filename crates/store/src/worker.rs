//! The handle of a thread on the store.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::sync::PoisonError;

use rapidhash::v3::rapidhash_v3_seeded;

use crate::counters::{Counter, Counters};
use crate::epochs::WorkerSlot;
use crate::evacuate::Cursor;
use crate::heap::BlockRef;
use crate::heap::block::Block;
use crate::heap::live::Column;
use crate::heap::segment::Part;
use crate::holes::Holes;
use crate::index::{Entry, Location, Position, Writer};
use crate::item::Expiry;
use crate::limits::{FLAGS_LEN, ITEM_OVERHEAD, RESIZE_BUCKETS, VISITS_MAX};
use crate::log::AllocTarget;
use crate::miniature::{Observation, SampleContext, SampleLimiter, SampledAccess, Traits};
use crate::read::Miss;
use crate::store::Store;
use crate::sync::Arc;

/// The hash of a key, computed once per request, and the position of its entry in the index
/// ([`Worker::prefetch_item`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64, pub(crate) Position);

/// A worker's own reference to the store, which its uploads share. With one reference count for all
/// workers, every upload would bounce its cache line.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Store>);

impl Lease {
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
/// A worker is *online* while its thread may use items and *offline* while the thread sleeps. A
/// worker that stays online and never becomes [quiescent](Worker::quiescent) prevents the reuse of
/// memory. Every operation on items sets an offline worker online.
pub struct Worker {
    pub(crate) store: Arc<Store>,
    /// The worker's own reference to the store, which its uploads share.
    pub(crate) lease: Arc<Lease>,
    worker_slot: WorkerSlot,
    is_online: Cell<bool>,
    /// [`Worker::visits`] at the start of the current write.
    pub(crate) visits_before: Cell<u64>,
    /// True while the worker waits for a segment: its evacuation then ignores access frequency.
    pub(crate) is_waiting: bool,
    pub(crate) counters: Arc<Counters>,
    /// The column in which the worker counts live bytes.
    column: Column,
    stripe: usize,
    /// Number of reads left until the next one is sampled for `stats hotkeys`.
    pub(crate) reads_until_sample: Cell<u32>,
    sample_limiter: SampleLimiter,
    /// The segment that the worker is evacuating.
    pub(crate) cursor: Option<Cursor>,
    /// The holes that the worker may reuse.
    pub(crate) holes: RefCell<Holes>,
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

    /// Prefetches the index buckets of a key. A hint: it never waits and never fails.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.store.index.prefetch(hash.0);
    }

    /// Prefetches the item of a key, and stores the position of its entry in the hash, so that a
    /// following read or put need not search. Useful some requests after
    /// [`prefetch`](Self::prefetch), when the buckets have arrived.
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
        // The only other user of this lock is `stats hotkeys`, which holds it briefly.
        let mut sketch = self
            .counters
            .sketch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.reads_until_sample.set(sketch.record(hash.0, key));
    }

    /// Passes a request to the miniatures, if its key is watched and not over its sampling limit.
    #[inline]
    pub(crate) fn sample(&self, hash: KeyHash, now_s: u32, access: impl FnOnce() -> SampledAccess) {
        if self.store.miniatures.watches(hash.0) && self.sample_limiter.admits(hash.0, now_s) {
            self.sample_watched(hash.0, now_s, access());
        }
    }

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

    /// Declares that the thread holds no references of the past burst.
    pub fn quiescent(&mut self) {
        self.announce_quiescence();
    }

    /// Declares that the thread goes to sleep. Implies [`Worker::quiescent`].
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

    /// Announces that the worker holds no references, if it is online. Blocks borrow the worker and
    /// cannot outlive this call, except those whose segment is held by a pin, an upload or an
    /// evacuation.
    pub(crate) fn announce_quiescence(&mut self) {
        if self.is_online.get() {
            self.worker_slot.quiescent();
        }
    }

    /// Number of blocks and buckets that this worker has visited in addition to those of the
    /// requested keys. For tests and benchmarks: the increase during an operation is its extra
    /// work.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.counters.value(Counter::Visits)
    }

    /// Invalidates every item written before second `at_s`, or before now if `at_s` is past.
    pub fn flush(&self, at_s: u32, now_s: u32) {
        self.store.flush(at_s, now_s);
    }

    /// Number of visits that the current operation may still make, without those reserved for a
    /// step of index resizing.
    pub(crate) fn visits_left(&self) -> usize {
        let visited = (self.visits() - self.visits_before.get()) as usize;
        VISITS_MAX.saturating_sub(visited + RESIZE_BUCKETS)
    }

    /// Whether an item does not exceed the maximum size.
    pub(crate) fn fits(&self, key: &[u8], flags: u32, value_len: usize) -> bool {
        let flags_len = if flags == 0 { 0 } else { FLAGS_LEN };
        let item_len = ITEM_OVERHEAD + key.len() + flags_len + value_len;
        item_len <= self.store.config().item_max as usize
    }

    /// The block at a location that the index, or the piece list of an item, gave to this worker
    /// since it was last quiescent. The block borrows the worker, which therefore cannot become
    /// quiescent before the block is released ([`Worker::announce_quiescence`]).
    #[inline]
    pub(crate) fn block(&self, location: Location) -> Block<'_> {
        // SAFETY: the worker is online and borrowed; no location is kept across quiescence.
        unsafe { self.store.log.heap.block(location) }
    }

    /// As [`Worker::block`], with the block's segment.
    #[inline]
    pub(crate) fn block_ref(&self, location: Location) -> BlockRef<'_> {
        BlockRef {
            location,
            block: self.block(location),
            segment: self.store.log.heap.segment_of(location),
        }
    }

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

    /// Whether the block of an item with this expiry gets an expiry word. Without eviction every
    /// block gets one: a touch of an item without the word has to move the item, which may then be
    /// impossible.
    #[inline]
    pub(crate) fn needs_expiry_word(&self, expiry: Expiry) -> bool {
        expiry != Expiry::NEVER || !self.store.config().evicts
    }

    /// Whether the entry's item has this key.
    #[inline]
    pub(crate) fn has_key(&self, entry: Entry, key: &[u8]) -> bool {
        self.block(entry.location()).key() == key
    }

    /// Why a read of this item misses: the item has expired or was flushed. `None` if it is valid.
    #[inline]
    pub(crate) fn miss_reason(
        &self,
        location: Location,
        block: Block<'_>,
        now_s: u32,
    ) -> Option<Miss> {
        self.store.perform_due_flush(now_s);
        let flushes = self.store.log.flush_count();
        if flushes > 0 && self.store.log.heap.segment_of(location).flush_generation() != flushes {
            return Some(Miss::Flushed);
        }
        block.expiry().is_past(now_s).then_some(Miss::Expired)
    }

    /// Adds a linked block to the live bytes.
    #[inline]
    pub(crate) fn add_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.add(&self.column, number, len);
        self.counters.add(Counter::LiveBytes, len as u64);
    }

    /// Subtracts an unlinked block from the live bytes.
    #[inline]
    pub(crate) fn sub_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.sub(&self.column, number, len);
        self.counters
            .add(Counter::LiveBytes, (len as u64).wrapping_neg());
    }

    /// Subtracts an unlinked item from the live bytes and marks its block dead. Returns the length
    /// of the block.
    #[inline]
    pub(crate) fn account_unlinked(&self, block_ref: &BlockRef<'_>) -> usize {
        let block = block_ref.block;
        let len = block.len();
        self.sub_live(block_ref);
        block.mark_dead();
        if block.is_in_pieces() {
            let pieces = pieces_of(block).map(|piece| self.block_ref(piece));
            pieces.for_each(|piece| self.sub_live(&piece));
        }
        len
    }

    /// Counts the eviction of an item that was stored in `part`.
    pub(crate) fn count_evicted(&self, block: Block<'_>, part: Part, now_s: u32) {
        let access = block.access();
        self.counters.count(Counter::Evicted);
        if !access.is_fetched() {
            self.counters.count(Counter::EvictedUnfetched);
        }
        if part == Part::Main {
            self.counters.count(Counter::EvictedMain);
        }
        self.counters
            .count_age(now_s.saturating_sub(access.time_s(now_s)));
    }

    /// Unlinks an expired or flushed item. Returns false if the index does not refer to it any
    /// more, or if a touch has extended its expiry.
    pub(crate) fn unlink_expired(&self, hash: u64, location: Location, now_s: u32) -> bool {
        let writer = self.store.index.lock(hash);
        let Some(found) = writer.find(|entry| entry.location() == location) else {
            return false;
        };
        let block = self.block(location);
        if self.miss_reason(location, block, now_s).is_none() {
            return false;
        }
        self.unlink_expired_found(&writer, &found, block);
        true
    }

    /// Unlinks an expired or flushed item whose entry was found under the lock.
    pub(crate) fn unlink_expired_found(
        &self,
        writer: &Writer<'_>,
        found: &crate::index::Found,
        block: Block<'_>,
    ) {
        writer.remove(found);
        self.counters.count(Counter::Expired);
        if !block.access().is_fetched() {
            self.counters.count(Counter::ExpiredUnfetched);
        }
        self.account_unlinked(&self.block_ref(found.entry().location()));
    }

    /// Resizes the index by a step, and adjusts the number of segments to its size.
    pub(crate) fn resize_step(&self) {
        use crate::index::ResizeStep;
        let step = self.store.index.resize_step();
        if step != ResizeStep::Idle {
            self.counters.add(Counter::Visits, RESIZE_BUCKETS as u64);
        }
        if let ResizeStep::Resized(bytes) = step
            && bytes.is_multiple_of(u64::from(self.store.log.heap.segment_size()))
        {
            self.store.balance();
        }
    }
}

/// The properties of an item that the miniatures simulate.
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

/// The present locations of the pieces of a value.
pub(crate) fn pieces_of(block: Block<'_>) -> impl Iterator<Item = Location> {
    use std::sync::atomic::Ordering;
    // Acquire: pairs with the release after a piece was moved, so that the whole piece is visible.
    let locations = block.pieces().iter().map(|it| it.load(Ordering::Acquire));
    locations.filter_map(Location::new)
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.cursor.take());
        self.store.log.heap.live.release_column(&self.column);
        self.store.remove_worker(&self.counters);
    }
}
