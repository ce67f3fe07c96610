//! Read-modify-write, here called a *rewrite*: append, prepend, arithmetic and marks
//! (`Worker::mark`) derive a new item from the present one.
//!
//! A rewrite proceeds as follows:
//!
//! 1. Pin the present value as a snapshot.
//! 2. Build the new value from the snapshot, without a lock.
//! 3. Lock the index shard of the key, a set of buckets that share a lock. If the snapshot is still
//!    the current item, replace it.
//!
//! If another worker has replaced the item in the meantime, the rewrite is repeated under a
//! [`RewriteGuard`]. While the guard exists, no other worker stores items in the shard. So the
//! second attempt succeeds, unless evacuation has moved the item. A worker that finds the shard
//! guarded by another worker waits briefly, and then defers its request.

use crate::expiry::Expiry;
use crate::heap::block::Access;
use crate::index::Entry;
use crate::limits::{REWRITE_ATTEMPTS, REWRITE_YIELDS_MAX};
use crate::log::draft::Draft;
use crate::miniature::SampledAccess;
use crate::operations::decimal::Digits;
use crate::operations::insertion::Metadata;
use crate::operations::pin::Pin;
use crate::operations::placement::CurrentItem;
use crate::operations::upload::{Reserve, Upload};
use crate::rejected::Rejected;
use crate::store::Lease;
use crate::sync::{Arc, yield_now};
use crate::worker::access::traits;
use crate::worker::{KeyHash, Worker};

/// Padding for a counter whose new number has fewer digits than the old value has bytes.
static SPACES: [u8; 4096] = [b' '; 4096];

/// The value and the metadata of an item at one moment. The pin keeps the memory of the value from
/// being reused.
pub(crate) struct Snapshot {
    /// The entry of the item as it was found.
    entry: Entry,
    pin: Pin,
    pub(crate) value_len: usize,
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) expiry: Expiry,
    /// Whether the item was restored from the tier and had not been requested before.
    is_restored: bool,
}

impl Snapshot {
    /// The slices of the value, in order.
    pub(crate) fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.pin.value()
    }
}

/// How the new value is derived from a snapshot.
pub(crate) enum NewValue<'v> {
    /// The digits of a number, padded with spaces to `value_len` bytes.
    Number { number: u64, value_len: usize },
    /// The snapshot's value and the value of an upload, which is prepended if `is_before`, and
    /// appended otherwise.
    Joined { new: &'v Upload, is_before: bool },
    /// The snapshot's value.
    Same,
    /// An empty value.
    Empty,
}

/// How the flags in the access word of the rewritten item are derived: fetched, stale, claimed, key
/// in base64. The access time is always the present second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewAccess {
    /// The flags of a new item: none is set.
    New,
    /// The flags of the old item if the new value has the same length; otherwise as
    /// [`NewAccess::New`].
    Kept,
    /// The flags of the old item, except that the item is stale and unclaimed.
    Stale,
    /// The flags of a new item, except that the item is stale.
    NewStale,
}

/// The changes that a rewrite makes in addition to the value.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) cas: NewCas,
    /// `None`: unchanged.
    pub(crate) expiry: Option<Expiry>,
    /// `None`: unchanged.
    pub(crate) flags: Option<u32>,
    pub(crate) access: NewAccess,
}

/// The CAS of a rewritten item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewCas {
    /// The next CAS of the index shard.
    Next,
    /// A CAS that the client chose.
    Given(u64),
    /// The CAS of the old item.
    Kept,
}

impl NewCas {
    /// The CAS that the client chose, if any; otherwise `or`.
    pub(crate) fn given_or(cas: Option<u64>, or: Self) -> Self {
        cas.map_or(or, Self::Given)
    }

    /// The CAS as a number. `None` for [`NewCas::Next`], which is known only under the lock.
    fn number(self, found: &Snapshot) -> Option<u64> {
        match self {
            Self::Next => None,
            Self::Given(cas) => Some(cas),
            Self::Kept => Some(found.cas),
        }
    }
}

/// The result of a rewrite.
pub(crate) enum Rewritten<T> {
    /// The item was replaced.
    Done(Done),
    /// The key has no item.
    Absent,
    /// The closure `compute` returned this error.
    Rejected(T),
    /// The new value is too long, or there is no memory for it.
    NoSpace,
    /// See [`Rejected::Deferred`].
    Deferred,
}

impl<T> Rewritten<T> {
    /// Converts the reason why memory for the new value was not allocated.
    fn from_rejection(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Deferred => Self::Deferred,
            Rejected::TooLarge | Rejected::NoMemory | Rejected::HoldLimit => Self::NoSpace,
        }
    }
}

/// A completed rewrite.
pub(crate) struct Done {
    /// The new CAS.
    pub(crate) cas: u64,
    /// The length of the new value in bytes.
    pub(crate) value_len: usize,
    /// The new number, if the new value is [`NewValue::Number`]; otherwise 0.
    pub(crate) number: u64,
    pub(crate) expiry_before: Expiry,
}

/// The exclusive right of a worker to store items in an index shard, until this value is dropped.
/// It is a flag of the shard, not a lock. Another writer locks the shard, sees the flag, releases
/// the lock without storing its item, and tries again later.
struct RewriteGuard {
    store: Arc<Lease>,
    hash: KeyHash,
}

impl Drop for RewriteGuard {
    fn drop(&mut self) {
        self.store.index.end_rewrite(self.hash.0);
    }
}

impl Worker {
    /// Waits until no worker has the guard of the shard, and takes it.
    ///
    /// # Errors
    /// [`Rejected::Deferred`] if other workers have the guard for too long.
    fn begin_rewrite(&mut self, hash: KeyHash) -> Result<RewriteGuard, Rejected> {
        for _ in 0..REWRITE_YIELDS_MAX {
            if self.store.index.begin_rewrite(hash.0) {
                let store = Arc::clone(&self.lease);
                return Ok(RewriteGuard { store, hash });
            }
            self.announce_quiescence();
            yield_now();
        }
        Err(Rejected::Deferred)
    }

    /// Waits until no worker has the guard of the shard.
    ///
    /// # Errors
    /// [`Rejected::Deferred`] if other workers have the guard for too long.
    #[cold]
    pub(crate) fn wait_for_rewrite(&mut self, hash: KeyHash) -> Result<(), Rejected> {
        self.begin_rewrite(hash).map(drop)
    }

    /// Replaces the value of an item by the result of `compute`, and its metadata by `change`.
    /// Calls `compute` again for each attempt. See the module documentation.
    pub(crate) fn rewrite<'v, T>(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        change: Change,
        compute: impl Fn(&Snapshot) -> Result<NewValue<'v>, T>,
    ) -> Rewritten<T> {
        let mut guard = None;
        // Whether this request is the first since the item was restored from the tier. The first
        // attempt records the request in the index entry, so later attempts find an entry that is
        // not marked as restored.
        let mut is_restored = false;
        for attempt in 0..REWRITE_ATTEMPTS {
            if attempt == 1 {
                guard = match self.begin_rewrite(hash) {
                    Ok(guard) => Some(guard),
                    Err(rejected) => return Rewritten::from_rejection(rejected),
                };
            }
            let Some(mut found) = self.snapshot(key, hash, now_s) else {
                // The allocation for the new value, or another worker, may have evicted the item to
                // the tier.
                return match self.find_in_tier(hash, now_s) {
                    Some(_) => Rewritten::Deferred,
                    None => Rewritten::Absent,
                };
            };
            is_restored |= found.is_restored;
            found.is_restored = is_restored;
            let new_value = match compute(&found) {
                Ok(new_value) => new_value,
                // As in memcached, a rejected request does not count as an access.
                Err(rejected) => return Rewritten::Rejected(rejected),
            };
            // Record the access first. Otherwise the allocation of memory for the new value might
            // evict the item itself.
            let block = self.block(found.entry.location());
            self.record_access(hash, found.entry, block, false, now_s);
            let upload = match self.build_value(key, hash, &found, &new_value, change, now_s) {
                Ok(upload) => upload,
                Err(rejected) => return Rewritten::from_rejection(rejected),
            };
            let item = upload.new_item();
            // A value in pieces needs a head block for the key and the list of pieces. Any other
            // value is already in the block of the item.
            let allocation = match upload.block_ref() {
                Some(_) => None,
                None => {
                    match self.allocate_for_item(
                        &item,
                        found.expiry,
                        change.cas.number(&found),
                        now_s,
                    ) {
                        Ok(allocation) => Some(allocation),
                        Err(rejected) => return Rewritten::from_rejection(rejected),
                    }
                }
            };
            let draft =
                allocation.map(|(allocation, fields)| self.draft(allocation, &fields, &item));
            let draft = draft.as_ref();
            if let Some(cas) =
                self.replace_if_current(&found, &upload, draft, guard.as_ref(), change, now_s)
            {
                return Rewritten::Done(Done {
                    cas,
                    value_len: upload.value_len(),
                    number: match new_value {
                        NewValue::Number { number, .. } => number,
                        NewValue::Joined { .. } | NewValue::Same | NewValue::Empty => 0,
                    },
                    expiry_before: found.expiry,
                });
            }
        }
        // Evacuation has moved the item during each attempt.
        Rewritten::Deferred
    }

    /// Takes a snapshot of the item of a key. Returns `None` if the key has no valid item.
    fn snapshot(&self, key: &[u8], hash: KeyHash, now_s: u32) -> Option<Snapshot> {
        let entry = self
            .store
            .index
            .find(hash.0, |entry| self.has_key(entry, key))?;
        let location = entry.location();
        let block = self.block(location);
        if self.miss_reason(location, block, now_s).is_some() {
            self.unlink_expired(hash.0, location, now_s);
            return None;
        }
        Some(Snapshot {
            entry,
            pin: Pin::take_unbounded(&self.store, location, block),
            value_len: block.value_len(),
            flags: block.flags(),
            cas: block.cas(),
            expiry: block.expiry(),
            is_restored: entry.is_restored(),
        })
    }

    /// Builds the new value in memory of the store.
    fn build_value(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        found: &Snapshot,
        new_value: &NewValue<'_>,
        change: Change,
        now_s: u32,
    ) -> Result<Upload, Rejected> {
        let value_len = match new_value {
            NewValue::Number { value_len, .. } => *value_len,
            NewValue::Joined { new, .. } => found.value_len + new.value_len(),
            NewValue::Same => found.value_len,
            NewValue::Empty => 0,
        };
        let request = Reserve {
            value_len,
            flags: change.flags.unwrap_or(found.flags),
            expiry: change.expiry.unwrap_or(found.expiry),
            whole: true,
        };
        let mut upload = self.reserve_for(key, hash, &request, change.cas.number(found), now_s)?;
        let mut add = |bytes: &[u8]| self.fill(&mut upload, bytes, now_s).map(drop);
        match new_value {
            NewValue::Number { number, value_len } => {
                let digits = Digits::new(*number);
                add(digits.as_bytes())?;
                let mut missing = value_len - digits.as_bytes().len();
                while missing > 0 {
                    let len = missing.min(SPACES.len());
                    add(&SPACES[..len])?;
                    missing -= len;
                }
            }
            NewValue::Joined { new, is_before } => {
                if *is_before {
                    new.value().try_for_each(&mut add)?;
                }
                found.value().try_for_each(&mut add)?;
                if !is_before {
                    new.value().try_for_each(&mut add)?;
                }
            }
            NewValue::Same => found.value().try_for_each(&mut add)?,
            NewValue::Empty => {}
        }
        Ok(upload)
    }

    /// Replaces the item by the new one, if the snapshot is still current. `draft` is the head
    /// block of a new value in pieces; any other value is in the block of `new`. Returns the new
    /// CAS, or `None` if the item was not replaced, so that the rewrite has to be repeated.
    fn replace_if_current(
        &self,
        found: &Snapshot,
        new: &Upload,
        draft: Option<&Draft<'_>>,
        guard: Option<&RewriteGuard>,
        change: Change,
        now_s: u32,
    ) -> Option<u64> {
        let built = match draft {
            Some(draft) => draft.block_ref,
            None => new.block_ref()?,
        };
        let block = built.block;
        let writer = self.store.index.lock(new.hash().0);
        if writer.is_rewriting() && guard.is_none() {
            return None;
        }
        let location = found.entry.location();
        let current = CurrentItem {
            found: writer.find(|entry| entry.location() == location)?,
            block_ref: self.block_ref(location),
        };
        let old = current.block_ref.block;
        let is_expired = self.miss_reason(location, old, now_s).is_some();
        if is_expired || self.is_flushed(built.segment, now_s) {
            return None;
        }
        let kept = old.access().accessed_at(now_s);
        let access = match change.access {
            NewAccess::Stale => kept.with_stale_and_claimed(true, false),
            NewAccess::NewStale => Access::new(now_s).with_stale_and_claimed(true, false),
            // If the length of the value changes, the item counts as new, as in memcached.
            NewAccess::Kept if new.value_len() == found.value_len => kept,
            NewAccess::Kept | NewAccess::New => Access::new(now_s),
        };
        let metadata = Metadata {
            is_overwrite: true,
            is_restored: found.is_restored,
            is_in_place: match change.access {
                NewAccess::Stale => true,
                NewAccess::Kept => new.value_len() <= found.value_len,
                NewAccess::New | NewAccess::NewStale => false,
            },
            cas: change
                .cas
                .number(found)
                .unwrap_or_else(|| writer.next_cas(Some(old.cas()))),
            expiry: change.expiry.unwrap_or_else(|| old.expiry()),
            access,
        };
        if !block.can_hold(metadata.cas, metadata.expiry) {
            return None;
        }
        self.link(&writer, Some(&current), &built, metadata, now_s);
        drop(writer);
        self.sample(new.hash(), now_s, || SampledAccess::Stored(traits(block)));
        Some(metadata.cas)
    }
}
