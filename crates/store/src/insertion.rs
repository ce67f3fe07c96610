//! Insertion: how a new item gets into the index.
//!
//! The item is built without a lock: a block is allocated, held for its writer as a [`Draft`], and
//! filled. Under the lock of its class [`Worker::try_insert`] decides whether it may be stored, and
//! links it into the index.

use std::sync::atomic::Ordering;

use crate::counters::Counter;
use crate::heap::block::{Access, Block, HeaderFields};
use crate::heap::segment::{Part, Segment};
use crate::heap::{BlockRef, Heap};
use crate::index::{Found, Inserted, Writer};
use crate::item::Expiry;
use crate::limits::{BUILDS_MAX, LONG_SEARCH_BUCKETS};
use crate::log::Allocation;
use crate::miniature::SampledAccess;
use crate::upload::{Rejected, Upload};
use crate::worker::{KeyHash, Worker, pieces_of, traits};
use crate::write::{Mode, Published, Write};

/// A new item to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewItem<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: KeyHash,
    pub(crate) flags: u32,
    pub(crate) part: Part,
    pub(crate) value: Value<'a>,
}

/// The value of a new item.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// A complete value, in memory of the caller.
    Bytes(&'a [u8]),
    /// A value of this length, in pieces that are already in the log.
    Pieces(usize, &'a [Allocation]),
}

impl Value<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pieces(len, _) => *len,
        }
    }
}

/// The metadata of a stored item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metadata {
    /// The item replaces one that has neither expired nor been flushed.
    pub(crate) is_overwrite: bool,
    pub(crate) cas: u64,
    pub(crate) expiry: Expiry,
    pub(crate) access: Access,
}

/// Why an item was not stored yet. Nothing was changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deferral {
    /// See [`Rejected::Deferred`].
    ByMemory,
    /// Another worker is rewriting an item of the same class (`rewrite.rs`).
    ByRewrite,
}

/// Why a built block was not linked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NotInserted {
    /// The block cannot hold the item: a flush since it was built would invalidate it, or its
    /// layout lacks a word that the item needs.
    Unfit,
    /// Another worker is rewriting an item of the same class (`rewrite.rs`).
    Rewriting,
}

/// The current entry of a key, and its item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentItem<'s> {
    pub(crate) found: Found,
    pub(crate) block_ref: BlockRef<'s>,
}

/// A built block that is not published yet. It holds its segment.
#[derive(Debug)]
pub(crate) struct Draft<'s> {
    pub(crate) block_ref: BlockRef<'s>,
}

impl<'s> Draft<'s> {
    /// Creates a draft in allocated memory.
    #[inline]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the hold of the segment passes to the draft"
    )]
    pub(crate) fn new(heap: &'s Heap, allocation: Allocation) -> Self {
        let Allocation { location, number } = allocation;
        let block_ref = BlockRef {
            location,
            // SAFETY: the memory was allocated for this block, and its segment is held for the
            // writer until the draft is dropped.
            block: unsafe { heap.block(location) },
            segment: heap.segment(number),
        };
        Self { block_ref }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.block_ref.segment.release_writer();
    }
}

impl Worker {
    /// Builds the block of an item and links it, if `write` allows.
    ///
    /// # Errors
    /// The caller has to try again later.
    #[cold]
    pub(crate) fn build_and_insert(
        &mut self,
        item: &NewItem<'_>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Deferral> {
        for _ in 0..BUILDS_MAX {
            // With the largest CAS, the layout can hold any metadata.
            let (allocation, fields) =
                match self.allocate_for_item(item, write.expiry, Some(u64::MAX), now_s) {
                    Ok(allocation) => allocation,
                    Err(Rejected::Deferred) => return Err(Deferral::ByMemory),
                    Err(_) => return Ok(Published::NoSpace),
                };
            let draft = self.draft(allocation, &fields, item);
            match self.try_insert(item, &draft.block_ref, None, write, now_s) {
                Ok(published) => return Ok(published),
                Err(NotInserted::Rewriting) => return Err(Deferral::ByRewrite),
                Err(NotInserted::Unfit) => {}
            }
        }
        Ok(Published::NoSpace)
    }

    /// Links a built item, if `write` allows. `candidate` is the entry of its key, with the item,
    /// if they were looked up before.
    ///
    /// # Errors
    /// See [`NotInserted`]. Nothing was changed.
    #[inline]
    pub(crate) fn try_insert(
        &self,
        item: &NewItem<'_>,
        built: &BlockRef<'_>,
        candidate: Option<CurrentItem<'_>>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, NotInserted> {
        let block = built.block;
        let writer = self.store.index.lock(item.hash.0);
        if writer.is_rewriting() {
            return Err(NotInserted::Rewriting);
        }
        let revalidated = candidate.and_then(|candidate| {
            let found = writer.revalidate(&candidate.found)?;
            Some(CurrentItem { found, ..candidate })
        });
        let present = revalidated.or_else(|| {
            let found = writer.find(|entry| self.has_key(entry, item.key))?;
            let block_ref = self.block_ref(found.entry().location());
            Some(CurrentItem { found, block_ref })
        });
        let metadata = match self.decide(&writer, present.as_ref(), write, now_s) {
            Ok(metadata) => metadata,
            Err(rejected) => return Ok(rejected),
        };
        if self.is_flushed(built.segment, now_s) || !block.can_hold(metadata.cas, metadata.expiry) {
            return Err(NotInserted::Unfit);
        }
        let is_linked = self.link(&writer, present.as_ref(), built, metadata, now_s);
        drop(writer);
        if present.is_none() {
            self.resize_step();
        }
        if !is_linked {
            return Ok(Published::NoSpace);
        }
        self.sample(item.hash, now_s, || SampledAccess::Stored(traits(block)));
        Ok(Published::Stored {
            cas: metadata.cas,
            value_len: item.value.len() as u32,
        })
    }

    /// The part for a new value of a key: the part of the present value, if there is one; otherwise
    /// the small part, unless the key has a ghost. About once in a million, `present` belongs to
    /// another key, which is acceptable for this choice.
    #[inline]
    pub(crate) fn part_for(&self, present: Option<&CurrentItem<'_>>, hash: KeyHash) -> Part {
        let log = &self.store.log;
        if !log.eviction_policy().probation {
            return Part::Main;
        }
        match present {
            Some(present) => present.block_ref.segment.part(),
            None if self.has_ghost(hash.0) => Part::Main,
            None => Part::Small,
        }
    }

    /// An item that is probably the present one of a key. Use it as a hint, or compare the key.
    #[inline]
    pub(crate) fn candidate(&self, hash: KeyHash) -> Option<CurrentItem<'_>> {
        let found = self.store.index.find_candidate(hash.0, hash.1)?;
        let block_ref = self.block_ref(found.entry().location());
        Some(CurrentItem { found, block_ref })
    }

    fn has_ghost(&self, hash: u64) -> bool {
        let includes_older = self.store.log.eviction_policy().long_ghost_window;
        self.store.ghosts.contains(hash, includes_older)
    }

    pub(crate) fn is_flushed(&self, segment: &Segment, now_s: u32) -> bool {
        self.store.perform_due_flush(now_s);
        segment.flush_generation() != self.store.log.flush_count()
    }

    /// Sets the metadata of a block and links it in place of `present`. Returns false if the index
    /// has no free slot.
    #[inline]
    pub(crate) fn link(
        &self,
        writer: &Writer<'_>,
        present: Option<&CurrentItem<'_>>,
        built: &BlockRef<'_>,
        metadata: Metadata,
        now_s: u32,
    ) -> bool {
        let &BlockRef {
            location,
            block,
            segment,
        } = built;
        block.set_expiry(metadata.expiry);
        block.set_access(metadata.access);
        block.set_cas(metadata.cas);
        segment.raise_expiry(metadata.expiry);
        self.add_live(built);
        if block.is_in_pieces() {
            let pieces = pieces_of(block).map(|piece| self.block_ref(piece));
            pieces.for_each(|piece| self.add_live(&piece));
        }
        if let Some(CurrentItem { found, block_ref }) = present {
            self.counters.count(Counter::Stored);
            // A write counts as a request. The frequency of an expired or flushed item is not kept.
            let frequency = match metadata.is_overwrite {
                true => found.entry().frequency() + 1,
                false => 0,
            };
            writer.replace(found, location, frequency);
            self.remember_hole(block_ref);
            return true;
        }
        let is_linked = self.link_new(writer, built, now_s);
        self.counters.add(Counter::Stored, u64::from(is_linked));
        is_linked
    }

    /// Links the item of a new key. Returns false if the index has no free slot.
    fn link_new(&self, writer: &Writer<'_>, built: &BlockRef<'_>, now_s: u32) -> bool {
        let evicts = self.store.config().evicts;
        let budget = if evicts {
            self.visits_left()
        } else {
            LONG_SEARCH_BUCKETS
        };
        let inserted = writer.insert(built.location, 0, evicts, budget);
        self.counters.add(Counter::Visits, writer.visits() as u64);
        match inserted {
            Inserted::Placed => {
                let had_ghost = self.has_ghost(writer.hash());
                self.store.ghosts.take(writer.hash());
                self.counters.add(Counter::GhostHits, u64::from(had_ghost));
            }
            Inserted::Displaced(old) => {
                let old = self.block_ref(old.location());
                self.counters.count(Counter::EvictedIndexFull);
                self.count_evicted(old.block, old.segment.part(), now_s);
                self.account_unlinked(&old);
            }
            Inserted::Full => {
                self.account_unlinked(built);
                return false;
            }
        }
        true
    }

    /// Allocates the block of an item: the list of its pieces, or the whole item.
    pub(crate) fn allocate_for_item(
        &mut self,
        item: &NewItem<'_>,
        expiry: Expiry,
        cas: Option<u64>,
        now_s: u32,
    ) -> Result<(Allocation, HeaderFields), Rejected> {
        let key_len = item.key.len();
        let fields = match item.value {
            Value::Pieces(len, pieces) => {
                HeaderFields::pieces(key_len, len, item.flags, pieces.len())
            }
            Value::Bytes(bytes) => {
                let has_expiry_word = self.needs_expiry_word(expiry);
                HeaderFields::inline(key_len, bytes.len(), item.flags, cas, has_expiry_word)
            }
        };
        if fields.block_len() > self.store.log.heap.block_max() {
            return Err(Rejected::TooLarge);
        }
        let allocation = self.allocate(fields.block_len(), item.part, expiry, now_s)?;
        Ok((allocation, fields))
    }

    /// Writes an item into allocated memory. The draft takes over the hold of the segment.
    #[inline]
    pub(crate) fn draft(
        &self,
        allocation: Allocation,
        fields: &HeaderFields,
        item: &NewItem<'_>,
    ) -> Draft<'_> {
        let draft = Draft::new(&self.store.log.heap, allocation);
        let block = draft.block_ref.block;
        block.write_header_and_key(fields, item.key);
        match item.value {
            Value::Pieces(_, pieces) => {
                for (slot, piece) in block.pieces().iter().zip(pieces) {
                    slot.store(piece.location.units(), Ordering::Relaxed);
                }
            }
            // SAFETY: the memory has just been allocated and no location refers to it.
            Value::Bytes(bytes) => unsafe { block.value_mut() }.copy_from_slice(bytes),
        }
        draft
    }

    /// Decides whether a set, add or replace may proceed, and the metadata of the new item.
    #[inline]
    fn decide(
        &self,
        writer: &Writer<'_>,
        present: Option<&CurrentItem<'_>>,
        write: &Write,
        now_s: u32,
    ) -> Result<Metadata, Published> {
        let present = present.map(|it| it.block_ref).and_then(|old| {
            // An expired or flushed item is replaced, but counts as absent for the conditions.
            let miss_reason = self.miss_reason(old.location, old.block, now_s);
            miss_reason.is_none().then_some(old.block)
        });
        let mut metadata = Metadata {
            is_overwrite: present.is_some(),
            expiry: write.expiry,
            cas: 0,
            access: Access::new(now_s)
                .with_stale_and_claimed(false, write.claimed)
                .with_base64_key(write.base64_key),
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
                metadata.expiry = present.expiry();
                metadata.access = metadata
                    .access
                    .with_stale_and_claimed(true, present.access().is_claimed());
            }
            _ => {}
        }
        metadata.cas = write
            .explicit_cas
            .unwrap_or_else(|| writer.next_cas(present.map(Block::cas)));
        Ok(metadata)
    }
}

impl Upload {
    /// The item to be stored.
    pub(crate) fn new_item(&self) -> NewItem<'_> {
        NewItem {
            key: self.key(),
            hash: self.hash(),
            flags: self.flags,
            part: self.part(),
            value: match (self.block_ref(), self.pieces()) {
                (Some(block_ref), _) => Value::Bytes(block_ref.block.value()),
                (None, pieces) => Value::Pieces(self.value_len(), pieces.unwrap_or_default()),
            },
        }
    }
}
