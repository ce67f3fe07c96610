//! Event counters, a separate set for each worker. Only that worker writes its set, so no cache
//! line moves between writers. A statistic is the sum over the sets of all workers.

use crate::statistics::EVICTED_AGES_S;
use crate::statistics::hot::Sketch;
use crate::statistics::size_class::{ClassStatistics, SizeClass};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The name of a counter in [`Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Items stored.
    Stored,
    /// Items evicted.
    Evicted,
    /// Items counted in `Evicted` that were never read.
    EvictedUnfetched,
    /// Items evicted from the main part.
    EvictedMain,
    /// Items reclaimed after they expired or were flushed.
    Expired,
    /// Items counted in `Expired` that were never read.
    ExpiredUnfetched,
    /// Blocks copied during evacuation.
    Copied,
    /// Bytes of copied blocks.
    CopiedBytes,
    /// Blocks written into holes (`worker/holes.rs`).
    HolesFilled,
    /// Evacuated segments.
    Evacuated,
    /// Inserted items whose hash was still remembered as a ghost (`ghost.rs`).
    GhostHits,
    /// Items evicted because the index had no free slot.
    EvictedIndexFull,
    /// Number of times the worker waited for a free segment.
    Waits,
    /// Blocks and index buckets that the worker visited in addition to those of the requested keys,
    /// for example during evacuation and in the search for a free index slot.
    Visits,
    /// Bytes of the blocks that this worker linked, minus bytes of the blocks that it unlinked. A
    /// worker may unlink a block that another worker linked, so a single counter may wrap below 0.
    /// Only the sum over all workers, modulo 2^64, is the number of live bytes.
    LiveBytes,
}

/// The name of a counter that exists for each size class. `Items` and `Bytes` are differences,
/// which may wrap below 0 as [`Counter::LiveBytes`] may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassCounter {
    /// Items that this worker linked, minus items that it unlinked.
    Items,
    /// The lengths in bytes ([`item_len`](crate::statistics::size_class::item_len)) of the items
    /// that this worker linked, minus those of the items that it unlinked.
    Bytes,
    /// Items evicted.
    Evicted,
    /// Items counted in `Evicted` that had an expiry.
    EvictedExpiring,
    /// Items counted in `Evicted` that were never read.
    EvictedUnfetched,
    /// Items reclaimed after they expired or were flushed.
    Expired,
    /// Items counted in `Expired` that were never read.
    ExpiredUnfetched,
    /// Not a count: how long the item evicted last was idle, in seconds.
    EvictedIdle,
}

/// The number of counters of a size class.
const CLASS_COUNTS: usize = ClassCounter::EvictedIdle as usize + 1;

/// The counters of one size class: a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ClassCounts([AtomicU64; CLASS_COUNTS]);

/// The number of counters.
const COUNTS: usize = Counter::LiveBytes as usize + 1;

/// The counters of one worker, aligned so that no other data share their cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    counts: [AtomicU64; COUNTS],
    /// Numbers of evicted items by age. Element `i` counts the ages from bound `i - 1` to below
    /// bound `i` of [`EVICTED_AGES_S`]; the last element has no upper bound.
    ages: [AtomicU64; EVICTED_AGES_S.len() + 1],
    classes: ClassTable,
    /// The sketch of the keys that the worker reads most often. The worker locks it about once per
    /// [`HOT_SAMPLE_PERIOD`](crate::limits::HOT_SAMPLE_PERIOD) reads. The only other user,
    /// `stats hotkeys`, is rare, so the worker hardly ever waits for the lock.
    pub(crate) sketch: Mutex<Sketch>,
}

/// The counters of all size classes.
#[derive(Debug)]
struct ClassTable([ClassCounts; SizeClass::COUNT]);

impl Default for ClassTable {
    fn default() -> Self {
        Self(std::array::from_fn(|_| ClassCounts::default()))
    }
}

impl Counters {
    /// Adds `increase` to a counter of a size class, modulo 2^64.
    pub(crate) fn add_to_class(&self, class: SizeClass, counter: ClassCounter, increase: u64) {
        let cell = self.class_cell(class, counter);
        let sum = cell.load(Ordering::Relaxed).wrapping_add(increase);
        cell.store(sum, Ordering::Relaxed);
    }

    /// Records how long the item evicted last was idle, in seconds.
    pub(crate) fn set_evicted_idle(&self, class: SizeClass, idle_s: u32) {
        let cell = self.class_cell(class, ClassCounter::EvictedIdle);
        cell.store(idle_s.into(), Ordering::Relaxed);
    }

    /// Adds the counters of each size class to the element of `sums` for this class. A difference
    /// may be negative until the counters of all workers have been added.
    pub(crate) fn add_classes(&self, sums: &mut [ClassStatistics; SizeClass::COUNT]) {
        for (class, sum) in SizeClass::all().zip(sums) {
            let value = |counter| self.class_cell(class, counter).load(Ordering::Relaxed);
            sum.items = sum.items.wrapping_add(value(ClassCounter::Items));
            sum.bytes = sum.bytes.wrapping_add(value(ClassCounter::Bytes));
            sum.evicted += value(ClassCounter::Evicted);
            sum.evicted_expiring += value(ClassCounter::EvictedExpiring);
            sum.evicted_unfetched += value(ClassCounter::EvictedUnfetched);
            sum.expired += value(ClassCounter::Expired);
            sum.expired_unfetched += value(ClassCounter::ExpiredUnfetched);
            sum.evicted_idle_s = sum.evicted_idle_s.max(value(ClassCounter::EvictedIdle));
        }
    }

    /// Returns a counter of a size class.
    fn class_cell(&self, class: SizeClass, counter: ClassCounter) -> &AtomicU64 {
        &self.classes.0[class.index()].0[counter as usize]
    }

    /// Adds 1 to a counter.
    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `increase` to a counter, modulo 2^64. A load and a store suffice, because no other
    /// thread writes the counter.
    pub(crate) fn add(&self, counter: Counter, increase: u64) {
        let cell = &self.counts[counter as usize];
        let sum = cell.load(Ordering::Relaxed).wrapping_add(increase);
        cell.store(sum, Ordering::Relaxed);
    }

    /// Counts an evicted item by its age, the seconds since its last request.
    pub(crate) fn count_age(&self, age_s: u32) {
        let cell = &self.ages[EVICTED_AGES_S.partition_point(|&bound_s| bound_s <= age_s)];
        cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the number of evicted items of each age range to the element of `sum` for this range.
    pub(crate) fn add_ages(&self, sum: &mut [u64]) {
        for (to, from) in sum.iter_mut().zip(&self.ages) {
            *to += from.load(Ordering::Relaxed);
        }
    }

    /// Returns the value of a counter.
    pub(crate) fn value(&self, counter: Counter) -> u64 {
        self.counts[counter as usize].load(Ordering::Relaxed)
    }

    /// Adds `other`, the counters of a dropped worker, to these counters, which are the sums over
    /// all dropped workers. `ClassCounter::EvictedIdle` is no sum, so it is not added.
    pub(crate) fn absorb(&self, other: &Self) {
        let own = self.counts.iter().chain(&self.ages);
        for (to, from) in own.zip(other.counts.iter().chain(&other.ages)) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (to, from) in self.classes.0.iter().zip(&other.classes.0) {
            let counts = to.0.iter().zip(&from.0);
            for (to, from) in counts.take(ClassCounter::EvictedIdle as usize) {
                to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}
