//! The handle each thread has on the store.

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

/// A key's hash, so that it is reckoned once a request; and where in the index its entry was seen
/// ([`Worker::prefetch_item`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64, pub(crate) Position);

/// The store, held by one worker's uploads: a count that the writes of all workers changed would be
/// a line they take from each other.
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

/// One thread's handle on the store.
///
/// It is *online* while the thread may be looking at items and *offline* while it sleeps; a worker
/// that stays online and never says that it is [quiescent](Worker::quiescent) keeps memory from
/// being used again. The first operation brings it online.
pub struct Worker {
    pub(crate) store: Arc<Store>,
    /// What its uploads hold.
    pub(crate) lease: Arc<Lease>,
    worker_slot: WorkerSlot,
    is_online: Cell<bool>,
    /// What had been visited when the operation under way began to write.
    pub(crate) visits_before: Cell<u64>,
    /// It waits for a segment: nothing that it drains stays for having been asked for.
    pub(crate) is_waiting: bool,
    pub(crate) counters: Arc<Counters>,
    /// Where it counts what is alive.
    column: Column,
    stripe: usize,
    /// Reads until one is looked at for `stats hotkeys`.
    pub(crate) until_look: Cell<u32>,
    shown: SampleLimiter,
    /// The segment it is draining.
    pub(crate) cursor: Option<Cursor>,
    /// Blocks to be written again.
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
            until_look: Cell::new(0),
            shown: SampleLimiter::default(),
            cursor: None,
            holes: RefCell::new(Holes::new()),
        }
    }

    /// The store it is a handle of.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reckons a key's hash.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = rapidhash_v3_seeded(key, &self.store.secrets);
        KeyHash(hash, Position::default())
    }

    /// Asks for the memory where an operation on this key looks first: its buckets of the index. A
    /// hint: it never waits and never fails.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.store.index.prefetch(hash.0);
    }

    /// Asks for the memory where it looks next: the item. Worth its while some requests after
    /// [`prefetch`](Self::prefetch), when the buckets have come. The hash remembers where the index
    /// leads to it, so that a read or a put that is given it need not search.
    #[inline]
    pub fn prefetch_item(&self, hash: &mut KeyHash) {
        if let Some(found) = self.store.index.find_candidate(hash.0, hash.1) {
            hash.1 = found.position();
            self.store.log.heap.prefetch(found.entry().location());
        }
    }

    /// Looks at one read of many.
    #[cold]
    pub(crate) fn scan(&self, hash: KeyHash, key: &[u8]) {
        // Only who asks for the hot keys takes it too, and not for long.
        let mut sketch = self
            .counters
            .sketch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.until_look.set(sketch.scan(hash.0, key));
    }

    /// Shows what came of a request to the small caches, if its key is watched.
    #[inline]
    pub(crate) fn sample(&self, hash: KeyHash, now_s: u32, seen: impl FnOnce() -> SampledAccess) {
        if self.store.miniatures.watches(hash.0) && self.shown.shows(hash.0, now_s) {
            self.sample_watched(hash.0, now_s, seen());
        }
    }

    #[cold]
    fn sample_watched(&self, hash: u64, now_s: u32, seen: SampledAccess) {
        let log = &self.store.log;
        let segments = log.segment_limit().saturating_sub(log.reserve());
        let context = SampleContext {
            bytes: u64::from(segments) * u64::from(log.heap.segment_size()),
            ghosts: self.store.ghosts.names(),
            flushes: log.flushes(),
        };
        let scan = Observation { hash, seen, now_s };
        let set_eviction_policy = |eviction_policy| log.set_eviction_policy(eviction_policy);
        self.store
            .miniatures
            .scan(&scan, &context, set_eviction_policy);
    }

    /// Says that the thread holds nothing it read in the burst now over.
    pub fn quiescent(&mut self) {
        self.pass();
    }

    /// Says that the thread goes to sleep; [`Worker::quiescent`] is implied.
    pub fn offline(&mut self) {
        self.is_online.set(false);
        self.worker_slot.offline();
    }

    /// Says that the thread is awake again.
    pub fn online(&mut self) {
        self.wake();
    }

    /// Every operation begins so.
    #[inline]
    pub(crate) fn wake(&self) {
        if !self.is_online.get() {
            self.is_online.set(true);
            self.worker_slot.online();
        }
    }

    /// The worker is quiescent: it holds no block but those whose segments it holds. No block that
    /// it has been led to outlives this, since each borrows the worker.
    pub(crate) fn pass(&mut self) {
        if self.is_online.get() {
            self.worker_slot.quiescent();
        }
    }

    /// How many blocks and buckets this worker's operations have visited beside those they name.
    /// For tests and benchmarks: the difference around one operation is what it did for others.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.counters.of(Counter::Visits)
    }

    /// Invalidates every item written before second `at_s`, or now if that is past.
    pub fn flush(&self, at_s: u32, now_s: u32) {
        self.store.flush(at_s, now_s);
    }

    /// What the operation under way may still visit, a split included.
    pub(crate) fn visits_left(&self) -> usize {
        let visited = (self.visits() - self.visits_before.get()) as usize;
        VISITS_MAX.saturating_sub(visited + RESIZE_BUCKETS)
    }

    /// Whether an item is no larger than the largest.
    pub(crate) fn fits(&self, key: &[u8], flags: u32, value_len: usize) -> bool {
        let flags_len = if flags == 0 { 0 } else { FLAGS_LEN };
        let item_len = ITEM_OVERHEAD + key.len() + flags_len + value_len;
        item_len <= self.store.config().item_max as usize
    }

    /// The block at a location that the index, or the list of an item's pieces, has given to this
    /// worker since it was last quiescent. It borrows the worker, which cannot be quiescent before
    /// the block is let go ([`Worker::pass`]).
    #[inline]
    pub(crate) fn block(&self, location: Location) -> Block<'_> {
        // SAFETY: the worker is online and borrowed; a location is not kept until it is quiescent.
        unsafe { self.store.log.heap.block(location) }
    }

    /// As [`Worker::block`], with its segment.
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

    /// Whether an item that shall expire then gets a place for it: or else it is moved should it
    /// ever be touched, for which there may be no room where nothing may leave.
    #[inline]
    pub(crate) fn is_timed(&self, expiry: Expiry) -> bool {
        expiry != Expiry::NEVER || !self.store.config().evicts
    }

    /// Whether the entry's item has this key.
    #[inline]
    pub(crate) fn has_key(&self, entry: Entry, key: &[u8]) -> bool {
        self.block(entry.location()).key() == key
    }

    /// Why an item must not be shown, if it must not.
    #[inline]
    pub(crate) fn death(&self, location: Location, block: Block<'_>, now_s: u32) -> Option<Miss> {
        let flushes = self.store.flushes(now_s);
        if flushes > 0 && self.store.log.heap.segment_of(location).flush_generation() != flushes {
            return Some(Miss::Flushed);
        }
        block.expiry().is_past(now_s).then_some(Miss::Expired)
    }

    /// The index leads to a block now: its bytes are alive.
    #[inline]
    pub(crate) fn add_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.add(&self.column, number, len);
        self.counters.add(Counter::LiveBytes, len as u64);
    }

    /// It does so no longer.
    #[inline]
    pub(crate) fn sub_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.sub(&self.column, number, len);
        self.counters
            .add(Counter::LiveBytes, (len as u64).wrapping_neg());
    }

    /// The bytes of an item that the index no longer leads to are alive no more. Returns how many
    /// its block has.
    #[inline]
    pub(crate) fn unlinked(&self, block_ref: &BlockRef<'_>) -> usize {
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

    /// Counts an item that has to make room for others, before its bytes are.
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
            .count_age(now_s.saturating_sub(access.second(now_s)));
    }

    /// Takes a dead item out of the index, if it is still there and dead.
    pub(crate) fn unlink_dead(&self, hash: u64, location: Location, now_s: u32) -> bool {
        let writer = self.store.index.lock(hash);
        let Some(found) = writer.find(|entry| entry.location() == location) else {
            return false;
        };
        let block = self.block(location);
        if self.death(location, block, now_s).is_none() {
            return false;
        }
        self.unlink_found(&writer, &found, block);
        true
    }

    /// Takes a dead item out of the index.
    pub(crate) fn unlink_found(
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
        self.unlinked(&self.block_ref(found.entry().location()));
    }

    /// Lets the index follow the number of items, and segments follow the index.
    pub(crate) fn resize_step(&self) {
        use crate::index::Step;
        let step = self.store.index.resize_step();
        if step != Step::Still {
            self.counters.add(Counter::Visits, RESIZE_BUCKETS as u64);
        }
        if let Step::Resized(bytes) = step
            && bytes.is_multiple_of(u64::from(self.store.log.heap.segment_size()))
        {
            self.store.balance();
        }
    }
}

/// What the small caches know of an item.
pub(crate) fn traits(block: Block<'_>) -> Traits {
    let elsewhere = if block.is_in_pieces() {
        block.value_len()
    } else {
        0
    };
    Traits {
        bytes: u32::try_from(block.len() + elsewhere).unwrap_or(u32::MAX),
        expiry: block.expiry(),
    }
}

/// Where the pieces of a value lie now.
pub(crate) fn pieces_of(block: Block<'_>) -> impl Iterator<Item = Location> {
    use std::sync::atomic::Ordering;
    // Acquire: pairs with the release of whoever moved a piece, so that it is seen whole.
    let locations = block.pieces().iter().map(|it| it.load(Ordering::Acquire));
    locations.filter_map(Location::new)
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.cursor.take());
        self.store.log.heap.live.give_back(&self.column);
        self.store.leave(&self.counters);
    }
}
