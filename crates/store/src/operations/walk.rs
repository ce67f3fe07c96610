//! A walk visits every item in bounded steps, while other workers read and write.
//!
//! A complete walk visits every item that stays in memory from the beginning to the end of the walk
//! at least once (`index/walk.rs`), even if the item is overwritten or copied by evacuation
//! meanwhile. An item that is stored or removed meanwhile may be visited or not. An item that has
//! moved in the index may be visited twice. Every visited item was in memory at some time during
//! the walk. Items that are only in the tier are not visited.

use crate::index::walk::{BucketEntries, Visited};
use crate::index::{Entry, WalkNumber};
use crate::operations::item::Item;
use crate::store::Store;
use crate::sync::Arc;
use crate::worker::Worker;

/// The position of a walk, which may be kept between bursts.
#[derive(Debug)]
pub struct Walk {
    store: Arc<Store>,
    position: WalkPosition,
}

/// How far a walk has come: its position. The two kinds of walk store the position in different
/// places.
#[derive(Debug)]
enum WalkPosition {
    /// The number of a complete walk. The index keeps the position of this walk.
    Index(WalkNumber),
    /// The next bucket of a survey, which may miss items that move in the index.
    Bucket(u64),
}

/// The result of a step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkStep {
    /// The walk goes on.
    More,
    /// All items have been visited.
    Done,
    /// Items may have been missed. Either too many items have moved meanwhile, or the walk made no
    /// step for a minute and another complete walk has superseded it.
    Incomplete,
}

/// What a walk does with a visited item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkAction {
    /// The item stays.
    Keep,
    /// The item is deleted, if it has not changed meanwhile.
    Delete,
}

impl Store {
    /// Begins a complete walk at second `now_s`. At most one complete walk exists at a time, so the
    /// result is `None` if there is one already. But a walk that has made no step for a minute is
    /// superseded by the new one.
    #[must_use]
    pub fn walk(self: &Arc<Self>, now_s: u32) -> Option<Walk> {
        let number = self.index.begin_walk(now_s)?;
        Some(Walk {
            store: Arc::clone(self),
            position: WalkPosition::Index(number),
        })
    }

    /// Begins a survey: a walk that may miss items that move in the index meanwhile. Any number of
    /// surveys may exist at a time.
    #[must_use]
    pub fn survey(self: &Arc<Self>) -> Walk {
        Walk {
            store: Arc::clone(self),
            position: WalkPosition::Bucket(0),
        }
    }
}

impl Walk {
    /// Returns the entries of the next bucket, or the end of the walk.
    fn next(&mut self, now_s: u32) -> Visited {
        let index = &self.store.index;
        match &mut self.position {
            WalkPosition::Index(number) => index.walk(*number, now_s),
            WalkPosition::Bucket(bucket) => match index.peek_bucket(*bucket) {
                Some(entries) => {
                    *bucket += 1;
                    Visited::Bucket(entries)
                }
                None => Visited::End {
                    is_incomplete: false,
                },
            },
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if let WalkPosition::Index(number) = self.position {
            self.store.index.end_walk(number);
        }
    }
}

impl Worker {
    /// Visits the items of the next `BUCKETS` buckets of the index. A bucket has at most eight
    /// items. Passes each item with its key to `visit`, after all locks are released.
    ///
    /// Expired and flushed items are not visited. If `reclaims` is true, they are unlinked.
    ///
    /// # Panics
    /// The walk belongs to another store.
    pub fn walk<const BUCKETS: usize>(
        &mut self,
        walk: &mut Walk,
        now_s: u32,
        reclaims: bool,
        mut visit: impl FnMut(&[u8], &Item<'_>) -> WalkAction,
    ) -> WalkStep {
        self.ensure_online();
        self.check_owner(&walk.store);
        let mut buckets = [BucketEntries::default(); BUCKETS];
        let mut result = WalkStep::More;
        for bucket in &mut buckets {
            match walk.next(now_s) {
                Visited::Bucket(entries) => *bucket = entries,
                Visited::End { is_incomplete } => {
                    result = match is_incomplete {
                        true => WalkStep::Incomplete,
                        false => WalkStep::Done,
                    };
                    break;
                }
            }
            // Prefetch the items of all buckets before the first item is visited, so that the cache
            // misses overlap.
            for entry in bucket.iter().flatten() {
                self.store.log.heap.prefetch(entry.location());
            }
        }
        for entry in buckets.iter().flatten().flatten() {
            self.visit_entry(*entry, now_s, reclaims, &mut visit);
        }
        result
    }

    /// Passes the item of an entry to `visit`, and deletes the item if `visit` says so. An expired
    /// or flushed item is skipped, and unlinked if `reclaims` is true.
    fn visit_entry(
        &self,
        entry: Entry,
        now_s: u32,
        reclaims: bool,
        visit: &mut impl FnMut(&[u8], &Item<'_>) -> WalkAction,
    ) {
        let location = entry.location();
        let block = self.block(location);
        let hash = || self.hash(block.key());
        if self.miss_reason(location, block, now_s).is_some() {
            if reclaims {
                self.unlink_expired(hash().0, location, now_s);
            }
            return;
        }
        let action = visit(block.key(), &self.item(location, block, false, now_s));
        if action == WalkAction::Delete {
            self.delete_found(hash(), location, now_s);
        }
    }
}
