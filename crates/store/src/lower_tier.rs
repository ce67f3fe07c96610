//! The interface of a tier below the store: larger and slower storage, such as a disk, for items
//! that leave memory by eviction.
//!
//! The store appends an item to the tier before it evicts it, and removes the tier's copy whenever
//! the item changes. A copy is current if the tier's index refers to it. The invariant is:
//!
//! > If a key has a current copy in the tier and an item in memory, both are the same item.
//!
//! The store changes an item in memory under the lock of its index shard, which is a set of buckets
//! that share a lock (`index.rs`). Under the same lock it calls [`publish`](LowerTier::publish) and
//! [`remove`](LowerTier::remove). Before it restores an item, it checks under that lock that
//! [`find`](LowerTier::find) still returns the same copy. So no copy becomes current after its item
//! has changed, and none is restored over a newer item.
//!
//! An item that was restored and not changed needs no second copy when it is evicted again.

use std::fmt;
use std::sync::Arc;

use crate::evacuate::Visited;
use crate::eviction_policy::{Part, leaves_ghost};
use crate::expiry::Expiry;
use crate::heap::Location;
use crate::heap::block::pieces_of;
use crate::heap::block::{Access, Block};
use crate::index::{Found, Writer};
use crate::log::Victim;
use crate::rejected::Rejected;
use crate::store::Store;
use crate::worker::{KeyHash, Worker};
use crate::write_request::Mode;
use crate::write_request::Published;
use crate::write_request::Write;

/// The address of a copy in the tier. No two copies ever have the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierAddress {
    /// The number of the tier's segment. It is never used again for another segment.
    pub sequence: u32,
    /// Offset in the segment, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// The expiry of the item.
    pub expiry: Expiry,
}

/// Flags of an item in the meta protocol, apart from the client flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// The item was invalidated.
    pub stale: bool,
    /// A client has claimed the item.
    pub claimed: bool,
    /// The client sent the key in base64.
    pub base64_key: bool,
}

impl Marks {
    fn of(access: Access) -> Self {
        Self {
            stale: access.is_stale(),
            claimed: access.is_claimed(),
            base64_key: access.has_base64_key(),
        }
    }
}

/// An item without its value.
#[derive(Debug, Clone, Copy)]
pub struct TierItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// The CAS.
    pub cas: u64,
    /// The expiry.
    pub expiry: Expiry,
    /// The marks.
    pub marks: Marks,
    /// The item was read since it was written.
    pub is_fetched: bool,
    /// Length of the value in bytes.
    pub value_len: usize,
}

/// A tier below the store. No method waits for a disk.
///
/// `generation` is the number of flushes of the store so far. A copy of another generation is not
/// current.
pub trait LowerTier: fmt::Debug + Send + Sync {
    /// Copies an item. Returns `None` in two cases, in which the current copy remains:
    ///
    /// - The tier refuses the item. The current copy, if there is one, is unchanged.
    /// - The tier keeps the current copy instead of writing a second one. If the item is marked as
    ///   fetched, this copy is marked too.
    fn append(
        &self,
        hash: u64,
        item: &TierItem<'_>,
        value: &mut dyn Iterator<Item = &[u8]>,
        generation: u32,
        now_s: u32,
    ) -> Option<TierAddress>;

    /// Makes a copy the current one of its key.
    fn publish(&self, hash: u64, address: TierAddress, generation: u32);

    /// Removes the current copy of a key. Returns whether there was one that had not expired.
    fn remove(&self, hash: u64, generation: u32, now_s: u32) -> bool;

    /// Returns the address of the current copy of a key, if it has not expired.
    fn find(&self, hash: u64, generation: u32, now_s: u32) -> Option<TierAddress>;

    /// The greatest CAS of all copies that an earlier process left.
    fn greatest_cas(&self) -> u64 {
        0
    }
}

/// A tier, with a reference count. This is the `Arc` of the standard library also in builds for the
/// model checkers (`sync.rs`), so they do not check the count.
pub type SharedTier = Arc<dyn LowerTier>;

/// A copy that was appended for an item that is about to be evicted.
pub(crate) struct Offered {
    /// The location of the item in memory when it was copied.
    location: Location,
    address: TierAddress,
    marks: Marks,
    generation: u32,
}

/// The copy that a worker is restoring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restoring {
    address: TierAddress,
    pub(crate) marks: Marks,
    pub(crate) is_fetched: bool,
}

impl Store {
    /// The number of flushes so far, for a server that stops and keeps the items of this generation
    /// in the tier. `None` if a delayed flush has not been performed yet: the items must then not
    /// be kept, because the flush will not be performed any more. No worker may exist any more.
    #[must_use]
    pub fn final_generation(&self) -> Option<u32> {
        self.log.final_flush_count()
    }
}

impl Worker {
    /// Returns the address of the current copy of a key in the tier. `None` if there is no tier.
    #[must_use]
    #[inline]
    pub fn find_in_tier(&self, hash: KeyHash, now_s: u32) -> Option<TierAddress> {
        let tier = self.store.tier.as_ref()?;
        tier.find(hash.0, self.store.log.perform_due_flush(now_s), now_s)
    }

    /// The 64 bits of a key's hash, by which the tier's index finds its copy.
    #[must_use]
    pub fn raw_hash(&self, hash: KeyHash) -> u64 {
        hash.0
    }

    /// Whether the key has an item in memory, which may have expired.
    #[must_use]
    pub fn is_in_memory(&self, key: &[u8], hash: KeyHash) -> bool {
        self.ensure_online();
        let has_key = |entry| self.has_key(entry, key);
        self.store.index.find(hash.0, has_key).is_some()
    }

    /// Writes an item from its copy in the tier back into memory. Does nothing if that copy is not
    /// the current one any more, or if the key has an item in memory. The copy stays current.
    ///
    /// The item is stored in the small part of the log, as new items are (`Part::Small`). If it
    /// is requested there, eviction keeps it in memory.
    ///
    /// # Errors
    /// Those of [`Worker::put`].
    pub fn restore(
        &mut self,
        item: &TierItem<'_>,
        hash: KeyHash,
        value: &[u8],
        address: TierAddress,
        now_s: u32,
    ) -> Result<bool, Rejected> {
        let write = Write {
            flags: item.flags,
            explicit_cas: Some(item.cas),
            claimed: item.marks.claimed,
            base64_key: item.marks.base64_key,
            ..Write::plain(Mode::Add, address.expiry)
        };
        self.restoring = Some(Restoring {
            address,
            marks: item.marks,
            is_fetched: item.is_fetched,
        });
        let put = self.put(item.key, hash, value, &write, now_s);
        self.restoring = None;
        match put? {
            Published::Stored { .. } => Ok(true),
            Published::NoSpace => Err(Rejected::NoMemory),
            Published::NotStored | Published::Exists | Published::NotFound => Ok(false),
        }
    }

    /// Whether the copy that is being restored is still the current one. The caller holds the lock
    /// of the key's shard.
    #[cold]
    pub(crate) fn is_current(&self, restoring: &Restoring, hash: KeyHash, now_s: u32) -> bool {
        self.find_in_tier(hash, now_s) == Some(restoring.address)
    }

    /// Removes the tier's copy of a key, because its item changes. The caller holds the lock of the
    /// key's shard. Returns whether there was a copy that had not expired.
    #[inline]
    pub(crate) fn remove_from_tier(&self, writer: &Writer<'_>, now_s: u32) -> bool {
        match &self.store.tier {
            None => false,
            Some(tier) => {
                let generation = self.store.log.perform_due_flush(now_s);
                tier.remove(writer.hash(), generation, now_s)
            }
        }
    }

    /// Copies the item of a visited block to the tier, before it is evicted. Takes no lock: the
    /// copy becomes current only when the item is unlinked.
    fn offer_to_tier(&self, visited: &Visited, block: Block<'_>, now_s: u32) -> Option<Offered> {
        let tier = self.store.tier.as_ref()?;
        let has_block = |entry| self.item_has_block(entry, visited.location, block);
        let location = self.store.index.find(visited.hash, has_block)?.location();
        let head = self.block(location);
        let generation = self.store.log.perform_due_flush(now_s);
        let item = TierItem {
            key: head.key(),
            flags: head.flags(),
            cas: head.cas(),
            expiry: head.expiry(),
            marks: Marks::of(head.access()),
            is_fetched: head.access().is_fetched(),
            value_len: head.value_len(),
        };
        let address = if head.is_in_pieces() {
            let mut pieces = pieces_of(head).map(|piece| self.block(piece).piece());
            tier.append(visited.hash, &item, &mut pieces, generation, now_s)?
        } else {
            let mut value = std::iter::once(head.value());
            tier.append(visited.hash, &item, &mut value, generation, now_s)?
        };
        Some(Offered {
            location,
            address,
            marks: item.marks,
            generation,
        })
    }

    /// Makes an appended copy current, if the item has not changed since it was copied. A flush
    /// counts as a change. The caller holds the lock of the key's shard and unlinks the item next.
    fn publish_in_tier(&self, writer: &Writer<'_>, found: &Found, offered: &Offered, now_s: u32) {
        let location = found.entry().location();
        let block = self.block(location);
        let is_unchanged = location == offered.location
            && block.expiry() == offered.address.expiry
            && Marks::of(block.access()) == offered.marks
            && self.store.log.perform_due_flush(now_s) == offered.generation
            && self.miss_reason(location, block, now_s).is_none();
        if is_unchanged && let Some(tier) = &self.store.tier {
            tier.publish(writer.hash(), offered.address, offered.generation);
        }
    }

    /// Evicts the item to which a visited block belongs, if the block is still live. If the store
    /// has a tier, the item is copied there.
    pub(crate) fn evict(&self, visited: &Visited, block: Block<'_>, victim: Victim, now_s: u32) {
        let offered = self.offer_to_tier(visited, block, now_s);
        let writer = self.store.index.lock(visited.hash);
        let has_block = |entry| self.item_has_block(entry, visited.location, block);
        if let Some(found) = writer.find(has_block) {
            if let Some(offered) = offered {
                self.publish_in_tier(&writer, &found, &offered, now_s);
            }
            let part = self.store.log.heap.segment(victim.number).part();
            self.evict_found(writer, &found, part, now_s);
        }
    }

    /// Evicts the item of an entry found under the lock. `part` is the part in which it is stored.
    pub(crate) fn evict_found(&self, writer: Writer<'_>, found: &Found, part: Part, now_s: u32) {
        let (hash, location) = (writer.hash(), found.entry().location());
        writer.remove(found);
        drop(writer);
        self.count_evicted(self.block(location), part, now_s);
        self.account_unlinked(&self.block_ref(location));
        if leaves_ghost(part) {
            self.store.ghosts.remember(hash);
        }
    }
}
