//! Read-modify-write: a new value derived from the present one, as by append and arithmetic.
//!
//! The new value is computed without a lock from a pinned snapshot. It replaces the item if the
//! snapshot is still current. Otherwise another writer was first, and the computation is repeated
//! under a [`RewriteGuard`]: no other worker may then store in the class, and the second attempt
//! succeeds unless evacuation moves the item. A worker that finds the class guarded by another one
//! waits briefly, and then defers its request.

use crate::decimal::Digits;
use crate::heap::block::Access;
use crate::index::Location;
use crate::insertion::{CurrentItem, Draft, Metadata};
use crate::item::Expiry;
use crate::limits::{REWRITE_ATTEMPTS, REWRITE_YIELDS_MAX};
use crate::miniature::SampledAccess;
use crate::pin::Pin;
use crate::sync::{Arc, yield_now};
use crate::upload::{Rejected, Reserve, Upload};
use crate::worker::{KeyHash, Lease, Worker, traits};

/// Padding for a number that has become shorter.
static SPACES: [u8; 4096] = [b' '; 4096];

/// Value and metadata of an item at one moment.
pub(crate) struct Snapshot {
    location: Location,
    pin: Pin,
    pub(crate) value_len: usize,
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) expiry: Expiry,
}

impl Snapshot {
    pub(crate) fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.pin.value()
    }
}

/// A value derived from a snapshot.
pub(crate) enum NewValue<'v> {
    /// The digits of a number, padded with spaces to a length.
    Number { number: u64, value_len: usize },
    /// The snapshot's value with another one appended or prepended.
    Joined { new: &'v Upload, is_before: bool },
    /// The unchanged value.
    Same,
    /// An empty value.
    Empty,
}

/// The access word of the rewritten item: access time, stale, claimed, base64 key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewAccess {
    /// As for a new item.
    New,
    /// Unchanged if the value keeps its length; otherwise as [`NewAccess::New`].
    Kept,
    /// Stale and unclaimed; otherwise unchanged.
    Stale,
    /// Stale and unclaimed; otherwise as for a new item.
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
    Next,
    /// Chosen by the client.
    Given(u64),
    /// Unchanged.
    Kept,
}

impl NewCas {
    pub(crate) fn given_or(cas: Option<u64>, or: Self) -> Self {
        cas.map_or(or, Self::Given)
    }

    /// The CAS as a number. `None`: the next one of the class.
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
    Done(Done),
    /// There is no item.
    Absent,
    /// The closure returned this error.
    Rejected(T),
    /// The new value is too long, or there is no memory for it.
    NoSpace,
    /// See [`Rejected::Deferred`].
    Deferred,
}

impl<T> Rewritten<T> {
    fn without_memory(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Deferred => Self::Deferred,
            Rejected::TooLarge | Rejected::NoMemory | Rejected::HoldLimit => Self::NoSpace,
        }
    }
}

/// A completed rewrite.
pub(crate) struct Done {
    pub(crate) cas: u64,
    pub(crate) value_len: usize,
    pub(crate) number: u64,
    pub(crate) expiry_before: Expiry,
}

/// The exclusive right to store in a class, until this value is dropped. The right is not a lock:
/// other writers check for it under the lock of the class, and try again later.
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
    /// Waits until no other worker has the guard of the class, and takes it.
    ///
    /// # Errors
    /// [`Rejected::Deferred`] if other workers held the guard for too long.
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

    /// Waits until no worker has the guard of the class.
    ///
    /// # Errors
    /// [`Rejected::Deferred`] if other workers held the guard for too long.
    #[cold]
    pub(crate) fn wait_for_rewrite(&mut self, hash: KeyHash) -> Result<(), Rejected> {
        self.begin_rewrite(hash).map(drop)
    }

    /// Replaces the value of an item by the result of `compute`.
    pub(crate) fn rewrite<'v, T>(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        change: Change,
        compute: impl Fn(&Snapshot) -> Result<NewValue<'v>, T>,
    ) -> Rewritten<T> {
        let mut guard = None;
        for attempt in 0..REWRITE_ATTEMPTS {
            if attempt == 1 {
                guard = match self.begin_rewrite(hash) {
                    Ok(guard) => Some(guard),
                    Err(rejected) => return Rewritten::without_memory(rejected),
                };
            }
            let Some(found) = self.snapshot(key, hash, now_s) else {
                return Rewritten::Absent;
            };
            let new_value = match compute(&found) {
                Ok(new_value) => new_value,
                Err(rejected) => return Rewritten::Rejected(rejected),
            };
            let upload = match self.build_value(key, hash, &found, &new_value, change, now_s) {
                Ok(upload) => upload,
                Err(rejected) => return Rewritten::without_memory(rejected),
            };
            let item = upload.new_item();
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
                        Err(rejected) => return Rewritten::without_memory(rejected),
                    }
                }
            };
            let draft =
                allocation.map(|(allocation, fields)| self.draft(allocation, &fields, &item));
            let draft = draft.as_ref();
            if let Some(cas) = self.swap(&found, &upload, draft, guard.as_ref(), change, now_s) {
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
        // Evacuation moved the item in each attempt.
        Rewritten::Deferred
    }

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
        // Without a recorded access, the allocation for the new value might evict the old one.
        self.record_access(hash, entry, block, false, now_s);
        Some(Snapshot {
            location,
            pin: Pin::force(&self.store, location, block),
            value_len: block.value_len(),
            flags: block.flags(),
            cas: block.cas(),
            expiry: block.expiry(),
        })
    }

    /// Builds the new value.
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

    /// Replaces the item by the new value, if the snapshot is still current. Returns the new CAS.
    fn swap(
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
        let current = CurrentItem {
            found: writer.find(|entry| entry.location() == found.location)?,
            block_ref: self.block_ref(found.location),
        };
        let old = current.block_ref.block;
        let is_expired = self.miss_reason(found.location, old, now_s).is_some();
        if is_expired || self.is_flushed(built.segment, now_s) {
            return None;
        }
        let kept = old.access().accessed_at(now_s);
        let access = match change.access {
            NewAccess::Stale => kept.with_stale_and_claimed(true, false),
            NewAccess::NewStale => Access::new(now_s).with_stale_and_claimed(true, false),
            // If the length changes, the item counts as new, as in memcached.
            NewAccess::Kept if new.value_len() == found.value_len => kept,
            NewAccess::Kept | NewAccess::New => Access::new(now_s),
        };
        let metadata = Metadata {
            is_overwrite: true,
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
