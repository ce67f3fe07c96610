//! Evicts one item: copies it to the tier (`lower_tier.rs`) if the store has one, and removes it
//! from memory.

use std::sync::atomic::Ordering;

use crate::eviction_policy::{Part, leaves_ghost};
use crate::heap::Location;
use crate::heap::block::{Block, pieces_of};
use crate::index::writer::Writer;
use crate::index::{Entry, Found};
use crate::log::Victim;
use crate::lower_tier::{Marks, TierAddress, TierItem};
use crate::worker::Worker;

/// The location of a visited block, and the hash of its item's key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visited {
    pub(crate) location: Location,
    pub(crate) hash: u64,
}

/// A copy in the tier, made for an item that is about to be evicted. Lookups do not find the copy
/// before it is made current.
struct Offered {
    /// The location of the item in memory when the copy was made.
    location: Location,
    address: TierAddress,
    marks: Marks,
    /// Number of flushes of the store before the copy was made.
    generation: u32,
}

impl Worker {
    /// Evicts the item to which a visited block belongs, if the block is still live. `victim` is
    /// the segment that contains the block. If the store has a tier, the item is copied there
    /// first.
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

    /// Copies the item of a visited block to the tier, before it is evicted. Takes no lock, because
    /// the copy becomes current only later, under a lock (`publish_in_tier`). Returns `None` if no
    /// copy was made.
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

    /// Makes an appended copy current, if the item has not changed since it was copied. A flush and
    /// an expiry count as changes. The caller holds the lock of the key's shard and unlinks the
    /// item next.
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

    /// Evicts the item of an entry that was found under the lock. `part` is the part, the small or
    /// the main queue of segments, that contains the item.
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

    /// Returns true if the block belongs to the item of `entry`, either as its head block (the
    /// block with the key, to which the entry refers) or as a piece of its value. `location` is the
    /// location of `block`.
    pub(crate) fn item_has_block(
        &self,
        entry: Entry,
        location: Location,
        block: Block<'_>,
    ) -> bool {
        if !block.is_piece() {
            return entry.location() == location;
        }
        let item = self.block(entry.location());
        item.is_in_pieces() && {
            let slot = item.pieces().get(block.piece_number());
            slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == location.units())
        }
    }
}
