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
//! again ([`REVISITS_PER_BUCKET`](crate::limits::REVISITS_PER_BUCKET)), it visits no bucket again,
//! and its end says that it may have missed entries.
//!
//! The walk copies a bucket under the lock of its shard. A writer moves an entry under the same
//! lock, since both buckets of an entry are in one shard. So a move into a bucket comes either
//! before the visit of that bucket, which then sees the entry, or after it, and then the writer
//! sees that the bucket was visited.
//!
//! There is at most one walk at a time. A walk is stalled if it has made no step for
//! [`WALK_STALL_S`](crate::limits::WALK_STALL_S) seconds. The next walk that begins supersedes a
//! stalled one, whose next step is then an incomplete end. While there is no walk, a move costs a
//! comparison.

use super::addressing::BUCKET_WORDS;
use super::walk_state::{NextVisit, Visit, WalkNumber};
use super::{Entry, Index, lock};
use crate::sync::atomic::Ordering;

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
        self.walk.begin(now_s)
    }

    /// Ends a walk, unless it is superseded.
    pub(crate) fn end_walk(&self, walk: WalkNumber) {
        self.walk.end(walk);
    }

    /// Visits the next bucket of a walk at second `now_s`. Only the owner of the walk may call
    /// this.
    pub(crate) fn walk(&self, walk: WalkNumber, now_s: u32) -> Visited {
        // Acquire: pairs with the release in `split` and `merge`. It is loaded before the list is
        // read (`WalkState::next_visit`).
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

    /// Copies one bucket without a lock, for an incomplete survey. `None`: there is no such bucket.
    /// An entry that moves meanwhile may be missed, or found twice.
    pub(crate) fn peek_bucket(&self, bucket: u64) -> Option<BucketEntries> {
        // Acquire: pairs with the release in `split` and `merge`.
        let exists = bucket < self.buckets.load(Ordering::Acquire);
        exists.then(|| self.load_bucket(bucket))
    }

    /// Copies a bucket, and counts the visit, under the lock of its shard. `None`: the walk was
    /// superseded meanwhile.
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
