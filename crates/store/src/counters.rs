//! What a worker counts. Each has its own and alone writes it; whoever asks sums them up.

use crate::hot::Sketch;
use crate::statistics::EVICTED_AGES_S;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Items stored.
    Stored,
    /// Items evicted to make room.
    Evicted,
    /// Of those, never read.
    EvictedUnfetched,
    /// Of those evicted, from the main part.
    EvictedMain,
    /// Items reclaimed after they expired or were flushed.
    Expired,
    /// Of those, never read.
    ExpiredUnfetched,
    /// Blocks copied because they shall stay.
    Copied,
    /// Bytes of them.
    CopiedBytes,
    /// Blocks written where an item of the same length had been.
    Refilled,
    /// Segments drained.
    Evacuated,
    /// New items that were known from before.
    Returned,
    /// Items that left because the index had no place for them.
    Displaced,
    /// Segments that could only be waited for.
    Waits,
    /// Blocks and buckets visited beside those that operations name.
    Visits,
    /// Bytes of blocks that this worker linked, less those that it unlinked: only the sum over all
    /// workers, modulo 2^64, is meaningful.
    LiveBytes,
}

const COUNTS: usize = Counter::LiveBytes as usize + 1;

/// What one worker counts, with lines to itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    counts: [AtomicU64; COUNTS],
    /// Of evicted items, as [`EVICTED_AGES_S`] tells them apart.
    ages: [AtomicU64; EVICTED_AGES_S.len() + 1],
    /// The keys it reads most: the worker takes it once in many reads, who asks for them seldom.
    pub(crate) sketch: Mutex<Sketch>,
}

impl Counters {
    pub(crate) fn count(&self, what: Counter) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: Counter, more: u64) {
        let cell = &self.counts[what as usize];
        let sum = cell.load(Ordering::Relaxed).wrapping_add(more);
        cell.store(sum, Ordering::Relaxed);
    }

    /// Counts an evicted item of that age.
    pub(crate) fn count_age(&self, age_s: u32) {
        let cell = &self.ages[EVICTED_AGES_S.partition_point(|&bound_s| bound_s <= age_s)];
        cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the ages of evicted items to a sum.
    pub(crate) fn add_ages(&self, sum: &mut [u64]) {
        for (to, from) in sum.iter_mut().zip(&self.ages) {
            *to += from.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, what: Counter) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// Adds those of a worker that is gone.
    pub(crate) fn absorb(&self, other: &Self) {
        let ours = self.counts.iter().chain(&self.ages);
        for (to, from) in ours.zip(other.counts.iter().chain(&other.ages)) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
