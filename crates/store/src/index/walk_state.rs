//! What a walk of the index (`walk.rs`) and the writers share: how far the walk has come, and which
//! buckets it has to visit again.

use std::sync::PoisonError;

use crate::limits::{MOVED_BUCKETS_MAX, REVISITS_PER_BUCKET, WALK_STALL_S};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// What writers and the walk share.
#[derive(Debug, Default)]
pub(super) struct WalkState {
    /// [`Progress`], as one word, so that a superseded walk cannot change it.
    progress: AtomicU64,
    /// The second of the last step.
    step_s: AtomicU32,
    moved: Mutex<MovedBuckets>,
}

/// How far the present walk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    /// Whether there is a walk.
    is_taken: bool,
    /// Distinguishes the walk from earlier ones.
    walk: WalkNumber,
    /// The number of buckets that it has visited. 0 while there is no walk.
    visited: u64,
}

/// The number of a walk, modulo 2¹⁵.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkNumber(u16);

/// Bits of [`Progress::visited`]. An index has fewer buckets.
const VISITED_BITS: u32 = 48;
const VISITED_MASK: u64 = (1 << VISITED_BITS) - 1;
/// The largest number of a walk.
const NUMBER_MASK: u16 = (1 << 15) - 1;

impl Progress {
    fn of(word: u64) -> Self {
        let high = (word >> VISITED_BITS) as u16;
        Self {
            is_taken: high & !NUMBER_MASK != 0,
            walk: WalkNumber(high & NUMBER_MASK),
            visited: word & VISITED_MASK,
        }
    }

    fn word(self) -> u64 {
        let taken = if self.is_taken { !NUMBER_MASK } else { 0 };
        u64::from(taken | self.walk.0) << VISITED_BITS | self.visited
    }

    /// The beginning of the next walk.
    fn next_walk(self) -> Self {
        Self {
            is_taken: true,
            walk: WalkNumber(self.walk.0.wrapping_add(1) & NUMBER_MASK),
            visited: 0,
        }
    }

    fn is_of(self, walk: WalkNumber) -> bool {
        self.is_taken && self.walk == walk
    }
}

/// Buckets into which entries have moved after the walk had visited them.
#[derive(Debug, Default)]
struct MovedBuckets {
    numbers: Vec<u64>,
    /// A bucket was not noted, or not visited again, because there were too many.
    is_incomplete: bool,
    /// How many buckets were visited again.
    revisits: u64,
    /// The largest number of buckets during the walk.
    buckets_max: u64,
}

impl MovedBuckets {
    fn note(&mut self, bucket: u64) {
        if self.numbers.len() < MOVED_BUCKETS_MAX {
            self.numbers.push(bucket);
        } else {
            self.is_incomplete = true;
        }
    }

    /// The bucket that a walk of `buckets` buckets visits again now, if there is one. `at_end`: it
    /// has visited all buckets.
    fn next(&mut self, at_end: bool, buckets: u64) -> Option<u64> {
        self.buckets_max = self.buckets_max.max(buckets);
        // During the walk, only as many are visited again as the list needs to have space: an entry
        // may move once more.
        let is_due = at_end || self.numbers.len() > MOVED_BUCKETS_MAX / 2;
        if self.is_incomplete || !is_due {
            return None;
        }
        let bucket = self.numbers.pop()?;
        if self.revisits >= REVISITS_PER_BUCKET * self.buckets_max {
            self.is_incomplete = true;
            return None;
        }
        self.revisits += 1;
        Some(bucket)
    }
}

/// The next visit of a walk.
#[derive(Debug)]
pub(super) enum NextVisit {
    Bucket(Visit),
    /// There is none.
    End {
        /// Entries may have been missed, because too many have moved, or another walk supersedes
        /// this one.
        is_incomplete: bool,
    },
}

/// The visit of a bucket.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) bucket: u64,
    before: Progress,
    after: Progress,
}

impl WalkState {
    /// As `Index::begin_walk`.
    pub(super) fn begin(&self, now_s: u32) -> Option<WalkNumber> {
        let word = self.progress.load(Ordering::Relaxed);
        let present = Progress::of(word);
        let step_s = self.step_s.load(Ordering::Relaxed);
        if present.is_taken && now_s.saturating_sub(step_s) < WALK_STALL_S {
            return None;
        }
        // Before the walk begins, so that it does not count as stalled at once.
        self.step_s.store(now_s, Ordering::Relaxed);
        let next = present.next_walk();
        // Acquire: pairs with the release in `end`. This walk sees the state that it left.
        let begun =
            self.progress
                .compare_exchange(word, next.word(), Ordering::Acquire, Ordering::Relaxed);
        begun.ok()?;
        // They may be those of a superseded walk. Nothing is noted for this one before its first
        // step.
        *self.moved() = MovedBuckets::default();
        Some(next.walk)
    }

    /// Ends a walk, unless it is superseded.
    pub(super) fn end(&self, walk: WalkNumber) {
        let mut moved = self.moved();
        let word = self.progress.load(Ordering::Relaxed);
        if !Progress::of(word).is_of(walk) {
            return;
        }
        let ended = Progress {
            is_taken: false,
            walk,
            visited: 0,
        };
        // Release: pairs with the acquire in `begin`. It fails only if the walk is superseded just
        // now, since nothing else changes the word but the walk itself.
        let ended = self.progress.compare_exchange(
            word,
            ended.word(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if ended.is_ok() {
            *moved = MovedBuckets::default();
        }
    }

    /// Returns the next visit of a walk of `buckets` buckets at second `now_s`. The caller has
    /// loaded their number with acquire, so that the list contains the moves of a merge after which
    /// the walk is at its end.
    pub(super) fn next_visit(&self, walk: WalkNumber, now_s: u32, buckets: u64) -> NextVisit {
        const SUPERSEDED: NextVisit = NextVisit::End {
            is_incomplete: true,
        };
        if !self.progress().is_of(walk) {
            return SUPERSEDED;
        }
        self.step_s.store(now_s, Ordering::Relaxed);
        let mut moved = self.moved();
        // Under the lock, the notes are those of the walk whose number is in the word.
        let before = self.progress();
        if !before.is_of(walk) {
            return SUPERSEDED;
        }
        let at_end = before.visited >= buckets;
        let (bucket, visited) = match moved.next(at_end, buckets) {
            Some(bucket) => (bucket, before.visited),
            None if at_end => {
                return NextVisit::End {
                    is_incomplete: moved.is_incomplete,
                };
            }
            None => (before.visited, before.visited + 1),
        };
        let after = Progress { visited, ..before };
        NextVisit::Bucket(Visit {
            bucket,
            before,
            after,
        })
    }

    /// Counts a visit. The caller holds the lock of the shard of its bucket. Returns false if the
    /// walk was superseded meanwhile.
    pub(super) fn advance(&self, visit: &Visit) -> bool {
        // Relaxed: a writer that moves an entry into this bucket holds the same lock.
        let advanced = self.progress.compare_exchange(
            visit.before.word(),
            visit.after.word(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        advanced.is_ok()
    }

    /// Notes that an entry has moved into `bucket`. The caller holds the lock of its shard.
    #[inline]
    pub(super) fn note_move(&self, bucket: u64) {
        if bucket < self.progress.load(Ordering::Relaxed) & VISITED_MASK {
            self.remember_moved(bucket);
        }
    }

    #[cold]
    fn remember_moved(&self, bucket: u64) {
        self.moved().note(bucket);
    }

    fn progress(&self) -> Progress {
        Progress::of(self.progress.load(Ordering::Relaxed))
    }

    fn moved(&self) -> MutexGuard<'_, MovedBuckets> {
        // No code that holds this lock panics while the state is inconsistent.
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
