//! Counters of a worker. Only that worker writes them; readers sum over all workers.

use crate::hot::Sketch;
use crate::statistics::EVICTED_AGES_S;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Items stored.
    Stored,
    /// Items evicted.
    Evicted,
    /// Evicted items that were never read.
    EvictedUnfetched,
    /// Items evicted from the main part.
    EvictedMain,
    /// Items reclaimed after they expired or were flushed.
    Expired,
    /// Reclaimed items that were never read.
    ExpiredUnfetched,
    /// Blocks copied during evacuation.
    Copied,
    /// Bytes of copied blocks.
    CopiedBytes,
    /// Blocks written into holes.
    HolesFilled,
    /// Evacuated segments.
    Evacuated,
    /// New items whose ghost was still remembered.
    GhostHits,
    /// Items evicted because the index had no free slot.
    EvictedIndexFull,
    /// Number of times the worker waited for a segment.
    Waits,
    /// Blocks and buckets visited in addition to those of the requested keys.
    Visits,
    /// Bytes of the blocks that this worker linked, minus bytes of those that it unlinked. A worker
    /// may unlink what another has linked, so only the sum of all workers, modulo 2^64, has a
    /// meaning.
    LiveBytes,
}

const COUNTS: usize = Counter::LiveBytes as usize + 1;

/// The counters of one worker, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    counts: [AtomicU64; COUNTS],
    /// Evicted items by age, as in [`EVICTED_AGES_S`].
    ages: [AtomicU64; EVICTED_AGES_S.len() + 1],
    /// The sketch of the worker's hot keys. The worker locks it about once in
    /// [`HOT_SAMPLE_PERIOD`](crate::limits::HOT_SAMPLE_PERIOD) reads; `stats hotkeys` locks it
    /// rarely.
    pub(crate) sketch: Mutex<Sketch>,
}

impl Counters {
    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    pub(crate) fn add(&self, counter: Counter, increase: u64) {
        let cell = &self.counts[counter as usize];
        let sum = cell.load(Ordering::Relaxed).wrapping_add(increase);
        cell.store(sum, Ordering::Relaxed);
    }

    /// Counts an evicted item of this age.
    pub(crate) fn count_age(&self, age_s: u32) {
        let cell = &self.ages[EVICTED_AGES_S.partition_point(|&bound_s| bound_s <= age_s)];
        cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the number of evicted items of each age to `sum`.
    pub(crate) fn add_ages(&self, sum: &mut [u64]) {
        for (to, from) in sum.iter_mut().zip(&self.ages) {
            *to += from.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn value(&self, counter: Counter) -> u64 {
        self.counts[counter as usize].load(Ordering::Relaxed)
    }

    /// Adds the counters of a dropped worker.
    pub(crate) fn absorb(&self, other: &Self) {
        let own = self.counts.iter().chain(&self.ages);
        for (to, from) in own.zip(other.counts.iter().chain(&other.ages)) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
