//! Writing.

use std::sync::Arc;

use crate::item::Expiry;
use crate::ledger::{Block, charge_of};
use crate::number::{self, Digits};
use crate::rewrite::{Change, Made, Rewritten, Snapshot};
use crate::shard::{Facts, Shard, SlotIndex};
use crate::upload::{Refused, Upload};
use crate::worker::{KeyHash, Worker, is_dead};

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
        if !self.make_room(charge, hash, None, now_s) {
            if !whole {
                self.ledger().stop_waiting(charge);
            }
            return Err(Refused::NoMemory);
        }
        Ok(self.upload(key, hash, value_len, !whole))
    }

    /// As [`Worker::reserve`], for a value made of another, whose item stays while room is made.
    pub(crate) fn reserve_beside(
        &self,
        found: &Snapshot,
        key: &[u8],
        hash: KeyHash,
        value_len: usize,
        now_s: u32,
    ) -> Result<Upload, Refused> {
        if !self.fits(key, found.flags, value_len) {
            return Err(Refused::TooLarge);
        }
        let charge = charge_of(key.len() + value_len);
        if !self.make_room(charge, hash, Some(&found.block), now_s) {
            return Err(Refused::NoMemory);
        }
        Ok(self.upload(key, hash, value_len, false))
    }

    /// An upload whose memory has been counted.
    fn upload(&self, key: &[u8], hash: KeyHash, value_len: usize, waiting: bool) -> Upload {
        let block = Block::new(key, value_len);
        let charge = block.charge();
        debug_assert_eq!(charge, charge_of(key.len() + value_len));
        Upload::new(block, hash, charge, waiting, Arc::clone(self.ledger()))
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
        let change = Change {
            cas: arithmetic.explicit_cas,
            expiry: arithmetic.touch,
        };
        // A counter that goes while another worker makes it is made again, once.
        for _ in 0..2 {
            let counted = self.rewrite(key, hash, now_s, change, &[], |found, _| {
                count(found, arithmetic)
            });
            match counted {
                Rewritten::Done(done) => {
                    return ArithOutcome::Counted(Counted {
                        value: done.number,
                        created: false,
                        cas: done.cas,
                        expiry_before: done.expiry_before,
                        expiry: arithmetic.touch.unwrap_or(done.expiry_before),
                    });
                }
                Rewritten::Refused(outcome) => return outcome,
                Rewritten::NoRoom => return ArithOutcome::NoRoom,
                Rewritten::Absent => {}
            }
            if let Some(outcome) = self.vivify(key, hash, arithmetic, now_s) {
                return outcome;
            }
        }
        ArithOutcome::NotFound
    }

    fn place(&self, upload: Upload, write: &Write, now_s: u32) -> Published {
        let hash = upload.hash;
        let found = self.find_live(upload.key(), hash, now_s);
        // A dead item is buried by now, and its shard unlocked.
        let (mut shard, index) = match found {
            Ok((shard, index)) => (shard, Some(index)),
            Err(_) => self.lock_again(upload.key(), hash),
        };
        // Read under the lock: what is stored now is of no generation before what is there. An item
        // flushed since it was looked for gives its place, but is no item any more.
        let generation = self.generation(now_s);
        let present = index.filter(|&index| !is_dead(&shard, index, generation, now_s));
        let facts = match decide(&mut shard, present, write) {
            Ok(facts) => facts,
            Err(refused) => return refused,
        };
        let value_len = upload.value_len();
        let before = shard.index_bytes();
        let block = upload.into_block();
        let (index, old) = match index {
            Some(index) => {
                let old = shard.replace(index, block, facts, now_s, generation);
                (index, old)
            }
            None => (shard.insert(hash.0, block, facts, now_s, generation), None),
        };
        let grown = shard.index_bytes() - before;
        let written = match grown {
            0 => None,
            _ => shard.slot(index).block.clone(),
        };
        drop(shard);
        self.drop_blocks(old);
        if grown > 0 {
            self.ledger().charge(grown);
            self.settle(hash, written.as_ref(), now_s);
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
        let change = Change {
            cas: write.explicit_cas,
            expiry: None,
        };
        let new = upload.block.value();
        let joined = self.rewrite(
            upload.key(),
            upload.hash,
            now_s,
            change,
            new,
            |found, new| {
                if differs(write.compare, found.cas) {
                    return Err(Published::Exists);
                }
                Ok(joined(write.mode, found.block.value(), new))
            },
        );
        match joined {
            Rewritten::Done(done) => Published::Stored {
                cas: done.cas,
                value_len: done.value_len,
            },
            Rewritten::Absent => Published::NotStored,
            Rewritten::Refused(outcome) => outcome,
            Rewritten::NoRoom => Published::NoRoom,
        }
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
}

/// Whether a CAS was given and is another. Zero stands for "no CAS" here, as in memcached.
fn differs(compare: Option<u64>, present: u64) -> bool {
    compare.is_some_and(|cas| cas != 0 && cas != present)
}

fn joined<'v>(mode: Mode, old: &'v [u8], new: &'v [u8]) -> Made<'v> {
    let (first, second) = if mode == Mode::Append {
        (old, new)
    } else {
        (new, old)
    };
    Made {
        number: None,
        first,
        second,
        value_len: first.len() + second.len(),
    }
}

fn count(found: &Snapshot, arithmetic: &Arithmetic) -> Result<Made<'static>, ArithOutcome> {
    let old = found.block.value();
    if old.is_empty() {
        return Err(ArithOutcome::NotNumeric);
    }
    if differs(arithmetic.compare, found.cas) {
        return Err(ArithOutcome::Exists);
    }
    let present = number::parse(old).ok_or(ArithOutcome::NotNumeric)?;
    let number = match arithmetic.direction {
        Direction::Up => present.wrapping_add(arithmetic.delta),
        Direction::Down => present.saturating_sub(arithmetic.delta),
    };
    let digits_len = Digits::of(number).as_bytes().len();
    Ok(Made {
        number: Some(number),
        first: &[],
        second: &[],
        // A shorter number keeps the length and ends in spaces, as memcached's does.
        value_len: old.len().max(digits_len),
    })
}

/// Whether a set, add or replace may go ahead, and the facts of the item it makes.
fn decide(
    shard: &mut Shard,
    present: Option<SlotIndex>,
    write: &Write,
) -> Result<Facts, Published> {
    let found = present.map(|index| shard.slot(index).facts());
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
