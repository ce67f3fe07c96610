//! The store: the parts that all workers share, and their sizes.

use std::cmp::Reverse;
use std::ops::Deref;
use std::sync::PoisonError;

use rapidhash::v3::RapidSecrets;

use crate::config::{Config, ConfigError};
use crate::epochs::Epochs;
use crate::expiry::Expiry;
use crate::ghost::Ghosts;
use crate::heap::Heap;
use crate::heap::holds::Holds;
use crate::index::Index;
use crate::limits::{
    HOT_KEYS, HUGE_FROM, INDEX_PART, INDEX_SHARDS_MAX, SEGMENT_BITS, SEGMENTS_MIN, SHARD_BUCKETS,
    SHARD_MEMORY,
};
use crate::log::Log;
use crate::lower_tier::SharedTier;
use crate::miniature::Miniatures;
use crate::statistics::Statistics;
use crate::statistics::counters::{Counter, Counters};
use crate::statistics::hot::{HotKeys, Sketch};
use crate::statistics::size_class::{ClassStatistics, SizeClass};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};

/// The store. Each thread uses it through a handle of its own, which [`Store::worker`] creates.
#[derive(Debug)]
pub struct Store {
    config: Config,
    pub(crate) secrets: RapidSecrets,
    pub(crate) index: Index,
    pub(crate) log: Log,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) ghosts: Ghosts,
    pub(crate) miniatures: Miniatures,
    pub(crate) holds: Holds,
    /// The tier that takes evicted items.
    pub(crate) tier: Option<SharedTier>,
    /// Whether workers record evicted items (`worker/evicted.rs`).
    pub(crate) records_evicted: AtomicBool,
    /// Memory limit of segments, index, ghosts and miniatures together, in bytes.
    limit: AtomicU64,
    counter_sets: Mutex<CounterSets>,
}

/// The counters of all workers. Each worker has a set of its own, so that counting does not bounce
/// cache lines between cores.
#[derive(Debug, Default)]
struct CounterSets {
    /// The counters of the existing workers.
    present: Vec<Arc<Counters>>,
    /// The sums over all dropped workers.
    dropped: Counters,
    /// Number of workers ever created.
    created: usize,
}

impl CounterSets {
    /// The counters of the existing workers, and the sums over all dropped ones.
    fn all(&self) -> impl Iterator<Item = &Counters> {
        self.present.iter().map(Arc::as_ref).chain([&self.dropped])
    }

    /// The sum of a counter over all workers, including dropped ones. One worker may subtract live
    /// bytes that another worker has added, so the `LiveBytes` of a single worker may wrap below
    /// zero. The wrapping sum over all workers is correct nevertheless.
    fn sum(&self, counter: Counter) -> u64 {
        self.all()
            .fold(0, |sum, counters| sum.wrapping_add(counters.value(counter)))
    }
}

impl Store {
    /// The size in bytes of a segment of a store with a memory of `memory_bytes` bytes.
    #[must_use]
    pub fn segment_bytes(memory_bytes: u64) -> u64 {
        1 << segment_bits_in(memory_bytes)
    }

    /// Creates an empty store.
    ///
    /// # Errors
    /// The configuration is invalid, or the address space is exhausted.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        Self::with_tier(config, None)
    }

    /// Creates an empty store whose evicted items go to `tier`, if one is given.
    ///
    /// # Errors
    /// As [`Store::new`].
    pub fn with_tier(config: Config, tier: Option<SharedTier>) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        // A store reserves address space for `memory_max` bytes, to which its limit can be raised
        // later. If the kernel refuses that much (strict accounting, `ulimit -v`), create a store
        // whose limit cannot be raised.
        let fixed_size = Config {
            memory_max: 0,
            ..config
        };
        Self::build(config, Geometry::new(&config), tier.clone())
            .or_else(|_| Self::build(fixed_size, Geometry::new(&fixed_size), tier))
    }

    /// Creates an empty store with parts of the given sizes.
    pub(crate) fn build(
        config: Config,
        geometry: Geometry,
        tier: Option<SharedTier>,
    ) -> Result<Arc<Self>, ConfigError> {
        let index = Index::new(
            geometry.shards,
            geometry.shard_buckets,
            geometry.index_bytes,
        )
        .map_err(ConfigError::NoSpace)?;
        // The tier may contain items of an earlier process, and clients may still know their CAS.
        // So no new item may get such a CAS.
        index.begin_cas_after(tier.as_ref().map_or(0, |tier| tier.greatest_cas()));
        let heap = Heap::new(geometry.segments, geometry.segment_bits, config.workers)
            .map_err(ConfigError::NoSpace)?;
        if config.huge_pages || config.memory_bytes >= HUGE_FROM {
            heap.advise_huge();
            index.advise_huge();
        }
        let ghosts = Ghosts::new(geometry.ghost_bytes).map_err(ConfigError::NoSpace)?;
        let epochs = Epochs::new();
        let miniatures = Miniatures::new(geometry.miniature_slots);
        let other = index.bytes() + ghosts.bytes() + miniatures.bytes();
        let segment_limit = segment_limit(config.memory_bytes, other, geometry.segment_bits);
        let log = Log::new(heap, Arc::clone(&epochs), segment_limit, config.workers);
        Ok(Arc::new(Self {
            secrets: RapidSecrets::seed(config.hash_seed),
            index,
            log,
            epochs,
            ghosts,
            miniatures,
            holds: Holds::default(),
            tier,
            records_evicted: AtomicBool::new(false),
            limit: AtomicU64::new(config.memory_bytes),
            counter_sets: Mutex::default(),
            config,
        }))
    }

    /// The number of flushes so far, for a server that stops and keeps the items of this generation
    /// in the tier. `None` if a delayed flush has not been performed yet. Then the items must not
    /// be kept, because the flush will not be performed any more. To be called when no worker
    /// exists any more.
    #[must_use]
    pub fn final_generation(&self) -> Option<u32> {
        self.log.final_flush_count()
    }

    /// Adds a set of counters for a new worker. Returns the set, and the number of workers created
    /// before.
    pub(crate) fn add_counters(&self) -> (Arc<Counters>, usize) {
        let counters = Arc::new(Counters::default());
        let mut counter_sets = self.counter_sets();
        counter_sets.present.push(Arc::clone(&counters));
        let number = counter_sets.created;
        counter_sets.created += 1;
        (counters, number)
    }

    /// Moves the counters of a worker that is dropped to the sums over all dropped workers.
    pub(crate) fn remove_counters(&self, counters: &Arc<Counters>) {
        let mut counter_sets = self.counter_sets();
        counter_sets
            .present
            .retain(|other| !Arc::ptr_eq(other, counters));
        counter_sets.dropped.absorb(counters);
    }

    /// Returns the most frequently read keys of the recent past at second `now_s`, at most
    /// [`HOT_KEYS`] of them.
    #[must_use]
    pub fn hot_keys(&self, now_s: u32) -> HotKeys {
        let (mut hot, mut copy) = (HotKeys::default(), Sketch::default());
        for counters in &self.counter_sets().present {
            // The worker itself may be waiting for this lock. So hold it only for a copy to
            // existing memory, and allocate after releasing it.
            copy.copy_from(
                &counters
                    .sketch
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            copy.add_to(&mut hot, now_s);
        }
        hot.keys.sort_by_key(|key| Reverse(key.reads));
        hot.keys.truncate(HOT_KEYS);
        hot
    }

    /// Locks the counters of all workers.
    fn counter_sets(&self) -> MutexGuard<'_, CounterSets> {
        // No code panics while the list is inconsistent.
        self.counter_sets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The memory limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the memory limit, in bytes. Workers evacuate the segments above the limit step by
    /// step, in their writes and in [`Worker::maintain`](crate::Worker::maintain). A
    /// [`PageMaintenance`](crate::PageMaintenance) returns the pages of these segments to the
    /// kernel.
    ///
    /// # Errors
    /// The limit is too low for this store to work, or is above the maximum with which the store
    /// was created.
    pub fn set_limit(&self, bytes: u64) -> Result<(), ConfigError> {
        self.config.check_limit(bytes)?;
        self.limit.store(bytes, Ordering::Relaxed);
        self.update_segment_limit();
        Ok(())
    }

    /// Computes the number of segments again, after the size of the index or the memory limit has
    /// changed. The segments get all memory below the limit that the other parts do not use.
    pub(crate) fn update_segment_limit(&self) {
        let fixed = self.index.bytes() + self.ghosts.bytes() + self.miniatures.bytes();
        let size_bits = self.log.heap.segment_size().ilog2();
        self.log
            .set_segment_limit(segment_limit(self.limit(), fixed, size_bits));
    }

    /// Whether a [`PageMaintenance`](crate::PageMaintenance) has new work to do, or
    /// [`reclaim_time`](Self::reclaim_time) has become earlier. A call that returns true resets
    /// this to false, so its caller has to run the maintenance.
    #[must_use]
    pub fn needs_page_maintenance(&self) -> bool {
        self.log.needs_page_maintenance()
    }

    /// Returns the second from which memory may be reclaimable although no request arrives, because
    /// items have expired ([`Worker::reclaim_expired`](crate::Worker::reclaim_expired)). This
    /// second is a lower bound. It is [`Expiry::NEVER`] if no item expires. When it becomes
    /// earlier, [`needs_page_maintenance`](Self::needs_page_maintenance) returns true.
    #[must_use]
    pub fn reclaim_time(&self) -> Expiry {
        self.log.reclaim_time()
    }

    /// Uses small pages from now on, for memory that is not resident yet. Useful on a machine on
    /// which populating a huge page takes too long. Makes a system call.
    pub fn disable_huge_pages(&self) {
        if self.log.heap.disable_huge() {
            self.index.disable_huge();
        }
    }

    /// Whether memory that is not resident yet uses huge pages, if the kernel has them.
    #[must_use]
    pub fn has_huge_pages(&self) -> bool {
        self.log.heap.is_huge()
    }

    /// Returns [`Statistics::evicted`] alone, which costs less than all statistics.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.counter_sets().sum(Counter::Evicted)
    }

    /// The total length of all live blocks, and of all blocks. Approximate while workers write.
    pub(crate) fn live_and_occupied_bytes(&self) -> (u64, u64) {
        let live = not_negative(self.counter_sets().sum(Counter::LiveBytes));
        (live, self.log.content().bytes_occupied)
    }

    /// Computes the statistics of each size class from sums over the workers.
    #[must_use]
    pub fn class_statistics(&self) -> [ClassStatistics; SizeClass::COUNT] {
        let mut sums = [ClassStatistics::default(); SizeClass::COUNT];
        for counters in self.counter_sets().all() {
            counters.add_classes(&mut sums);
        }
        for class in &mut sums {
            class.items = not_negative(class.items);
            class.bytes = not_negative(class.bytes);
        }
        sums
    }

    /// Computes the statistics from sums over the workers and the open segments. The time that this
    /// takes does not grow with the size of the memory.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counter_sets = self.counter_sets();
        let sum = |counter| counter_sets.sum(counter);
        let content = self.log.content();
        let mut statistics = Statistics {
            limit_bytes: self.limit(),
            index_bytes: self.index.bytes(),
            ghost_bytes: self.ghosts.bytes(),
            miniature_bytes: self.miniatures.bytes(),
            eviction_policy: self.log.eviction_policy().name,
            policy_changes: self.miniatures.changes(),
            bytes_pinned: self.holds.pinned_bytes(),
            bytes_spooled: self.holds.spooled_bytes(),
            bytes_held: u64::from(self.holds.segments()) * u64::from(self.log.heap.segment_size()),
            items: self.index.len(),
            items_stored: sum(Counter::Stored),
            evicted: sum(Counter::Evicted),
            evicted_unfetched: sum(Counter::EvictedUnfetched),
            evicted_main: sum(Counter::EvictedMain),
            expired: sum(Counter::Expired),
            expired_unfetched: sum(Counter::ExpiredUnfetched),
            evicted_index_full: sum(Counter::EvictedIndexFull),
            copied: sum(Counter::Copied),
            copied_bytes: sum(Counter::CopiedBytes),
            ghost_hits: sum(Counter::GhostHits),
            holes_filled: sum(Counter::HolesFilled),
            evacuated: sum(Counter::Evacuated),
            waits: sum(Counter::Waits),
            segment_bytes: u64::from(self.log.heap.segment_size()),
            segments: u64::from(self.log.with_pages()),
            segments_allowed: u64::from(self.log.segment_limit()),
            bytes_live: not_negative(sum(Counter::LiveBytes)),
            bytes_occupied: content.bytes_occupied,
            oldest_segment_s: content.oldest_s,
            ..Statistics::default()
        };
        for counters in counter_sets.all() {
            counters.add_ages(&mut statistics.evicted_ages);
        }
        drop(counter_sets);
        statistics
    }
}

/// A reference to the store with a reference count for one worker. The worker has an `Arc<Lease>`,
/// and each of its uploads clones it. If uploads cloned the `Arc<Store>` instead, every upload of
/// every worker would write to the one reference count of the store, whose cache line would bounce
/// between the cores.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Store>);

impl Lease {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self(Arc::clone(store))
    }

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

/// Returns the sum of a counter that wraps below 0, or 0 if the sum is negative. Each worker
/// changes its own counter. If one worker adds a block and another removes it while the sum is
/// computed, the sum may contain only the removal.
fn not_negative(sum: u64) -> u64 {
    (sum as i64).max(0) as u64
}

/// The sizes of the parts of a store, which are fixed at its creation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    /// N if a segment has 2^N bytes.
    pub(crate) segment_bits: u32,
    /// Maximum number of segments.
    pub(crate) segments: usize,
    /// Number of index shards, a power of two.
    pub(crate) shards: usize,
    /// Initial and minimum number of buckets of an index shard.
    pub(crate) shard_buckets: usize,
    /// Maximum size of the index in bytes.
    pub(crate) index_bytes: usize,
    /// Size of the ghosts in bytes.
    pub(crate) ghost_bytes: usize,
    /// Maximum number of keys whose requests the miniatures observe.
    pub(crate) miniature_slots: usize,
}

/// Returns N if a segment of a store with a memory of `memory` bytes has 2^N bytes.
fn segment_bits_in(memory: u64) -> u32 {
    (memory / SEGMENTS_MIN)
        .max(1)
        .ilog2()
        .clamp(*SEGMENT_BITS.start(), *SEGMENT_BITS.end())
}

impl Geometry {
    fn new(config: &Config) -> Self {
        let memory = config.memory_bytes;
        let memory_max = config.memory_max.max(memory);
        let segment_bits = segment_bits_in(memory);
        let shards = (memory / SHARD_MEMORY).clamp(1, INDEX_SHARDS_MAX);
        Self {
            segment_bits,
            segments: (memory_max >> segment_bits) as usize,
            shards: shards.next_power_of_two() as usize,
            shard_buckets: SHARD_BUCKETS,
            index_bytes: (memory_max / INDEX_PART) as usize,
            ghost_bytes: Ghosts::bytes_in(memory) as usize,
            // Without eviction, the policy that the miniatures choose makes no difference.
            miniature_slots: if config.evicts {
                Miniatures::slots_in(memory)
            } else {
                1
            },
        }
    }
}

/// Returns the number of segments for which there is space in `memory` bytes, next to the `other`
/// bytes of index, ghosts and miniatures. Keeps the size of one segment in reserve, because the
/// index may grow by that size before this number is computed again.
fn segment_limit(memory: u64, other: u64, size_bits: u32) -> u32 {
    let count = (memory.saturating_sub(other) >> size_bits).saturating_sub(1);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Creates a store of 13 segments of 512 bytes, for tests and models. A segment has space for nine
/// items with keys of one byte and values of 40 bytes.
#[cfg(test)]
pub(crate) fn small_store() -> Arc<Store> {
    store_of_small_segments(13)
}

/// Creates a store of `count` such segments.
#[cfg(test)]
pub(crate) fn store_of_small_segments(count: usize) -> Arc<Store> {
    let config = Config {
        memory_bytes: (count as u64 + 1) * 512 + 2048,
        item_max: 400,
        ..Config::DEFAULT
    };
    let geometry = Geometry {
        segment_bits: 9,
        segments: count + 3,
        shards: 1,
        shard_buckets: 16,
        index_bytes: (count + 3) * 64,
        ghost_bytes: 16,
        miniature_slots: 16,
    };
    match Store::build(config, geometry, None) {
        Ok(store) => store,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod models;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::heap::segment::Phase;
    use crate::{Expiry, Mode, Write};

    /// The statistics `bytes_live` and `bytes_occupied` are running sums, which are updated when a
    /// block is linked or unlinked and when a segment is sealed or retired. They must equal the
    /// sums over all segments. The numbers of items and of evicted items must equal the sums over
    /// all size classes.
    #[test]
    fn running_sums_equal_the_sums_over_segments_and_size_classes() {
        let config = Config {
            memory_bytes: 8 << 20,
            ..Config::DEFAULT
        };
        let store = Store::new(config).unwrap();
        let mut workers = [store.worker(), store.worker()];
        for number in 0..60_000_u32 {
            let worker = &mut workers[number as usize % 2];
            let key = (number % 50_000).to_le_bytes();
            let hash = worker.hash(&key);
            let write = Write::plain(Mode::Set, Expiry::at(10 + number % 100));
            let value = vec![0; number as usize % 700];
            worker.put(&key, hash, &value, &write, 1).unwrap();
            if number % 7 == 0 {
                worker.delete(&key, hash, None, 1);
            }
            worker.quiescent();
        }
        let [worker, dropped] = workers;
        drop(dropped);
        let (mut live, mut written) = (0, 0);
        let size = store.log.heap.segment_size();
        for number in 0..store.log.heap.count() {
            let segment = store.log.heap.segment(number);
            live += u64::from(store.log.heap.live.bytes(number));
            written += match segment.phase() {
                Phase::Open => {
                    u64::from(segment.tail().min(size) - crate::heap::segment::FIRST_BLOCK)
                }
                Phase::Sealed | Phase::Evacuating => segment.occupied(size),
                Phase::Free | Phase::Retired => 0,
            };
        }
        let statistics = store.statistics();
        assert!(
            statistics.evacuated > 100 && live > 1 << 20,
            "{statistics:?}"
        );
        let reported = (statistics.bytes_live, statistics.bytes_occupied);
        assert_eq!(reported, (live, written));
        let classes = store.class_statistics();
        let items: u64 = classes.iter().map(|class| class.items).sum();
        assert_eq!(items, statistics.items);
        let evicted: u64 = classes.iter().map(|class| class.evicted).sum();
        assert_eq!(evicted, statistics.evicted);
        drop(worker);
    }
}
