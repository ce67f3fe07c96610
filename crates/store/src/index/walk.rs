//! Visiting every entry of the index in steps, while other threads change the index.
//!
//! A walk visits the buckets in ascending order. Entries move between buckets meanwhile: by kicks,
//! by splits and by merges. An entry could so move from a bucket that the walk has not reached to
//! one that it has left. The writer that moves it therefore notes the target bucket if the walk has
//! visited that bucket, and the walk visits it once more at its end. So a walk visits every entry
//! that is in the index from its beginning to its end at least once. It may visit an entry twice.
//!
//! The walk copies a bucket under the lock of its shard. A writer moves an entry under the same
//! lock, since both buckets of an entry are in one shard. So a move into a bucket comes either
//! before the visit of that bucket, which then sees the entry, or after it, and then the writer
//! sees that the bucket was visited.
//!
//! There is at most one walk at a time. While there is none, a move costs a comparison.

use std::sync::PoisonError;

use super::addressing::BUCKET_WORDS;
use super::{Entry, Index, lock};
use crate::limits::MOVED_BUCKETS_MAX;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What writers and the walk share.
#[derive(Debug, Default)]
pub(super) struct WalkState {
    is_taken: AtomicBool,
    /// The number of buckets that the walk has visited. 0 while there is no walk.
    visited: AtomicU64,
    moved: Mutex<MovedBuckets>,
}

/// Buckets into which entries have moved after the walk had visited them.
#[derive(Debug, Default)]
struct MovedBuckets {
    numbers: Vec<u64>,
    /// A bucket was not noted, because there were too many.
    is_incomplete: bool,
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
    /// Begins a walk. Returns false if there is one already.
    pub(crate) fn begin_walk(&self) -> bool {
        // Acquire: pairs with the release in `end_walk`. This walk sees the state that it left.
        !self.walk.is_taken.swap(true, Ordering::Acquire)
    }

    /// Ends the walk.
    pub(crate) fn end_walk(&self) {
        self.walk.visited.store(0, Ordering::Relaxed);
        *self.moved_buckets() = MovedBuckets::default();
        // Release: pairs with the acquire in `begin_walk`.
        self.walk.is_taken.store(false, Ordering::Release);
    }

    /// Visits the next bucket of the walk. Only the owner of the walk may call this.
    pub(crate) fn walk(&self) -> Visited {
        let visited = self.walk.visited.load(Ordering::Relaxed);
        // Acquire: pairs with the release in `split` and `merge`.
        if visited < self.buckets.load(Ordering::Acquire) {
            return Visited::Bucket(self.copy_bucket(visited, visited + 1));
        }
        let mut moved = self.moved_buckets();
        if let Some(bucket) = moved.numbers.pop() {
            drop(moved);
            return Visited::Bucket(self.copy_bucket(bucket, visited));
        }
        Visited::End {
            is_incomplete: moved.is_incomplete,
        }
    }

    /// Copies one bucket without a lock, for an incomplete survey. `None`: there is no such bucket.
    /// An entry that moves meanwhile may be missed, or found twice.
    pub(crate) fn peek_bucket(&self, bucket: u64) -> Option<BucketEntries> {
        // Acquire: pairs with the release in `split` and `merge`.
        let exists = bucket < self.buckets.load(Ordering::Acquire);
        exists.then(|| self.load_bucket(bucket))
    }

    /// Copies a bucket, and sets the number of visited buckets, under the lock of its shard.
    fn copy_bucket(&self, bucket: u64, visited: u64) -> BucketEntries {
        let _guard = lock(&self.shard(bucket).lock);
        // Relaxed: a writer that moves an entry into this bucket holds the same lock.
        self.walk.visited.store(visited, Ordering::Relaxed);
        self.load_bucket(bucket)
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
        if bucket < self.walk.visited.load(Ordering::Relaxed) {
            self.remember_moved(bucket);
        }
    }

    #[cold]
    fn remember_moved(&self, bucket: u64) {
        let mut moved = self.moved_buckets();
        if moved.numbers.len() < MOVED_BUCKETS_MAX {
            moved.numbers.push(bucket);
        } else {
            moved.is_incomplete = true;
        }
    }

    fn moved_buckets(&self) -> crate::sync::MutexGuard<'_, MovedBuckets> {
        // No code that holds this lock panics while the state is inconsistent.
        self.walk
            .moved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
