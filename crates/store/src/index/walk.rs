//! Visiting every entry of the index in steps, while other threads change the index.
//!
//! A walk visits the buckets in ascending order. Meanwhile kicks, splits and merges move entries
//! between buckets. An entry could move from a bucket that the walk has not visited yet to a bucket
//! that the walk has already visited. Therefore a writer that moves an entry into a visited bucket
//! notes that bucket in a list, and the walk visits the bucket again: after all other buckets, or
//! earlier while the list is more than half full. So an entry that is in the index during the whole
//! walk is visited at least once, and may be visited twice.
//!
//! Writers cannot prolong a walk without bound. If the list is full, or the walk has visited as
//! many buckets again as [`REVISITS_PER_BUCKET`](crate::limits::REVISITS_PER_BUCKET) allows, the
//! walk becomes *incomplete*: it visits no further bucket again, and reports at its end that it may
//! have missed entries.
//!
//! The walk copies a bucket under the lock of its shard. A writer moves an entry under the same
//! lock, because both buckets of an entry are in one shard. So either the move comes first, and the
//! visit sees the entry, or the visit comes first, and the writer sees that the bucket was visited.
//!
//! There is at most one walk at a time. A walk is stalled if it has made no step for
//! [`WALK_STALL_S`](crate::limits::WALK_STALL_S) seconds. A new walk supersedes a stalled one,
//! which then ends as incomplete with its next step. While there is no walk, a writer that moves an
//! entry only makes one comparison for it.

use super::addressing::BUCKET_WORDS;
use super::walk_state::{NextVisit, Visit, WalkNumber};
use super::{Entry, Index, lock};
use crate::sync::atomic::Ordering;

/// The entries of a bucket.
pub(crate) type BucketEntries = [Option<Entry>; BUCKET_WORDS];

/// The result of a step of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Visited {
    /// The entries of a bucket.
    Bucket(BucketEntries),
    /// The walk has ended: all buckets have been visited, or another walk has superseded this one.
    End {
        /// Whether entries may have been missed, because too many moved or the walk was superseded.
        is_incomplete: bool,
    },
}

impl Index {
    /// Begins a walk at second `now_s`. Returns `None` if there is already a walk, and it is not
    /// stalled.
    pub(crate) fn begin_walk(&self, now_s: u32) -> Option<WalkNumber> {
        self.walk.begin(now_s)
    }

    /// Ends a walk, unless it is superseded.
    pub(crate) fn end_walk(&self, walk: WalkNumber) {
        self.walk.end(walk);
    }

    /// Visits the next bucket of a walk at second `now_s`. Only the owner of the walk may call
    /// this.
    pub(crate) fn walk(&self, walk: WalkNumber, now_s: u32) -> Visited {
        // Acquire: pairs with the release in `split` and `merge`. The number is loaded before the
        // list is read, on which `WalkState::next_visit` relies.
        let buckets = self.buckets.load(Ordering::Acquire);
        match self.walk.next_visit(walk, now_s, buckets) {
            NextVisit::End { is_incomplete } => Visited::End { is_incomplete },
            NextVisit::Bucket(visit) => {
                let copied = self.copy_bucket(&visit);
                copied.map_or(
                    Visited::End {
                        is_incomplete: true,
                    },
                    Visited::Bucket,
                )
            }
        }
    }

    /// Copies a bucket without a lock, for a survey that need not be complete: an entry that moves
    /// during the survey may be missed, or found twice. Returns `None` if there is no such bucket.
    pub(crate) fn peek_bucket(&self, bucket: u64) -> Option<BucketEntries> {
        // Acquire: pairs with the release in `split` and `merge`.
        let exists = bucket < self.buckets.load(Ordering::Acquire);
        exists.then(|| self.load_bucket(bucket))
    }

    /// Copies a bucket, and counts the visit, under the lock of its shard. Returns `None` if the
    /// walk was superseded meanwhile.
    fn copy_bucket(&self, visit: &Visit) -> Option<BucketEntries> {
        let _guard = lock(&self.shard(visit.bucket).lock);
        let advanced = self.walk.advance(visit);
        advanced.then(|| self.load_bucket(visit.bucket))
    }

    fn load_bucket(&self, bucket: u64) -> BucketEntries {
        let words = self.bucket(bucket);
        // Acquire: pairs with the release of the entry's writer, so that the complete item is
        // visible.
        std::array::from_fn(|slot| Entry::from_word(words[slot].load(Ordering::Acquire)))
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
