//! The store itself.

use std::cmp::Reverse;
use std::sync::PoisonError;

use rapidhash::v3::RapidSecrets;

use crate::config::{Config, ConfigError};
use crate::epochs::Epochs;
use crate::ghost::Ghosts;
use crate::heap::Heap;
use crate::holds::Holds;
use crate::hot::{HotKeys, Sketch};
use crate::index::Index;
use crate::limits::{
    CLASS_BUCKETS, CLASS_MEMORY, GHOST_PART, HOT_KEYS, HUGE_FROM, INDEX_CLASSES_MAX, INDEX_PART,
    MINIATURE_PART, MINIATURE_SLOTS, SEGMENT_BITS, SEGMENTS_LEAST,
};
use crate::log::Log;
use crate::miniature::Miniatures;
use crate::statistics::Statistics;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::tally::{Count, Tally};
use crate::tend::{Tended, Tender};
use crate::worker::Worker;

/// The store. Threads reach it through [`Store::worker`].
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
    /// Bytes that items, index, ghosts and miniatures may fill.
    limit: AtomicU64,
    /// When the next flush is due, in seconds; `NO_FLUSH`: none is.
    flush_due_s: AtomicU64,
    tallies: Mutex<Tallies>,
}

const NO_FLUSH: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Tallies {
    /// Of workers that are at work.
    present: Vec<Arc<Tally>>,
    /// Of all that are gone.
    gone: Tally,
    /// Workers that ever were.
    ever: usize,
}

impl Tallies {
    fn sum(&self, what: Count) -> u64 {
        let tallies = self.present.iter().map(Arc::as_ref).chain([&self.gone]);
        tallies.fold(0, |sum, tally| sum.wrapping_add(tally.of(what)))
    }
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The configuration cannot work, or the system has no room in the address space.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let lasting = Config {
            memory_max: 0,
            ..config
        };
        // Where address space is scarce (strict accounting, `ulimit -v`), a store that cannot grow
        // is better than none.
        Self::build(config, Geometry::of(&config))
            .or_else(|_| Self::build(lasting, Geometry::of(&lasting)))
    }

    pub(crate) fn build(config: Config, geometry: Geometry) -> Result<Arc<Self>, ConfigError> {
        let index = Index::new(
            geometry.classes,
            geometry.class_buckets,
            geometry.index_bytes,
        )
        .map_err(ConfigError::NoRoom)?;
        let heap = Heap::new(geometry.segments, geometry.segment_bits, config.workers)
            .map_err(ConfigError::NoRoom)?;
        if config.huge_pages || config.memory_bytes >= HUGE_FROM {
            heap.advise_huge();
            index.advise_huge();
        }
        let ghosts = Ghosts::new(geometry.ghost_bytes);
        let epochs = Epochs::new();
        let miniatures = Miniatures::new(geometry.miniature_slots);
        let other = index.bytes() + ghosts.bytes() + miniatures.bytes();
        let allowed = allowed(config.memory_bytes, other, geometry.segment_bits);
        let log = Log::new(heap, Arc::clone(&epochs), allowed, config.workers);
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
            tallies: Mutex::default(),
            config,
        }))
    }

    /// A handle for one thread.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Worker {
        let tally = Arc::new(Tally::default());
        let mut tallies = self.tallies();
        tallies.present.push(Arc::clone(&tally));
        let stripe = tallies.ever;
        tallies.ever += 1;
        drop(tallies);
        Worker::new(self, tally, stripe)
    }

    pub(crate) fn leave(&self, tally: &Arc<Tally>) {
        let mut tallies = self.tallies();
        tallies.present.retain(|other| !Arc::ptr_eq(other, tally));
        tallies.gone.absorb(tally);
    }

    /// The keys read most of late, at most [`HOT_KEYS`] of them.
    #[must_use]
    pub fn hot_keys(&self) -> HotKeys {
        let (mut hot, mut copy) = (HotKeys::default(), Sketch::default());
        for tally in &self.tallies().present {
            // A worker may be waiting: nothing that could call the kernel while it does.
            copy.copy_from(&tally.sketch.lock().unwrap_or_else(PoisonError::into_inner));
            copy.add_to(&mut hot);
        }
        hot.keys.sort_by_key(|key| Reverse(key.reads));
        hot.keys.truncate(HOT_KEYS);
        hot
    }

    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        // Nothing panics half way through a change of the list.
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The bytes that items and index may fill together.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the bytes that items and index may fill together. What is too much leaves bit by
    /// bit, as workers write and maintain, and is given back by a [`Tender`].
    ///
    /// # Errors
    /// The store cannot work with so little, or was not made for so much.
    pub fn set_limit(&self, bytes: u64) -> Result<(), ConfigError> {
        self.config.check_limit(bytes)?;
        self.limit.store(bytes, Ordering::Relaxed);
        self.balance();
        Ok(())
    }

    /// Lets segments have what the index leaves them.
    pub(crate) fn balance(&self) {
        let fixed = self.index.bytes() + self.ghosts.bytes() + self.miniatures.bytes();
        let size_bits = self.log.heap.segment_size().ilog2();
        self.log.allow(allowed(self.limit(), fixed, size_bits));
    }

    /// Whether there is something for a [`Tender`] to do. Asked often, and true once each time.
    #[must_use]
    pub fn wants_tending(&self) -> bool {
        self.log.wants_tending()
    }

    /// All that a [`Tender`] has to do, at once: where nobody is answered yet.
    pub fn tend(self: &Arc<Self>) {
        let mut tender = Tender::new(self);
        while tender.step() != Tended::Nothing {}
    }

    /// Lets memory that is not there yet come in small pages: for where huge ones take too long to
    /// come. It calls the kernel.
    pub fn refuse_huge_pages(&self) {
        if self.log.heap.refuse_huge() {
            self.index.refuse_huge();
        }
    }

    /// Whether memory that is not there yet comes in huge pages, if the kernel has them.
    #[must_use]
    pub fn has_huge_pages(&self) -> bool {
        self.log.heap.is_huge()
    }

    /// Invalidates every item written before second `at_s`, or now if that is past.
    pub(crate) fn flush(&self, at_s: u32, now_s: u32) {
        // One that is due already must not be forgotten for the new one.
        self.flushes(now_s);
        if at_s <= now_s {
            self.flush_due_s.store(NO_FLUSH, Ordering::Relaxed);
            self.log.flush();
        } else {
            self.flush_due_s.store(u64::from(at_s), Ordering::Relaxed);
        }
    }

    /// Flushes so far. The first to come after a delayed flush is due carries it out.
    #[inline]
    pub(crate) fn flushes(&self, now_s: u32) -> u32 {
        let due_s = self.flush_due_s.load(Ordering::Relaxed);
        if due_s <= u64::from(now_s) {
            let taken = self.flush_due_s.compare_exchange(
                due_s,
                NO_FLUSH,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                self.log.flush();
            }
        }
        self.log.flushes()
    }

    /// [`Statistics::evicted`] alone, for which no segment is looked at.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.tallies().sum(Count::Evicted)
    }

    /// Sums over all workers and open segments: its time does not grow with the memory.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let tallies = self.tallies();
        let sum = |what| tallies.sum(what);
        let content = self.log.content();
        let mut statistics = Statistics {
            limit_bytes: self.limit(),
            index_bytes: self.index.bytes(),
            ghost_bytes: self.ghosts.bytes(),
            miniature_bytes: self.miniatures.bytes(),
            leaning: self.log.leaning().name,
            leanings: self.miniatures.changes(),
            bytes_pinned: self.holds.pinned_bytes(),
            bytes_held: u64::from(self.holds.segments()) * u64::from(self.log.heap.segment_size()),
            items: self.index.len(),
            items_stored: sum(Count::Stored),
            evicted: sum(Count::Evicted),
            evicted_unfetched: sum(Count::EvictedUnfetched),
            evicted_main: sum(Count::EvictedMain),
            expired: sum(Count::Expired),
            expired_unfetched: sum(Count::ExpiredUnfetched),
            displaced: sum(Count::Displaced),
            copied: sum(Count::Copied),
            copied_bytes: sum(Count::CopiedBytes),
            returned: sum(Count::Returned),
            refilled: sum(Count::Refilled),
            drained: sum(Count::Drained),
            waits: sum(Count::Waits),
            segment_bytes: u64::from(self.log.heap.segment_size()),
            segments: u64::from(self.log.resident()),
            segments_allowed: u64::from(self.log.allowed()),
            // While workers write it may be off by what they are at.
            bytes_live: (sum(Count::LiveBytes) as i64).max(0) as u64,
            bytes_written: content.bytes_written,
            oldest_segment_s: content.oldest_s,
            ..Statistics::default()
        };
        for tally in &tallies.present {
            tally.add_ages(&mut statistics.evicted_ages);
        }
        tallies.gone.add_ages(&mut statistics.evicted_ages);
        drop(tallies);
        statistics
    }
}

/// How large the parts of a store are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) segment_bits: u32,
    /// Most segments there may ever be.
    pub(crate) segments: usize,
    pub(crate) classes: usize,
    pub(crate) class_buckets: usize,
    /// Most bytes of the index there may ever be.
    pub(crate) index_bytes: usize,
    pub(crate) ghost_bytes: usize,
    pub(crate) miniature_slots: usize,
}

impl Geometry {
    fn of(config: &Config) -> Self {
        let memory = config.memory_bytes;
        let most = config.memory_max.max(memory);
        let segment_bits = (memory / SEGMENTS_LEAST)
            .max(1)
            .ilog2()
            .clamp(*SEGMENT_BITS.start(), *SEGMENT_BITS.end());
        let classes = (memory / CLASS_MEMORY).clamp(1, INDEX_CLASSES_MAX);
        Self {
            segment_bits,
            segments: (most >> segment_bits) as usize,
            classes: classes.next_power_of_two() as usize,
            class_buckets: CLASS_BUCKETS,
            index_bytes: (most / INDEX_PART) as usize,
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

/// Segments that a memory has room for beside what else there is, and what the index may grow by
/// before this is reckoned again: a segment's worth.
fn allowed(memory: u64, other: u64, size_bits: u32) -> u32 {
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

    /// They are kept as blocks come and go, and not added up when they are asked for.
    #[test]
    fn bytes_live_and_written_are_those_of_all_segments() {
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
        let [worker, gone] = workers;
        drop(gone);
        let (mut live, mut written) = (0, 0);
        let size = store.log.heap.segment_size();
        for number in 0..store.log.heap.count() {
            let segment = store.log.heap.segment(number);
            live += u64::from(store.log.heap.live.of(number));
            written += match segment.phase() {
                Phase::Open => u64::from(segment.tail().min(size) - crate::heap::segment::FIRST),
                Phase::Sealed | Phase::Draining => segment.written(size),
                Phase::Free | Phase::Retired => 0,
            };
        }
        let statistics = store.statistics();
        assert!(statistics.drained > 100 && live > 1 << 20, "{statistics:?}");
        let told = (statistics.bytes_live, statistics.bytes_written);
        assert_eq!(told, (live, written));
        drop(worker);
    }
}
