//! The store.

use std::cmp::Reverse;
use std::sync::PoisonError;

use rapidhash::v3::RapidSecrets;

use crate::config::{Config, ConfigError};
use crate::counters::{Counter, Counters};
use crate::epochs::Epochs;
use crate::ghost::Ghosts;
use crate::heap::Heap;
use crate::hot::{HotKeys, Sketch};
use crate::index::Index;
use crate::limits::{
    CLASS_BUCKETS, CLASS_MEMORY, GHOST_PART, HOT_KEYS, HUGE_FROM, INDEX_CLASSES_MAX, INDEX_PART,
    MINIATURE_PART, MINIATURE_SLOTS, SEGMENT_BITS, SEGMENTS_MIN,
};
use crate::log::Log;
use crate::miniature::Miniatures;
use crate::page_maintenance::{PageMaintenance, PageStep};
use crate::segment_holds::Holds;
use crate::statistics::Statistics;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::worker::Worker;

/// The store. Threads use it through [`Store::worker`].
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
    /// Memory limit of items, index, ghosts and miniatures, in bytes.
    limit: AtomicU64,
    /// When the next flush is due, in seconds. `NO_FLUSH`: none.
    flush_due_s: AtomicU64,
    counter_sets: Mutex<CounterSets>,
}

const NO_FLUSH: u64 = u64::MAX;

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
    fn sum(&self, counter: Counter) -> u64 {
        let counter_sets = self.present.iter().map(Arc::as_ref).chain([&self.dropped]);
        counter_sets.fold(0, |sum, counters| sum.wrapping_add(counters.value(counter)))
    }
}

impl Store {
    /// Creates an empty store.
    ///
    /// # Errors
    /// The configuration is invalid, or the address space is exhausted.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let fixed_size = Config {
            memory_max: 0,
            ..config
        };
        // If address space is scarce (strict accounting, `ulimit -v`), try a store whose limit
        // cannot be raised.
        Self::build(config, Geometry::new(&config))
            .or_else(|_| Self::build(fixed_size, Geometry::new(&fixed_size)))
    }

    pub(crate) fn build(config: Config, geometry: Geometry) -> Result<Arc<Self>, ConfigError> {
        let index = Index::new(
            geometry.classes,
            geometry.class_buckets,
            geometry.index_bytes,
        )
        .map_err(ConfigError::NoSpace)?;
        let heap = Heap::new(geometry.segments, geometry.segment_bits, config.workers)
            .map_err(ConfigError::NoSpace)?;
        if config.huge_pages || config.memory_bytes >= HUGE_FROM {
            heap.advise_huge();
            index.advise_huge();
        }
        let ghosts = Ghosts::new(geometry.ghost_bytes);
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
            limit: AtomicU64::new(config.memory_bytes),
            flush_due_s: AtomicU64::new(NO_FLUSH),
            counter_sets: Mutex::default(),
            config,
        }))
    }

    /// Creates a handle for a thread.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Worker {
        let counters = Arc::new(Counters::default());
        let mut counter_sets = self.counter_sets();
        counter_sets.present.push(Arc::clone(&counters));
        let stripe = counter_sets.created;
        counter_sets.created += 1;
        drop(counter_sets);
        Worker::new(self, counters, stripe)
    }

    pub(crate) fn remove_worker(&self, counters: &Arc<Counters>) {
        let mut counter_sets = self.counter_sets();
        counter_sets
            .present
            .retain(|other| !Arc::ptr_eq(other, counters));
        counter_sets.dropped.absorb(counters);
    }

    /// The recently most read keys, at most [`HOT_KEYS`].
    #[must_use]
    pub fn hot_keys(&self) -> HotKeys {
        let (mut hot, mut copy) = (HotKeys::default(), Sketch::default());
        for counters in &self.counter_sets().present {
            // A worker may wait for this lock, so nothing is allocated while it is held.
            copy.copy_from(
                &counters
                    .sketch
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            copy.add_to(&mut hot);
        }
        hot.keys.sort_by_key(|key| Reverse(key.reads));
        hot.keys.truncate(HOT_KEYS);
        hot
    }

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

    /// Changes the memory limit, in bytes. Memory above the limit is evacuated step by step, as
    /// workers write and maintain, and returned to the kernel by a [`PageMaintenance`].
    ///
    /// # Errors
    /// The store cannot work with so little memory, or was not created for so much.
    pub fn set_limit(&self, bytes: u64) -> Result<(), ConfigError> {
        self.config.check_limit(bytes)?;
        self.limit.store(bytes, Ordering::Relaxed);
        self.balance();
        Ok(())
    }

    /// Adjusts the number of segments, after the index or the memory limit has changed.
    pub(crate) fn balance(&self) {
        let fixed = self.index.bytes() + self.ghosts.bytes() + self.miniatures.bytes();
        let size_bits = self.log.heap.segment_size().ilog2();
        self.log
            .set_segment_limit(segment_limit(self.limit(), fixed, size_bits));
    }

    /// Whether a [`PageMaintenance`] has work to do. Returns true once for each change.
    #[must_use]
    pub fn needs_page_maintenance(&self) -> bool {
        self.log.needs_page_maintenance()
    }

    /// Does all page maintenance at once, before the server answers requests.
    pub fn run_page_maintenance(self: &Arc<Self>) {
        let mut maintenance = PageMaintenance::new(self);
        while maintenance.step() != PageStep::Nothing {}
    }

    /// Uses small pages for memory that is not resident yet, for a machine on which populating a
    /// huge page takes too long. Makes a system call.
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

    /// Invalidates every item written before second `at_s`, or before now if `at_s` is past.
    pub(crate) fn flush(&self, at_s: u32, now_s: u32) {
        // A flush that is already due must not be replaced by the new one.
        self.perform_due_flush(now_s);
        if at_s <= now_s {
            self.flush_due_s.store(NO_FLUSH, Ordering::Relaxed);
            self.log.flush();
        } else {
            self.flush_due_s.store(u64::from(at_s), Ordering::Relaxed);
        }
    }

    /// Performs a delayed flush that is due. Every caller may do so; only the first one does.
    #[inline]
    pub(crate) fn perform_due_flush(&self, now_s: u32) {
        let due_s = self.flush_due_s.load(Ordering::Relaxed);
        if due_s <= u64::from(now_s) {
            let claimed = self.flush_due_s.compare_exchange(
                due_s,
                NO_FLUSH,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if claimed.is_ok() {
                self.log.flush();
            }
        }
    }

    /// [`Statistics::evicted`] alone, without visiting segments.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.counter_sets().sum(Counter::Evicted)
    }

    /// Sums over all workers and open segments. The time does not grow with the memory.
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
            segments: u64::from(self.log.resident()),
            segments_allowed: u64::from(self.log.segment_limit()),
            // While workers write, the sum may be off by their current changes.
            bytes_live: (sum(Counter::LiveBytes) as i64).max(0) as u64,
            bytes_occupied: content.bytes_occupied,
            oldest_segment_s: content.oldest_s,
            ..Statistics::default()
        };
        for counters in &counter_sets.present {
            counters.add_ages(&mut statistics.evicted_ages);
        }
        counter_sets.dropped.add_ages(&mut statistics.evicted_ages);
        drop(counter_sets);
        statistics
    }
}

/// The sizes of the parts of a store, fixed at its creation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) segment_bits: u32,
    /// Maximum number of segments.
    pub(crate) segments: usize,
    pub(crate) classes: usize,
    pub(crate) class_buckets: usize,
    /// Largest size of the index in bytes.
    pub(crate) index_bytes: usize,
    pub(crate) ghost_bytes: usize,
    pub(crate) miniature_slots: usize,
}

impl Geometry {
    fn new(config: &Config) -> Self {
        let memory = config.memory_bytes;
        let memory_max = config.memory_max.max(memory);
        let segment_bits = (memory / SEGMENTS_MIN)
            .max(1)
            .ilog2()
            .clamp(*SEGMENT_BITS.start(), *SEGMENT_BITS.end());
        let classes = (memory / CLASS_MEMORY).clamp(1, INDEX_CLASSES_MAX);
        Self {
            segment_bits,
            segments: (memory_max >> segment_bits) as usize,
            classes: classes.next_power_of_two() as usize,
            class_buckets: CLASS_BUCKETS,
            index_bytes: (memory_max / INDEX_PART) as usize,
            ghost_bytes: (memory / GHOST_PART) as usize,
            miniature_slots: if config.evicts {
                ((memory / MINIATURE_PART) as usize)
                    .clamp(*MINIATURE_SLOTS.start(), *MINIATURE_SLOTS.end())
            } else {
                1
            },
        }
    }
}

/// The number of segments that fit into `memory` in addition to the `other` parts. One segment
/// less, because the index may grow by the size of a segment before this is computed again.
fn segment_limit(memory: u64, other: u64, size_bits: u32) -> u32 {
    let count = (memory.saturating_sub(other) >> size_bits).saturating_sub(1);
    u32::try_from(count).unwrap_or(u32::MAX)
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

    /// `bytes_live` and `bytes_occupied` are running sums, updated as blocks are written, linked
    /// and unlinked.
    #[test]
    fn bytes_live_and_occupied_are_those_of_all_segments() {
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
        drop(worker);
    }
}
