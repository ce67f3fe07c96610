//! What a worker counts. Each has its own and alone writes it; whoever asks sums them up.

use crate::hot::Sketch;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Items stored.
    Stored,
    /// Items evicted to make room.
    Evicted,
    /// Of those, never read.
    EvictedUnfetched,
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
    Drained,
    /// New items that were known from before.
    Returned,
    /// Items that left because the index had no place for them.
    Displaced,
    /// Segments that could only be waited for.
    Waits,
    /// Blocks and buckets visited beside those that operations name.
    Visits,
}

const COUNTS: usize = Count::Visits as usize + 1;

/// What one worker counts, with lines to itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Tally {
    counts: [AtomicU64; COUNTS],
    /// The keys it reads most: the worker takes it once in many reads, who asks for them seldom.
    pub(crate) sketch: Mutex<Sketch>,
}

impl Tally {
    pub(crate) fn count(&self, what: Count) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: Count, more: u64) {
        let cell = &self.counts[what as usize];
        cell.store(cell.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, what: Count) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// Adds those of a worker that is gone.
    pub(crate) fn absorb(&self, other: &Self) {
        for (to, from) in self.counts.iter().zip(&other.counts) {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
