//! Visiting every entry of the index in steps, while other threads change the index.
//!
//! A walk visits the buckets in ascending order. Entries move between buckets meanwhile: by kicks,
//! by splits and by merges. An entry could so move from a bucket that the walk has not reached to
//! one that it has left. The writer that moves it therefore notes the target bucket if the walk has
//! visited that bucket, and the walk visits it once more: at its end, or earlier if so many are
//! noted that the list is half full. So a walk visits every entry that is in the index from its
//! beginning to its end at least once. It may visit an entry twice.
//!
//! A walk ends, whatever writers do. If more entries move than it can note, or than it may visit
//! again ([`REVISITS_PER_BUCKET`]), it visits no bucket again, and its end says that it may have
//! missed entries.
//!
//! The walk copies a bucket under the lock of its shard. A writer moves an entry under the same
//! lock, since both buckets of an entry are in one shard. So a move into a bucket comes either
//! before the visit of that bucket, which then sees the entry, or after it, and then the writer
//! sees that the bucket was visited.
//!
//! There is at most one walk at a time. A walk is stalled if it has made no step for
//! [`WALK_STALL_S`] seconds. The next walk that begins supersedes a stalled one, whose next step is
//! then an incomplete end. While there is no walk, a move costs a comparison.

use std::sync::PoisonError;

use super::addressing::BUCKET_WORDS;
use super::{Entry, Index, lock};
use crate::limits::{MOVED_BUCKETS_MAX, REVISITS_PER_BUCKET, WALK_STALL_S};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// The entries of a bucket.
pub(crate) type BucketEntries = [Option<Entry>; BUCKET_WORDS];

/// The next bucket of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Visited {
    /// The entries of a bucket.
    Bucket(BucketEntries),
    /// All buckets have been visited.
    End {
        /// Entries may have been missed, because too many have moved.
        is_incomplete: bool,
    },
}

impl Index {
    /// Begins a walk at second `now_s`. `None`: there is one, whose last step is not long ago.
    pub(crate) fn begin_walk(&self, now_s: u32) -> Option<WalkNumber> {
        let word = self.walk.progress.load(Ordering::Relaxed);
        let present = Progress::of(word);
        let step_s = self.walk.step_s.load(Ordering::Relaxed);
        if present.is_taken && now_s.saturating_sub(step_s) < WALK_STALL_S {
            return None;
        }
        // Before the walk begins, so that it does not count as stalled at once.
        self.walk.step_s.store(now_s, Ordering::Relaxed);
        let next = present.next_walk();
        // Acquire: pairs with the release in `end_walk`. This walk sees the state that it left.
        let begun = self.walk.progress.compare_exchange(
            word,
            next.word(),
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        begun.ok()?;
        // They may be those of a superseded walk. Nothing is noted for this one before its first
        // step.
        *self.moved_buckets() = MovedBuckets::default();
        Some(next.walk)
    }

    /// Ends a walk, unless it is superseded.
    pub(crate) fn end_walk(&self, walk: WalkNumber) {
        let mut moved = self.moved_buckets();
        let word = self.walk.progress.load(Ordering::Relaxed);
        if !Progress::of(word).is_of(walk) {
            return;
        }
        let ended = Progress {
            is_taken: false,
            walk,
            visited: 0,
        };
        // Release: pairs with the acquire in `begin_walk`. It fails only if the walk is superseded
        // just now, since nothing else changes the word but the walk itself.
        let ended = self.walk.progress.compare_exchange(
            word,
            ended.word(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if ended.is_ok() {
            *moved = MovedBuckets::default();
        }
    }

    /// Visits the next bucket of a walk at second `now_s`. Only the owner of the walk may call
    /// this.
    pub(crate) fn walk(&self, walk: WalkNumber, now_s: u32) -> Visited {
        const SUPERSEDED: Visited = Visited::End {
            is_incomplete: true,
        };
        let progress = Progress::of(self.walk.progress.load(Ordering::Relaxed));
        if !progress.is_of(walk) {
            return SUPERSEDED;
        }
        self.walk.step_s.store(now_s, Ordering::Relaxed);
        // Acquire: pairs with the release in `split` and `merge`. It is loaded before the list is
        // read, so that the list contains the moves of a merge after which the walk is at its end.
        let buckets = self.buckets.load(Ordering::Acquire);
        let at_end = progress.visited >= buckets;
        let mut moved = self.moved_buckets();
        // Under the lock, the notes are those of the walk whose number is in the word.
        if !Progress::of(self.walk.progress.load(Ordering::Relaxed)).is_of(walk) {
            return SUPERSEDED;
        }
        let (bucket, visited) = match moved.next(at_end, buckets) {
            Some(bucket) => (bucket, progress.visited),
            None if at_end => {
                return Visited::End {
                    is_incomplete: moved.is_incomplete,
                };
            }
            None => (progress.visited, progress.visited + 1),
        };
        // A writer that notes a bucket holds the lock that `copy_bucket` takes.
        drop(moved);
        let copied = self.copy_bucket(bucket, progress, visited);
        copied.map_or(SUPERSEDED, Visited::Bucket)
    }

    /// Copies one bucket without a lock, for an incomplete survey. `None`: there is no such bucket.
    /// An entry that moves meanwhile may be missed, or found twice.
    pub(crate) fn peek_bucket(&self, bucket: u64) -> Option<BucketEntries> {
        // Acquire: pairs with the release in `split` and `merge`.
        let exists = bucket < self.buckets.load(Ordering::Acquire);
        exists.then(|| self.load_bucket(bucket))
    }

    /// Copies a bucket, and sets the number of visited buckets, under the lock of its shard.
    /// `None`: the walk was superseded since it had come as far as `progress`.
    fn copy_bucket(&self, bucket: u64, progress: Progress, visited: u64) -> Option<BucketEntries> {
        let _guard = lock(&self.shard(bucket).lock);
        let after = Progress {
            visited,
            ..progress
        };
        // Relaxed: a writer that moves an entry into this bucket holds the same lock.
        let advanced = self.walk.progress.compare_exchange(
            progress.word(),
            after.word(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        advanced.is_ok().then(|| self.load_bucket(bucket))
    }

    fn load_bucket(&self, bucket: u64) -> BucketEntries {
        let words = self.bucket(bucket);
        // Acquire: pairs with the release of the entry's writer, so that the complete item is
        // visible.
        std::array::from_fn(|slot| Entry::from_word(words[slot].load(Ordering::Acquire)))
    }

    /// Notes that an entry has moved into `bucket`. The caller holds the lock of its shard.
    #[inline]
    pub(super) fn note_move(&self, bucket: u64) {
        if bucket < self.walk.progress.load(Ordering::Relaxed) & VISITED_MASK {
            self.remember_moved(bucket);
        }
    }

    #[cold]
    fn remember_moved(&self, bucket: u64) {
        self.moved_buckets().note(bucket);
    }

    fn moved_buckets(&self) -> crate::sync::MutexGuard<'_, MovedBuckets> {
        // No code that holds this lock panics while the state is inconsistent.
        self.walk
            .moved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
