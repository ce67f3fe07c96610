//! Placing: how an item that has been made takes its place in the index.
//!
//! An item is made outside the lock of its class: a block is taken, held for its writer as a
//! [`Draft`], and filled. Under the lock it is decided whether it may take its place
//! ([`Worker::place`]), and the index leads to it from then on.

use std::sync::atomic::Ordering;

use crate::heap::Heap;
use crate::heap::block::{Access, Block, Outline};
use crate::heap::segment::Part;
use crate::index::{Found, Inserted, Location, Writer};
use crate::item::Expiry;
use crate::limits::{LONG_SEARCH, REMAKES_MAX};
use crate::log::Taken;
use crate::miniature::Seen;
use crate::tally::Count;
use crate::upload::{Refused, Upload};
use crate::worker::{KeyHash, Worker, traits};
use crate::write::{Mode, Published, Write};

/// An item that shall take its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: KeyHash,
    pub(crate) flags: u32,
    pub(crate) part: Part,
    pub(crate) value: Value<'a>,
}

/// Where a candidate's value is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// At hand.
    Whole(&'a [u8]),
    /// Of so many bytes, in pieces that are in the log already.
    Pieces(usize, &'a [Taken]),
}

impl Value<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Pieces(len, _) => *len,
        }
    }
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

/// As [`Refused::NotYet`]; nothing was changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotYet;

impl From<NotYet> for Refused {
    fn from(_: NotYet) -> Self {
        Self::NotYet
    }
}

/// Of what a block has to be made once more.
#[derive(Debug, Clone, Copy)]
struct Again {
    expiry: Expiry,
    /// One that its form must take.
    cas: Option<u64>,
}

/// A block made for an item that is about to be published, held until it is.
#[derive(Debug)]
pub(crate) struct Draft<'s> {
    pub(crate) heap: &'s Heap,
    pub(crate) taken: Taken,
}

impl Draft<'_> {
    pub(crate) fn location(&self) -> Location {
        self.taken.location
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.heap.segment(self.taken.number).release_writer();
    }
}

impl Worker {
    /// Lets an item take its place, if `write` allows. `made`: its block, if there is one already.
    /// `seen`: the entry of its key, if one was seen since this worker was last quiescent.
    ///
    /// # Errors
    /// Its block has to be made, and memory for it is not there yet.
    #[inline]
    pub(crate) fn place(
        &self,
        item: &Candidate<'_>,
        made: Option<Location>,
        seen: Option<Found>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, NotYet> {
        let again = match made {
            Some(location) => match self.try_place(item, location, seen, write, now_s) {
                Ok(published) => return Ok(published),
                Err(again) => again,
            },
            None => Again {
                expiry: write.expiry,
                cas: None,
            },
        };
        self.place_again(item, again, write, now_s)
    }

    /// As [`Worker::place`], of an item whose block has to be made first.
    #[cold]
    fn place_again(
        &self,
        item: &Candidate<'_>,
        mut again: Again,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, NotYet> {
        for _ in 0..REMAKES_MAX {
            let draft = match self.draft(item, again.expiry, again.cas, now_s) {
                Ok(draft) => draft,
                Err(Refused::NotYet) => return Err(NotYet),
                Err(_) => return Ok(Published::NoRoom),
            };
            match self.try_place(item, draft.location(), None, write, now_s) {
                Ok(published) => return Ok(published),
                Err(other) => again = other,
            }
        }
        Ok(Published::NoRoom)
    }

    /// Lets an item whose block has been made take its place. Err: the block has to be made again.
    #[inline]
    fn try_place(
        &self,
        item: &Candidate<'_>,
        location: Location,
        seen: Option<Found>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Again> {
        let block = self.block(location);
        let writer = self.store.index.lock(item.hash.0);
        let found = match seen.and_then(|seen| writer.find_again(&seen)) {
            Some(found) => Some(found),
            None => writer.find(|entry| self.has_key(entry, item.key)),
        };
        let facts = match self.decide(&writer, found.as_ref(), write, now_s) {
            Ok(facts) => facts,
            Err(refused) => return Ok(refused),
        };
        // Flushed since it was reserved, or its form was chosen before these were.
        if self.is_flushed(location, now_s) || !block.takes(facts.cas, facts.expiry) {
            let (expiry, cas) = (facts.expiry, Some(facts.cas));
            return Err(Again { expiry, cas });
        }
        let is_linked = self.link(&writer, found.as_ref(), location, block, facts, now_s);
        drop(writer);
        if found.is_none() {
            self.adjust();
        }
        if !is_linked {
            return Ok(Published::NoRoom);
        }
        self.rehearse(item.hash, now_s, || Seen::Stored(traits(block)));
        Ok(Published::Stored {
            cas: facts.cas,
            value_len: item.value.len(),
        })
    }

    /// Where a new value of a key is written: in the part where the present one lies; or else on
    /// trial, unless it left not long ago. `present` may be another key's, once in a million, and
    /// is as good a guess as none.
    #[inline]
    pub(crate) fn part_for(&self, present: Option<Found>, hash: KeyHash) -> Part {
        let log = &self.store.log;
        if !log.leaning().tries {
            return Part::Main;
        }
        match present {
            Some(found) => log.heap.segment_of(found.entry().location()).part(),
            None if self.has_returned(hash) => Part::Main,
            None => Part::Small,
        }
    }

    fn has_returned(&self, hash: KeyHash) -> bool {
        let is_long = self.store.log.leaning().remembers_long;
        self.store.ghosts.contains(hash.0, is_long)
    }

    pub(crate) fn is_flushed(&self, location: Location, now_s: u32) -> bool {
        let segment = self.store.log.heap.segment_of(location);
        segment.birth() != self.store.flushes(now_s)
    }

    /// Gives a block its facts and lets the index lead to it, in the place of `found`. False: the
    /// index has no place for one more.
    #[inline]
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
            writer.replace(found, location, frequency);
            self.free(found.entry().location());
            return true;
        }
        let is_linked = self.link_new(writer, location, now_s);
        self.tally.add(Count::Stored, u64::from(is_linked));
        is_linked
    }

    /// Lets the index lead to an item of a key it does not know; false: it has no place.
    fn link_new(&self, writer: &Writer<'_>, location: Location, now_s: u32) -> bool {
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
                let is_back = self.has_returned(KeyHash(writer.hash()));
                self.store.ghosts.take(writer.hash());
                self.tally.add(Count::Returned, u64::from(is_back));
            }
            Inserted::Displaced(old) => {
                let part = self.store.log.heap.segment_of(old.location()).part();
                self.tally.count(Count::Displaced);
                self.count_evicted(self.block(old.location()), part, now_s);
                self.unlinked(old.location());
            }
            Inserted::Full => {
                self.unlinked(location);
                return false;
            }
        }
        true
    }

    /// Makes a block for an item: the list of its pieces, or a copy of the whole.
    pub(crate) fn draft(
        &self,
        item: &Candidate<'_>,
        expiry: Expiry,
        cas: Option<u64>,
        now_s: u32,
    ) -> Result<Draft<'_>, Refused> {
        let key_len = item.key.len();
        let outline = match item.value {
            Value::Pieces(len, pieces) => Outline::pieces(key_len, len, item.flags, pieces.len()),
            Value::Whole(bytes) => {
                let is_timed = self.is_timed(expiry);
                Outline::whole(key_len, bytes.len(), item.flags, cas, is_timed)
            }
        };
        if outline.block_len() > self.store.log.heap.block_max() {
            return Err(Refused::TooLarge);
        }
        let taken = self.take(outline.block_len(), item.part, expiry, now_s)?;
        Ok(self.draft_in(taken, &outline, item))
    }

    /// Writes an item into memory taken for it, and holds that.
    #[inline]
    pub(crate) fn draft_in(
        &self,
        taken: Taken,
        outline: &Outline,
        item: &Candidate<'_>,
    ) -> Draft<'_> {
        let heap = &self.store.log.heap;
        let draft = Draft { heap, taken };
        let block = self.block(draft.location());
        block.begin(outline, item.key);
        match item.value {
            Value::Pieces(_, pieces) => {
                for (place, piece) in block.pieces().iter().zip(pieces) {
                    place.store(piece.location.units(), Ordering::Relaxed);
                }
            }
            // SAFETY: the block was taken just now and nothing leads there.
            Value::Whole(bytes) => unsafe { block.value_mut() }.copy_from_slice(bytes),
        }
        draft
    }

    /// Whether a set, add or replace may go ahead, and the facts of the item it makes.
    #[inline]
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
}

impl Upload {
    /// The item that it is to be.
    pub(crate) fn candidate(&self) -> Candidate<'_> {
        Candidate {
            key: self.key(),
            hash: self.hash(),
            flags: self.flags,
            part: self.part(),
            value: match (self.block(), self.pieces()) {
                (Some((_, block)), _) => Value::Whole(block.value()),
                (None, pieces) => Value::Pieces(self.value_len(), pieces.unwrap_or_default()),
            },
        }
    }
}
