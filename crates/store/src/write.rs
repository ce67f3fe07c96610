//! Writing.

use std::sync::atomic::Ordering;

use crate::heap::block::{Access, Block, Outline};
use crate::index::{Found, Inserted, Location, Writer};
use crate::item::Expiry;
use crate::limits::{LONG_SEARCH, REMAKES_MAX};
use crate::log::Taken;
use crate::miniature::Seen;
use crate::number::{self, Digits};
use crate::rewrite::{Change, Made, Rewritten, Snapshot};
use crate::store::Store;
use crate::sync::Arc;
use crate::tally::Count;
use crate::upload::{Reserve, Upload};
use crate::worker::{KeyHash, Worker, traits};

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

impl Write {
    /// One that compares nothing and leaves the CAS to the store, without client flags.
    #[must_use]
    pub const fn plain(mode: Mode, expiry: Expiry) -> Self {
        Self {
            mode,
            flags: 0,
            expiry,
            compare: None,
            invalidate: false,
            explicit_cas: None,
        }
    }
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

/// What an item becomes by a write, beside its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// It takes the place of one that was alive.
    pub(crate) is_overwrite: bool,
    pub(crate) cas: u64,
    pub(crate) expiry: Expiry,
    pub(crate) stale: bool,
    pub(crate) claimed: bool,
}

/// A block made for an item that is about to be published, held until it is.
pub(crate) struct Draft {
    store: Arc<Store>,
    taken: Taken,
}

impl Draft {
    pub(crate) fn location(&self) -> Location {
        self.taken.location
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let heap = &self.store.log.heap;
        heap.segment(self.taken.number).release_writer();
    }
}

impl Worker {
    /// Makes an upload the value of its key, if `write` allows.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what was published must not be filled again"
    )]
    pub fn publish(&self, upload: Upload, write: &Write, now_s: u32) -> Published {
        debug_assert_eq!(upload.missing(), 0);
        self.wake();
        match write.mode {
            Mode::Append | Mode::Prepend => self.join(&upload, write, now_s),
            Mode::Set | Mode::Add | Mode::Replace => self.place(&upload, write, now_s),
        }
    }

    /// Removes an item.
    pub fn delete(&self, key: &[u8], hash: KeyHash, compare: Option<u64>, now_s: u32) -> Deleted {
        self.wake();
        let writer = self.store.index.lock(hash.0);
        let Some(found) = writer.find(|entry| self.has_key(entry, key)) else {
            drop(writer);
            // A small cache may have it still.
            self.rehearse(hash, now_s, || Seen::Deleted);
            return Deleted::NotFound;
        };
        let location = found.entry().location();
        let block = self.block(location);
        if self.death(location, block, now_s).is_some() {
            self.bury_found(&writer, &found, block);
            drop(writer);
            self.rehearse(hash, now_s, || Seen::Deleted);
            return Deleted::NotFound;
        }
        if compare.is_some_and(|cas| cas != block.cas()) {
            return Deleted::Exists;
        }
        writer.remove(&found);
        drop(writer);
        self.free(location);
        self.adjust();
        self.rehearse(hash, now_s, || Seen::Deleted);
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
        self.wake();
        let change = Change {
            cas: arithmetic.explicit_cas,
            expiry: arithmetic.touch,
        };
        // A counter that goes while another worker makes it is made again, once.
        for _ in 0..2 {
            let counted = self.rewrite(key, hash, now_s, change, |found| count(found, arithmetic));
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

    fn place(&self, upload: &Upload, write: &Write, now_s: u32) -> Published {
        let mut draft = None;
        let mut cas_needed = None;
        for _ in 0..REMAKES_MAX {
            let (location, block) = match (&draft, upload.block()) {
                (None, Some(whole)) => whole,
                (Some(Draft { taken, .. }), _) => (taken.location, self.block(taken.location)),
                (None, None) => {
                    draft = self.draft(upload, write.expiry, cas_needed, now_s);
                    if draft.is_none() {
                        return Published::NoRoom;
                    }
                    continue;
                }
            };
            let writer = self.store.index.lock(upload.hash.0);
            let found = writer.find(|entry| self.has_key(entry, upload.key()));
            let facts = match self.decide(&writer, found.as_ref(), write, now_s) {
                Ok(facts) => facts,
                Err(refused) => return refused,
            };
            if self.is_flushed(location, now_s) || !block.outline().takes_cas(facts.cas) {
                drop(writer);
                // Flushed since it was reserved, or its form was chosen before this CAS was.
                cas_needed = Some(facts.cas);
                draft = self.draft(upload, facts.expiry, cas_needed, now_s);
                if draft.is_none() {
                    return Published::NoRoom;
                }
                continue;
            }
            let is_linked = self.link(&writer, found.as_ref(), location, block, facts, now_s);
            drop(writer);
            self.adjust();
            if !is_linked {
                return Published::NoRoom;
            }
            self.rehearse(upload.hash, now_s, || Seen::Stored(traits(block)));
            return Published::Stored {
                cas: facts.cas,
                value_len: upload.value_len(),
            };
        }
        Published::NoRoom
    }

    pub(crate) fn is_flushed(&self, location: Location, now_s: u32) -> bool {
        let segment = self.store.log.heap.segment_of(location);
        segment.birth() != self.store.flushes(now_s)
    }

    /// Gives a block its facts and lets the index lead to it, in the place of `found`. False: the
    /// index has no place for one more.
    pub(crate) fn link(
        &self,
        writer: &Writer<'_>,
        found: Option<&Found>,
        location: Location,
        block: Block<'_>,
        facts: Facts,
        now_s: u32,
    ) -> bool {
        let heap = &self.store.log.heap;
        block.set_expiry(facts.expiry);
        block.set_access(Access::new(now_s).with(facts.stale, facts.claimed));
        block.set_cas(facts.cas);
        let segment = heap.segment_of(location);
        segment.raise_expiry(facts.expiry);
        segment.add_live(block.len());
        if block.is_in_pieces() {
            for piece in crate::worker::pieces_of(block) {
                heap.segment_of(piece).add_live(heap.block(piece).len());
            }
        }
        if let Some(found) = found {
            self.tally.count(Count::Stored);
            // Who writes it again wants it as much as who reads it; what is dead begins anew.
            let frequency = match facts.is_overwrite {
                true => found.entry().frequency() + 1,
                false => 0,
            };
            let old = writer.replace(found, location, frequency);
            self.free(old.location());
            return true;
        }
        let evicts = self.store.config().evicts;
        let budget = if evicts {
            self.visits_left()
        } else {
            LONG_SEARCH
        };
        let inserted = writer.insert(location, 0, evicts, budget);
        self.tally.add(Count::Visits, writer.visits() as u64);
        match inserted {
            Inserted::Placed => {
                if self.store.ghosts.take(writer.hash()) {
                    self.tally.count(Count::Returned);
                }
            }
            Inserted::Displaced(old) => {
                let part = heap.segment_of(old.location()).part();
                self.tally.count(Count::Displaced);
                self.count_evicted(self.block(old.location()), part, now_s);
                self.unlinked(old.location());
            }
            Inserted::Full => {
                self.unlinked(location);
                return false;
            }
        }
        self.tally.count(Count::Stored);
        true
    }

    /// Makes a block for the item of an upload: the list of its pieces, or a copy of the whole.
    pub(crate) fn draft(
        &self,
        upload: &Upload,
        expiry: Expiry,
        cas: Option<u64>,
        now_s: u32,
    ) -> Option<Draft> {
        let key = upload.key();
        let outline = match upload.pieces() {
            Some(pieces) => {
                Outline::pieces(key.len(), upload.value_len(), upload.flags, pieces.len())
            }
            None => Outline::whole(key.len(), upload.value_len(), upload.flags, cas),
        };
        if outline.block_len() > self.store.log.heap.block_max() {
            return None;
        }
        let taken = self.take(outline.block_len(), upload.part(), expiry, now_s)?;
        let block = self.block(taken.location);
        block.begin(&outline, key);
        match upload.pieces() {
            Some(pieces) => {
                for (place, piece) in block.pieces().iter().zip(pieces) {
                    place.store(piece.location.units(), Ordering::Relaxed);
                }
            }
            None => {
                // SAFETY: the block was taken just now and nothing leads there.
                let mut rest = unsafe { block.value_mut() };
                for piece in upload.value() {
                    let (head, tail) = rest.split_at_mut(piece.len());
                    head.copy_from_slice(piece);
                    rest = tail;
                }
            }
        }
        Some(Draft {
            store: Arc::clone(&self.store),
            taken,
        })
    }

    /// Whether a set, add or replace may go ahead, and the facts of the item it makes.
    fn decide(
        &self,
        writer: &Writer<'_>,
        found: Option<&Found>,
        write: &Write,
        now_s: u32,
    ) -> Result<Facts, Published> {
        let present = found.and_then(|found| {
            let location = found.entry().location();
            let block = self.block(location);
            // One that is dead gives its place, but is no item any more.
            self.death(location, block, now_s)
                .is_none()
                .then_some(block)
        });
        let mut facts = Facts {
            is_overwrite: present.is_some(),
            expiry: write.expiry,
            cas: 0,
            stale: false,
            claimed: false,
        };
        match (write.mode, present, write.compare) {
            (Mode::Add, Some(_), _) | (Mode::Replace, None, _) => {
                return Err(Published::NotStored);
            }
            (Mode::Set, None, Some(_)) => return Err(Published::NotFound),
            (Mode::Set, Some(present), Some(compare)) if compare != present.cas() => {
                if !(write.invalidate && compare != 0 && compare < present.cas()) {
                    return Err(Published::Exists);
                }
                facts.expiry = present.expiry();
                facts.stale = true;
                facts.claimed = present.access().is_claimed();
            }
            _ => {}
        }
        facts.cas = write
            .explicit_cas
            .unwrap_or_else(|| writer.next_cas(present.map(Block::cas)));
        Ok(facts)
    }

    fn join(&self, upload: &Upload, write: &Write, now_s: u32) -> Published {
        let change = Change {
            cas: write.explicit_cas,
            expiry: None,
        };
        let joined = self.rewrite(upload.key(), upload.hash, now_s, change, |found| {
            if differs(write.compare, found.cas) {
                return Err(Published::Exists);
            }
            Ok(Made::Joined {
                new: upload,
                is_before: write.mode == Mode::Prepend,
            })
        });
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
        let asked = Reserve {
            value_len: digits.as_bytes().len(),
            flags: 0,
            expiry,
            whole: true,
        };
        let Ok(mut upload) = self.reserve(key, hash, &asked, now_s) else {
            return Some(ArithOutcome::NoRoom);
        };
        if self.fill(&mut upload, digits.as_bytes(), now_s).is_err() {
            return Some(ArithOutcome::NoRoom);
        }
        let write = Write {
            explicit_cas: arithmetic.explicit_cas,
            ..Write::plain(Mode::Add, expiry)
        };
        match self.place(&upload, &write, now_s) {
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
            Published::NoRoom => Some(ArithOutcome::NoRoom),
            // Somebody else was first: count on theirs.
            _ => None,
        }
    }
}

/// Whether a CAS was given and is another. Zero stands for "no CAS" here, as in memcached.
fn differs(compare: Option<u64>, present: u64) -> bool {
    compare.is_some_and(|cas| cas != 0 && cas != present)
}

fn count(found: &Snapshot, arithmetic: &Arithmetic) -> Result<Made<'static>, ArithOutcome> {
    if found.value_len == 0 {
        return Err(ArithOutcome::NotNumeric);
    }
    if differs(arithmetic.compare, found.cas) {
        return Err(ArithOutcome::Exists);
    }
    // The digits of a value in pieces lie in the first, which is longer than any number.
    let text = found.value().next().unwrap_or_default();
    let present = number::parse(text).ok_or(ArithOutcome::NotNumeric)?;
    let number = match arithmetic.direction {
        Direction::Up => present.wrapping_add(arithmetic.delta),
        Direction::Down => present.saturating_sub(arithmetic.delta),
    };
    let digits_len = Digits::of(number).as_bytes().len();
    Ok(Made::Number {
        number,
        // A shorter number keeps the length and ends in spaces, as memcached's does.
        value_len: found.value_len.max(digits_len),
    })
}
