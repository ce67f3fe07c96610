//! Insertion of a new item into the index, in two phases:
//!
//! 1. Without a lock, a worker allocates a block and writes the item into it. The block is a
//!    [`Draft`], which keeps its segment from being evacuated.
//! 2. [`Worker::try_insert`] takes the lock of the key's index shard (a set of buckets that share a
//!    lock), decides whether the item may be stored, and links the block: it makes the index refer
//!    to it.

use std::sync::atomic::Ordering;

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::BlockRef;
use crate::heap::block::{Access, Block, HeaderFields, pieces_of};
use crate::index::writer::{Inserted, Writer};
use crate::limits::{BUILDS_MAX, LONG_SEARCH_BUCKETS};
use crate::log::Allocation;
use crate::log::draft::Draft;
use crate::lower_tier::Marks;
use crate::miniature::SampledAccess;
use crate::operations::placement::CurrentItem;
use crate::operations::request::{Mode, Published, Write};
use crate::rejected::Rejected;
use crate::statistics::counters::Counter;
use crate::worker::access::traits;
use crate::worker::{KeyHash, Worker};

/// An item to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewItem<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: KeyHash,
    pub(crate) flags: u32,
    /// The part of the log to which the item is written.
    pub(crate) part: Part,
    pub(crate) value: Value<'a>,
}

/// The value of an item to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// The bytes of the value, to be copied from the caller's memory.
    Bytes(&'a [u8]),
    /// The length of a value that is already in the log, and its pieces in order.
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

/// The metadata with which an item is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metadata {
    /// Whether the new item replaces a valid item, one that is neither expired nor flushed.
    pub(crate) is_overwrite: bool,
    /// Whether this write is the first request since the replaced item was restored from the tier
    /// (`lower_tier.rs`). Then the item was restored for this write, so the write does not increase
    /// the frequency of the item.
    pub(crate) is_restored: bool,
    /// Whether memcached changes the present item and stores no new one. Such a write is not
    /// counted as one that has stored an item.
    pub(crate) is_in_place: bool,
    pub(crate) cas: u64,
    pub(crate) expiry: Expiry,
    pub(crate) access: Access,
}

/// Why a write has to be tried again later. Nothing was changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deferral {
    /// Memory will become free soon, the present item is in the tier only, or other workers were in
    /// the way too long or too often: see [`Rejected::Deferred`]. In all these cases the caller
    /// waits as for memory.
    ByMemory,
    /// Another worker is rewriting an item of the same index shard (`operations/rewrite.rs`).
    ByRewrite,
}

/// Why a draft was not linked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NotInserted {
    /// The draft cannot be used, for one of two reasons. If the draft's segment was opened before a
    /// flush, the item would count as flushed. Or the draft's layout has no header word for the
    /// item's CAS or expiry.
    Unfit,
    /// Another worker is rewriting an item of the same index shard (`operations/rewrite.rs`).
    Rewriting,
    /// The write depends on the present item, which is in the tier only.
    InTier,
}

impl Worker {
    /// Builds the block of an item and links it, unless a condition of `write` prevents this. If
    /// the block cannot be used, builds another one.
    ///
    /// # Errors
    /// See [`Deferral`]. The caller has to try again later.
    #[cold]
    pub(crate) fn build_and_insert(
        &mut self,
        item: &NewItem<'_>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Deferral> {
        for _ in 0..BUILDS_MAX {
            // The layout for the largest CAS can hold every CAS and every expiry.
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
                Err(NotInserted::InTier) => return Err(Deferral::ByMemory),
                Err(NotInserted::Unfit) => {}
            }
        }
        Ok(Published::NoSpace)
    }

    /// Links the draft of an item, unless a condition of `write` prevents this. `candidate` is the
    /// item that the caller has found for the key without the lock, if any. If the index entry of
    /// the candidate is unchanged under the lock, no second search is needed.
    ///
    /// # Errors
    /// See [`NotInserted`]. Nothing was changed.
    #[inline]
    pub(crate) fn try_insert(
        &self,
        item: &NewItem<'_>,
        new_block: &BlockRef<'_>,
        candidate: Option<CurrentItem<'_>>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, NotInserted> {
        let block = new_block.block;
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
        // The allocation of memory for this write may have evicted the present item to the tier. If
        // `restoring` is set, the write itself restores a copy from the tier.
        let misses_item = present.is_none() && write.depends_on_item() && self.restoring.is_none();
        if misses_item && self.find_in_tier(item.hash, now_s).is_some() {
            return Err(NotInserted::InTier);
        }
        let mut metadata = match self.decide(&writer, present.as_ref(), write, now_s) {
            Ok(metadata) => metadata,
            Err(rejected) => return Ok(rejected),
        };
        if let Some(restoring) = &self.restoring {
            if !self.is_current(restoring, item.hash, now_s) {
                return Ok(Published::NotStored);
            }
            let Marks { stale, claimed, .. } = restoring.marks;
            let access = metadata.access.with_stale_and_claimed(stale, claimed);
            metadata.access = match restoring.is_fetched {
                true => access.fetched_at(now_s),
                false => access,
            };
        }
        if self.is_flushed(new_block.segment, now_s)
            || !block.can_hold(metadata.cas, metadata.expiry)
        {
            return Err(NotInserted::Unfit);
        }
        let is_linked = self.link(&writer, present.as_ref(), new_block, metadata, now_s);
        drop(writer);
        if present.is_none() {
            self.resize_index_step();
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

    /// Sets the metadata of a draft, and links it: in place of `present` if the key has an item,
    /// and otherwise in a free slot. Returns false if the index has no free slot. The caller holds
    /// the lock of the key's shard.
    #[inline]
    pub(crate) fn link(
        &self,
        writer: &Writer<'_>,
        present: Option<&CurrentItem<'_>>,
        new_block: &BlockRef<'_>,
        metadata: Metadata,
        now_s: u32,
    ) -> bool {
        let &BlockRef { block, segment, .. } = new_block;
        block.set_expiry(metadata.expiry);
        block.set_access(metadata.access);
        block.set_cas(metadata.cas);
        segment.raise_expiry(metadata.expiry);
        self.add_live(new_block);
        self.count_linked(block);
        if block.is_in_pieces() {
            let pieces = pieces_of(block).map(|piece| self.block_ref(piece));
            pieces.for_each(|piece| self.add_live(&piece));
        }
        let is_linked = self.replace_or_link_new(writer, present, new_block, metadata, now_s);
        // The copy in the tier is removed after the new item has become visible. In the other
        // order, a reader could find neither an item nor a copy. A reader that has found the copy
        // looks for an item in memory again.
        if self.restoring.is_none() {
            self.remove_from_tier(writer, now_s);
        }
        is_linked
    }

    /// Makes the index refer to a block whose metadata is complete. Returns the same as
    /// [`Worker::link`].
    #[inline]
    fn replace_or_link_new(
        &self,
        writer: &Writer<'_>,
        present: Option<&CurrentItem<'_>>,
        new_block: &BlockRef<'_>,
        metadata: Metadata,
        now_s: u32,
    ) -> bool {
        if let Some(CurrentItem { found, block_ref }) = present {
            let is_new = !metadata.is_in_place;
            self.counters.add(Counter::Stored, u64::from(is_new));
            // The overwrite counts as a request, unless the old item was restored for this
            // overwrite. If the old item had expired or was flushed, the new item starts at
            // frequency 0.
            let entry = found.entry();
            let frequency = match (metadata.is_overwrite, metadata.is_restored) {
                (true, false) => entry.requested().frequency(),
                (true, true) => entry.frequency(),
                (false, _) => 0,
            };
            writer.replace(found, new_block.location, frequency);
            if !metadata.is_overwrite {
                self.count_expired(block_ref.block);
            }
            self.remember_hole(block_ref);
            return true;
        }
        let is_linked = self.link_new(writer, new_block, now_s);
        self.counters.add(Counter::Stored, u64::from(is_linked));
        is_linked
    }

    /// Links the item of a key that is not in the index. If both buckets of the key are full, the
    /// store may evict another item from the index. Returns false if the index has no free slot.
    fn link_new(&self, writer: &Writer<'_>, new_block: &BlockRef<'_>, now_s: u32) -> bool {
        let evicts = self.store.config().evicts;
        let insert = |may_displace, budget| {
            let is_restored = self.restoring.is_some();
            writer.insert(new_block.location, is_restored, may_displace, budget)
        };
        // An index that can grow has free slots, of which a long search hardly ever misses all. One
        // that cannot grow displaces an entry rather than search for long.
        let budget = match evicts {
            true => self.visits_left(),
            false => LONG_SEARCH_BUCKETS,
        };
        let mut inserted = insert(evicts && !self.store.index.can_grow(), budget);
        if evicts && inserted == Inserted::Full {
            inserted = insert(true, LONG_SEARCH_BUCKETS);
        }
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
                self.account_unlinked(new_block);
                return false;
            }
        }
        true
    }

    /// Allocates the block for an item: header, key, and either the value or the list of its
    /// pieces. `cas` is the CAS that the layout has to hold, if it is known. Waits for memory if
    /// necessary.
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

    /// Writes an item into allocated memory. The draft takes over the allocation's hold on the
    /// segment.
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
            // SAFETY: the memory has just been allocated, and no location refers to it. So this
            // function has exclusive access.
            Value::Bytes(bytes) => unsafe { block.value_mut() }.copy_from_slice(bytes),
        }
        draft
    }

    /// Checks the conditions of a set, add or replace against the present item of the key. Returns
    /// the metadata of the new item.
    ///
    /// # Errors
    /// The outcome of the write, if a condition is not met.
    #[inline]
    fn decide(
        &self,
        writer: &Writer<'_>,
        present: Option<&CurrentItem<'_>>,
        write: &Write,
        now_s: u32,
    ) -> Result<Metadata, Published> {
        let present = present.map(|it| it.block_ref).and_then(|old| {
            // An expired or flushed item is still in the index, and the new item will replace it.
            // The conditions of the write treat it as absent.
            let miss_reason = self.miss_reason(old.location, old.block, now_s);
            miss_reason.is_none().then_some(old.block)
        });
        let mut metadata = Metadata {
            is_overwrite: present.is_some(),
            is_restored: false,
            is_in_place: false,
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
                // The client has read another version of the item. With `invalidate`, its value is
                // stored if that version is older than the present one, but is marked as stale.
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
