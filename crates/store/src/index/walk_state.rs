//! The state that a walk of the index (`walk.rs`) shares with writers: how many buckets the walk
//! has visited, and which of them it has to visit again.

use std::sync::PoisonError;

use crate::limits::{MOVED_BUCKETS_MAX, REVISITS_PER_BUCKET, WALK_STALL_S};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The state of the present walk.
#[derive(Debug, Default)]
pub(super) struct WalkState {
    /// The [`Progress`] as one word. A walk changes it by a compare-exchange, which fails if the
    /// walk was superseded.
    progress: AtomicU64,
    /// The second of the walk's last step.
    step_s: AtomicU32,
    /// The buckets to be visited again.
    moved: Mutex<MovedBuckets>,
}

/// How far the present walk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    /// Whether a walk is in progress.
    is_in_progress: bool,
    /// The number of the walk. If none is in progress, the number of the last one.
    walk: WalkNumber,
    /// The number of buckets that the walk has visited. 0 if no walk is in progress.
    visited: u64,
}

/// The number of a walk, modulo 2¹⁵.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkNumber(u16);

/// Number of bits for [`Progress::visited`] in the word. An index has fewer than 2⁴⁸ buckets.
const VISITED_BITS: u32 = 48;
const VISITED_MASK: u64 = (1 << VISITED_BITS) - 1;
/// The largest number of a walk. As a mask, it selects the number's bits.
const NUMBER_MASK: u16 = (1 << 15) - 1;

impl Progress {
    /// Decodes a progress that [`word`](Self::word) returned.
    fn of(word: u64) -> Self {
        let high = (word >> VISITED_BITS) as u16;
        Self {
            is_in_progress: high & !NUMBER_MASK != 0,
            walk: WalkNumber(high & NUMBER_MASK),
            visited: word & VISITED_MASK,
        }
    }

    /// Encodes the progress as one word.
    fn word(self) -> u64 {
        let flag = if self.is_in_progress { !NUMBER_MASK } else { 0 };
        u64::from(flag | self.walk.0) << VISITED_BITS | self.visited
    }

    /// Returns the progress with which the next walk begins.
    fn next_walk(self) -> Self {
        Self {
            is_in_progress: true,
            walk: WalkNumber(self.walk.0.wrapping_add(1) & NUMBER_MASK),
            visited: 0,
        }
    }

    /// Returns true if `walk` is in progress.
    fn is_of(self, walk: WalkNumber) -> bool {
        self.is_in_progress && self.walk == walk
    }
}

/// Buckets into which entries have moved after the walk had visited them.
#[derive(Debug, Default)]
struct MovedBuckets {
    /// The numbers of the buckets.
    numbers: Vec<u64>,
    /// Whether a bucket was not noted or not visited again, because there were too many.
    is_incomplete: bool,
    /// Number of buckets that the walk has visited again so far.
    revisits: u64,
    /// The largest number of buckets that the index has had during the walk.
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

    /// Returns the bucket that the walk has to visit again now, if there is one. `buckets` is the
    /// number of buckets of the index. `at_end` is true if the walk has visited all of them.
    fn next(&mut self, at_end: bool, buckets: u64) -> Option<u64> {
        self.buckets_max = self.buckets_max.max(buckets);
        // Before the end, buckets are visited again only while the list is more than half full. A
        // later visit is better, because further entries may move into the same bucket meanwhile.
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

/// What a walk does in its next step.
#[derive(Debug)]
pub(super) enum NextVisit {
    Bucket(Visit),
    /// The walk ends.
    End {
        /// Whether entries may have been missed, because too many moved or the walk was superseded.
        is_incomplete: bool,
    },
}

/// A visit of a bucket, and the progress of the walk before and after the visit.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) bucket: u64,
    before: Progress,
    after: Progress,
}

impl WalkState {
    /// See [`begin_walk`](super::Index::begin_walk).
    pub(super) fn begin(&self, now_s: u32) -> Option<WalkNumber> {
        let word = self.progress.load(Ordering::Relaxed);
        let present = Progress::of(word);
        let step_s = self.step_s.load(Ordering::Relaxed);
        if present.is_in_progress && now_s.saturating_sub(step_s) < WALK_STALL_S {
            return None;
        }
        // The time is stored before the walk begins, so that no other thread takes the new walk for
        // a stalled one.
        self.step_s.store(now_s, Ordering::Relaxed);
        let next = present.next_walk();
        // Acquire: pairs with the release in `end`. This walk sees the state that the last walk
        // left.
        let begun =
            self.progress
                .compare_exchange(word, next.word(), Ordering::Acquire, Ordering::Relaxed);
        begun.ok()?;
        // The list may contain buckets noted for a superseded walk. No bucket is noted for the new
        // walk before its first step, because it has visited none.
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
            is_in_progress: false,
            walk,
            visited: 0,
        };
        // Release: pairs with the acquire in `begin`. Apart from the walk itself, only a new walk
        // changes the word. So the compare-exchange fails only if the walk is superseded at this
        // moment.
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

    /// Returns the next visit of a walk at second `now_s`. `buckets` is the number of buckets,
    /// which the caller has loaded with acquire. A merge may have reduced this number to the number
    /// of visited buckets, so that the walk is at its end. Because of the acquire, the list then
    /// contains the moves of that merge.
    pub(super) fn next_visit(&self, walk: WalkNumber, now_s: u32, buckets: u64) -> NextVisit {
        const SUPERSEDED: NextVisit = NextVisit::End {
            is_incomplete: true,
        };
        if !self.progress().is_of(walk) {
            return SUPERSEDED;
        }
        self.step_s.store(now_s, Ordering::Relaxed);
        let mut moved = self.moved();
        // Check again under the lock: if the word has the number of this walk, the list does not
        // belong to a later walk yet.
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

    /// Counts a visit. The caller holds the lock of the visited bucket's shard. Returns false if
    /// the walk was superseded meanwhile.
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

    /// Notes that an entry has moved into `bucket`, if the walk has visited this bucket. The caller
    /// holds the lock of the bucket's shard.
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
