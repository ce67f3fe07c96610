//! Writing.

use std::sync::Arc;

use crate::item::Expiry;
use crate::ledger::{Block, charge_of};
use crate::limits::REWRITE_ATTEMPTS;
use crate::number::{self, Digits};
use crate::shard::{Facts, Shard, Slot, SlotIndex};
use crate::upload::{Refused, Upload};
use crate::worker::{KeyHash, Worker};

/// How a new value meets what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Store whatever is there.
    Set,
    /// Only if nothing is there.
    Add,
    /// Only if something is there.
    Replace,
    /// Behind what is there, whose flags and expiry stay.
    Append,
    /// Before what is there, whose flags and expiry stay.
    Prepend,
}

/// What to do with an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// How it meets what is there.
    pub mode: Mode,
    /// The client's own 32 bits.
    pub flags: u32,
    /// When it stops being shown.
    pub expiry: Expiry,
    /// Store only over an item with this CAS. Not looked at by `Add` and `Replace`, as in
    /// memcached.
    pub compare: Option<u64>,
    /// If `compare` is below the item's CAS, store all the same and mark it stale.
    pub invalidate: bool,
    /// The CAS the item gets; none: the next.
    pub explicit_cas: Option<u64>,
}

/// What became of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// It is the item's value now.
    Stored {
        /// The item's CAS.
        cas: u64,
        /// The length of the item's whole value, in bytes.
        value_len: usize,
    },
    /// The mode forbade it.
    NotStored,
    /// The item has another CAS.
    Exists,
    /// A CAS was given and there is no item.
    NotFound,
    /// Joined to what is there it is longer than the store takes, or there is no room.
    NoRoom,
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Deleted,
    /// There was none.
    NotFound,
    /// The item has another CAS.
    Exists,
}

/// Which way arithmetic goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Wraps at 2^64.
    Up,
    /// Stops at zero.
    Down,
}

/// A counter made where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vivify {
    /// Its value.
    pub initial: u64,
    /// When it stops being shown.
    pub expiry: Expiry,
}

/// Arithmetic on a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// How far.
    pub delta: u64,
    /// Which way.
    pub direction: Direction,
    /// Only on an item with this CAS.
    pub compare: Option<u64>,
    /// The CAS the item gets; none: the next.
    pub explicit_cas: Option<u64>,
    /// Its new expiry.
    pub touch: Option<Expiry>,
    /// Make the counter if there is none.
    pub vivify: Option<Vivify>,
}

/// What became of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithOutcome {
    /// The counter has a new value.
    Counted(Counted),
    /// There is none.
    NotFound,
    /// The value is no number.
    NotNumeric,
    /// The item has another CAS.
    Exists,
    /// There is no room.
    NoRoom,
}

/// A counter after arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Its value.
    pub value: u64,
    /// It was made just now.
    pub created: bool,
    /// Its CAS.
    pub cas: u64,
    /// When it stopped being shown before.
    pub expiry_before: Expiry,
    /// When it stops being shown.
    pub expiry: Expiry,
}

impl Worker {
    /// Reserves memory for the value of an item with these client flags. `whole` says that all its
    /// bytes are at hand; a value still on its way counts as held for a peer until it is published
    /// or dropped.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn reserve(
        &self,
        key: &[u8],
        hash: KeyHash,
        value_len: usize,
        flags: u32,
        whole: bool,
        now_s: u32,
    ) -> Result<Upload, Refused> {
        if !self.fits(key, flags, value_len) {
            return Err(Refused::TooLarge);
        }
        let charge = charge_of(key.len() + value_len);
        if !whole && !self.ledger().try_wait(charge) {
            return Err(Refused::HeldFull);
        }
        if !self.make_room(charge, hash, now_s) {
            if !whole {
                self.ledger().stop_waiting(charge);
            }
            return Err(Refused::NoMemory);
        }
        let block = Block::new(key, value_len);
        debug_assert_eq!(block.charge(), charge);
        Ok(Upload::new(
            block,
            hash,
            charge,
            !whole,
            Arc::clone(self.ledger()),
        ))
    }

    /// Makes an upload the value of its key, if `write` allows.
    pub fn publish(&self, upload: Upload, write: &Write, now_s: u32) -> Published {
        debug_assert_eq!(upload.missing(), 0);
        match write.mode {
            Mode::Append | Mode::Prepend => self.join(&upload, write, now_s),
            Mode::Set | Mode::Add | Mode::Replace => self.place(upload, write, now_s),
        }
    }

    /// Removes an item.
    pub fn delete(&self, key: &[u8], hash: KeyHash, compare: Option<u64>, now_s: u32) -> Deleted {
        let Ok((mut shard, index)) = self.find_live(key, hash, now_s) else {
            return Deleted::NotFound;
        };
        if compare.is_some_and(|cas| cas != shard.slot(index).cas) {
            return Deleted::Exists;
        }
        let block = shard.remove(index);
        drop(shard);
        self.drop_blocks(block);
        Deleted::Deleted
    }

    /// Adds to or subtracts from a counter.
    pub fn arith(
        &self,
        key: &[u8],
        hash: KeyHash,
        arithmetic: &Arithmetic,
        now_s: u32,
    ) -> ArithOutcome {
        for _ in 0..REWRITE_ATTEMPTS {
            let attempt = match self.snapshot(key, hash, now_s) {
                Some(found) => self.count(key, hash, &found, arithmetic, now_s),
                None => self.vivify(key, hash, arithmetic, now_s),
            };
            if let Some(outcome) = attempt {
                return outcome;
            }
        }
        ArithOutcome::NoRoom
    }

    fn place(&self, upload: Upload, write: &Write, now_s: u32) -> Published {
        let hash = upload.hash;
        let generation = self.generation(now_s);
        let found = self.find_live(upload.key(), hash, now_s);
        // A dead item is buried by now, and its shard unlocked.
        let (mut shard, index) = match found {
            Ok((shard, index)) => (shard, Some(index)),
            Err(_) => self.lock_again(upload.key(), hash),
        };
        let facts = match decide(&mut shard, index, write) {
            Ok(facts) => facts,
            Err(refused) => return refused,
        };
        let value_len = upload.value_len();
        let before = shard.index_bytes();
        let old = match index {
            Some(index) => shard.replace(index, upload.into_block(), facts, now_s, generation),
            None => {
                shard.insert(hash.0, upload.into_block(), facts, now_s, generation);
                None
            }
        };
        let grown = shard.index_bytes() - before;
        drop(shard);
        self.drop_blocks(old);
        if grown > 0 {
            self.ledger().charge(grown);
            self.make_room(0, hash, now_s);
        }
        Published::Stored {
            cas: facts.cas,
            value_len,
        }
    }

    /// The shard of a key that was absent a moment ago, and the key's place should another thread
    /// have stored it since.
    fn lock_again(
        &self,
        key: &[u8],
        hash: KeyHash,
    ) -> (std::sync::MutexGuard<'_, Shard>, Option<SlotIndex>) {
        let shard = self.shard(hash);
        let index = shard.find(hash.0, key);
        (shard, index)
    }

    fn join(&self, upload: &Upload, write: &Write, now_s: u32) -> Published {
        for _ in 0..REWRITE_ATTEMPTS {
            let Some(found) = self.snapshot(upload.key(), upload.hash, now_s) else {
                return Published::NotStored;
            };
            // Zero stands for "no CAS" here, as in memcached.
            if write
                .compare
                .is_some_and(|cas| cas != 0 && cas != found.cas)
            {
                return Published::Exists;
            }
            let (old, new) = (found.block.value(), upload.block.value());
            let (first, second) = if write.mode == Mode::Append {
                (old, new)
            } else {
                (new, old)
            };
            let value_len = first.len() + second.len();
            let reserved = self.reserve(
                upload.key(),
                upload.hash,
                value_len,
                found.flags,
                true,
                now_s,
            );
            let Ok(mut joined) = reserved else {
                return Published::NoRoom;
            };
            joined.fill(first);
            joined.fill(second);
            let change = Change {
                cas: write.explicit_cas,
                expiry: None,
            };
            if let Some(cas) = self.swap(&found, joined, change, now_s) {
                return Published::Stored { cas, value_len };
            }
        }
        Published::NoRoom
    }

    fn count(
        &self,
        key: &[u8],
        hash: KeyHash,
        found: &Snapshot,
        arithmetic: &Arithmetic,
        now_s: u32,
    ) -> Option<ArithOutcome> {
        let old = found.block.value();
        if old.is_empty() {
            return Some(ArithOutcome::NotNumeric);
        }
        // Zero stands for "no CAS" here, as in memcached.
        if arithmetic
            .compare
            .is_some_and(|cas| cas != 0 && cas != found.cas)
        {
            return Some(ArithOutcome::Exists);
        }
        let Some(present) = number::parse(old) else {
            return Some(ArithOutcome::NotNumeric);
        };
        let value = match arithmetic.direction {
            Direction::Up => present.wrapping_add(arithmetic.delta),
            Direction::Down => present.saturating_sub(arithmetic.delta),
        };
        let digits = Digits::of(value);
        // A shorter number keeps the length and ends in spaces, as memcached's does.
        let value_len = old.len().max(digits.as_bytes().len());
        let Ok(mut upload) = self.reserve(key, hash, value_len, found.flags, true, now_s) else {
            return Some(ArithOutcome::NoRoom);
        };
        upload.fill(digits.as_bytes());
        upload.unfilled().fill(b' ');
        let change = Change {
            cas: arithmetic.explicit_cas,
            expiry: arithmetic.touch,
        };
        let cas = self.swap(found, upload, change, now_s)?;
        let expiry_before = found.expiry;
        let expiry = arithmetic.touch.unwrap_or(expiry_before);
        let counted = Counted {
            value,
            created: false,
            cas,
            expiry_before,
            expiry,
        };
        Some(ArithOutcome::Counted(counted))
    }

    fn vivify(
        &self,
        key: &[u8],
        hash: KeyHash,
        arithmetic: &Arithmetic,
        now_s: u32,
    ) -> Option<ArithOutcome> {
        let Some(Vivify { initial, expiry }) = arithmetic.vivify else {
            return Some(ArithOutcome::NotFound);
        };
        let digits = Digits::of(initial);
        let reserved = self.reserve(key, hash, digits.as_bytes().len(), 0, true, now_s);
        let Ok(mut upload) = reserved else {
            return Some(ArithOutcome::NoRoom);
        };
        upload.fill(digits.as_bytes());
        let write = Write {
            mode: Mode::Add,
            flags: 0,
            expiry,
            compare: None,
            invalidate: false,
            explicit_cas: arithmetic.explicit_cas,
        };
        match self.place(upload, &write, now_s) {
            Published::Stored { cas, .. } => {
                let expiry_before = Expiry::NEVER;
                let counted = Counted {
                    value: initial,
                    created: true,
                    cas,
                    expiry_before,
                    expiry,
                };
                Some(ArithOutcome::Counted(counted))
            }
            // Somebody else was first: count on theirs.
            _ => None,
        }
    }

    fn snapshot(&self, key: &[u8], hash: KeyHash, now_s: u32) -> Option<Snapshot> {
        let (shard, index) = self.find_live(key, hash, now_s).ok()?;
        let slot = shard.slot(index);
        let block = slot.block.clone()?;
        Some(Snapshot {
            block,
            flags: slot.flags,
            cas: slot.cas,
            expiry: slot.expiry,
        })
    }

    /// Replaces the value of a snapshot, if it is still the item's; returns the new CAS.
    fn swap(&self, found: &Snapshot, new: Upload, change: Change, now_s: u32) -> Option<u64> {
        let generation = self.generation(now_s);
        let (mut shard, index) = self.find_live(new.key(), new.hash, now_s).ok()?;
        if !shard
            .slot(index)
            .block
            .as_ref()
            .is_some_and(|block| block.is_same(&found.block))
        {
            return None;
        }
        let cas = match change.cas {
            Some(cas) => cas,
            None => shard.next_cas(),
        };
        let slot = shard.slot(index);
        let facts = Facts {
            cas,
            expiry: change.expiry.unwrap_or(slot.expiry),
            ..facts_of(slot)
        };
        let old = shard.replace(index, new.into_block(), facts, now_s, generation);
        drop(shard);
        self.drop_blocks(old);
        Some(cas)
    }
}

/// An item's value and facts at one moment.
struct Snapshot {
    block: Block,
    flags: u32,
    cas: u64,
    expiry: Expiry,
}

/// What a swap changes beside the value.
#[derive(Clone, Copy)]
struct Change {
    cas: Option<u64>,
    expiry: Option<Expiry>,
}

fn facts_of(slot: &Slot) -> Facts {
    Facts {
        flags: slot.flags,
        expiry: slot.expiry,
        cas: slot.cas,
        stale: slot.stale,
        claimed: slot.claimed,
    }
}

/// Whether a set, add or replace may go ahead, and the facts of the item it makes.
fn decide(
    shard: &mut Shard,
    present: Option<SlotIndex>,
    write: &Write,
) -> Result<Facts, Published> {
    let found = present.map(|index| facts_of(shard.slot(index)));
    let mut facts = Facts {
        flags: write.flags,
        expiry: write.expiry,
        cas: 0,
        stale: false,
        claimed: false,
    };
    match (write.mode, found, write.compare) {
        (Mode::Add, Some(_), _) | (Mode::Replace, None, _) => return Err(Published::NotStored),
        (Mode::Set, None, Some(_)) => return Err(Published::NotFound),
        (Mode::Set, Some(found), Some(compare)) if compare != found.cas => {
            if !(write.invalidate && compare != 0 && compare < found.cas) {
                return Err(Published::Exists);
            }
            facts.expiry = found.expiry;
            facts.stale = true;
            facts.claimed = found.claimed;
        }
        _ => {}
    }
    facts.cas = match write.explicit_cas {
        Some(cas) => cas,
        None => shard.next_cas(),
    };
    Ok(facts)
}
