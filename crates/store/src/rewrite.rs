//! Rewriting: a new value made of the present one, as append and arithmetic do.
//!
//! The new value is made outside the lock, from a snapshot, and takes the item's place if the
//! snapshot is still the item's value. Under a crowd of writers that may fail again and again, so
//! the last attempt is made under the lock: the one place where a value is allocated there.

use crate::item::Expiry;
use crate::ledger::Block;
use crate::limits::REWRITE_ATTEMPTS;
use crate::number::Digits;
use crate::shard::{Facts, Shard, Slot, SlotIndex};
use crate::upload::Upload;
use crate::worker::{KeyHash, Worker};

/// An item's value and facts at one moment.
pub(crate) struct Snapshot {
    pub(crate) block: Block,
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) expiry: Expiry,
}

/// A value made of a snapshot's: a number or some bytes, more bytes, then spaces.
pub(crate) struct Made<'v> {
    pub(crate) number: Option<u64>,
    pub(crate) first: &'v [u8],
    pub(crate) second: &'v [u8],
    /// At least the length of the parts.
    pub(crate) value_len: usize,
}

/// What a rewrite changes beside the value.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// None: the next.
    pub(crate) cas: Option<u64>,
    /// None: as it was.
    pub(crate) expiry: Option<Expiry>,
}

/// What came of a rewrite.
pub(crate) enum Rewritten<T> {
    Done(Done),
    /// There is no such item.
    Absent,
    /// The maker would not.
    Refused(T),
    /// The new value is longer than the store takes, or there is no memory for it.
    NoRoom,
}

/// A rewrite that was made.
pub(crate) struct Done {
    pub(crate) cas: u64,
    pub(crate) value_len: usize,
    pub(crate) number: u64,
    pub(crate) expiry_before: Expiry,
}

impl Worker {
    /// Gives an item the value that `make` makes of its present one and of `new`.
    pub(crate) fn rewrite<T>(
        &self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        change: Change,
        new: &[u8],
        make: impl for<'v> Fn(&'v Snapshot, &'v [u8]) -> Result<Made<'v>, T>,
    ) -> Rewritten<T> {
        for _ in 0..REWRITE_ATTEMPTS {
            let Some(found) = self.snapshot(key, hash, now_s) else {
                return Rewritten::Absent;
            };
            let made = match make(&found, new) {
                Ok(made) => made,
                Err(refused) => return Rewritten::Refused(refused),
            };
            let reserved = self.reserve_beside(&found, key, hash, made.value_len, now_s);
            let Ok(mut upload) = reserved else {
                return Rewritten::NoRoom;
            };
            made.fill(upload.unfilled());
            if let Some(cas) = self.swap(&found, upload, change, now_s) {
                return Rewritten::Done(made.done(cas, &found));
            }
        }
        self.rewrite_locked(key, hash, now_s, change, new, make)
    }

    fn rewrite_locked<T>(
        &self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        change: Change,
        new: &[u8],
        make: impl for<'v> Fn(&'v Snapshot, &'v [u8]) -> Result<Made<'v>, T>,
    ) -> Rewritten<T> {
        let Ok((mut shard, index)) = self.find_live(key, hash, now_s) else {
            return Rewritten::Absent;
        };
        let Some(found) = snapshot_of(shard.slot(index)) else {
            return Rewritten::Absent;
        };
        let made = match make(&found, new) {
            Ok(made) => made,
            Err(refused) => return Rewritten::Refused(refused),
        };
        if !self.fits(key, found.flags, made.value_len) {
            return Rewritten::NoRoom;
        }
        let mut block = Block::new(key, made.value_len);
        made.fill(block.value_mut());
        self.ledger().charge(block.charge());
        let generation = shard.slot(index).generation;
        let facts = changed(&mut shard, index, change);
        let old = shard.replace(index, block.clone(), facts, now_s, generation);
        drop(shard);
        self.drop_blocks(old);
        self.settle(hash, Some(&block), now_s);
        Rewritten::Done(made.done(facts.cas, &found))
    }

    fn snapshot(&self, key: &[u8], hash: KeyHash, now_s: u32) -> Option<Snapshot> {
        let (mut shard, index) = self.find_live(key, hash, now_s).ok()?;
        // Room for the new value must not be made by evicting the old one.
        shard.make_newest(index);
        snapshot_of(shard.slot(index))
    }

    /// Replaces the value of a snapshot, if it is still the item's; returns the new CAS.
    fn swap(&self, found: &Snapshot, new: Upload, change: Change, now_s: u32) -> Option<u64> {
        let (mut shard, index) = self.find_live(new.key(), new.hash, now_s).ok()?;
        let present = shard.slot(index).block.as_ref()?;
        if !present.is_same(&found.block) {
            return None;
        }
        let generation = shard.slot(index).generation;
        let facts = changed(&mut shard, index, change);
        let old = shard.replace(index, new.into_block(), facts, now_s, generation);
        drop(shard);
        self.drop_blocks(old);
        Some(facts.cas)
    }
}

impl Made<'_> {
    fn fill(&self, into: &mut [u8]) {
        let digits = self.number.map(Digits::of);
        let first = digits.as_ref().map_or(self.first, Digits::as_bytes);
        let (head, rest) = into.split_at_mut(first.len());
        head.copy_from_slice(first);
        let (middle, tail) = rest.split_at_mut(self.second.len());
        middle.copy_from_slice(self.second);
        tail.fill(b' ');
    }

    fn done(&self, cas: u64, found: &Snapshot) -> Done {
        Done {
            cas,
            value_len: self.value_len,
            number: self.number.unwrap_or_default(),
            expiry_before: found.expiry,
        }
    }
}

fn snapshot_of(slot: &Slot) -> Option<Snapshot> {
    Some(Snapshot {
        block: slot.block.clone()?,
        flags: slot.flags,
        cas: slot.cas,
        expiry: slot.expiry,
    })
}

fn changed(shard: &mut Shard, index: SlotIndex, change: Change) -> Facts {
    let cas = match change.cas {
        Some(cas) => cas,
        None => shard.next_cas(),
    };
    let facts = shard.slot(index).facts();
    Facts {
        cas,
        expiry: change.expiry.unwrap_or(facts.expiry),
        ..facts
    }
}
