//! Evicts one item: removes it from memory. If the store has a tier (slower storage for evicted
//! items, `lower_tier.rs`), the item is first copied to the tier.

use std::sync::atomic::Ordering;

use crate::eviction_policy::{Part, leaves_ghost};
use crate::heap::Location;
use crate::heap::block::{Block, pieces_of};
use crate::index::writer::Writer;
use crate::index::{Entry, Found};
use crate::log::Victim;
use crate::lower_tier::{Marks, TierAddress, TierItem};
use crate::worker::Worker;

/// A block that evacuation visits: its location, and the hash of its item's key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visited {
    pub(crate) location: Location,
    pub(crate) hash: u64,
}

/// A copy of an item in the tier, made before the item is evicted. The copy is not *current* yet,
/// which means that lookups in the tier do not find it.
struct TierCopy {
    /// The location of the item in memory when the copy was made.
    location: Location,
    address: TierAddress,
    /// The item's marks of the meta protocol when the copy was made.
    marks: Marks,
    /// Number of flushes of the store before the copy was made.
    generation: u32,
}

impl Worker {
    /// Evicts the item to which a visited block belongs. Does nothing if no item refers to the
    /// block any more. `victim` is the segment that contains the block. If the store has a tier,
    /// the item is first copied to the tier.
    pub(crate) fn evict(&self, visited: &Visited, block: Block<'_>, victim: Victim, now_s: u32) {
        let tier_copy = self.copy_to_tier(visited, block, now_s);
        let writer = self.store.index.lock(visited.hash);
        let has_block = |entry| self.item_has_block(entry, visited.location, block);
        if let Some(found) = writer.find(has_block) {
            if let Some(tier_copy) = tier_copy {
                self.publish_in_tier(&writer, &found, &tier_copy, now_s);
            }
            let part = self.store.log.heap.segment(victim.number).part();
            self.evict_found(writer, &found, part, now_s);
        }
    }

    /// Copies the item of a visited block to the tier. Does not lock the index, because the copy
    /// becomes current only later, in `publish_in_tier`, whose caller holds the lock. Returns
    /// `None` if no copy was made: the store has no tier, no item refers to the block any more, or
    /// the tier refuses the item or has a current copy of it already.
    fn copy_to_tier(&self, visited: &Visited, block: Block<'_>, now_s: u32) -> Option<TierCopy> {
        let tier = self.store.tier.as_ref()?;
        let has_block = |entry| self.item_has_block(entry, visited.location, block);
        let location = self.store.index.find(visited.hash, has_block)?.location();
        let head = self.block(location);
        // The number of flushes so far, including a delayed one that is due.
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
        Some(TierCopy {
            location,
            address,
            marks: item.marks,
            generation,
        })
    }

    /// Makes a copy in the tier current, if the item has not changed, expired or been flushed since
    /// it was copied. `writer` is the lock of the item's index shard. The caller keeps the lock
    /// until it has unlinked the item.
    fn publish_in_tier(&self, writer: &Writer<'_>, found: &Found, copy: &TierCopy, now_s: u32) {
        let location = found.entry().location();
        let block = self.block(location);
        let is_unchanged = location == copy.location
            && block.expiry() == copy.address.expiry
            && Marks::of(block.access()) == copy.marks
            && self.store.log.perform_due_flush(now_s) == copy.generation
            && self.miss_reason(location, block, now_s).is_none();
        if is_unchanged && let Some(tier) = &self.store.tier {
            tier.publish(writer.hash(), copy.address, copy.generation);
        }
    }

    /// Evicts the item of an index entry that was found under the lock `writer`. `part` is the part
    /// of the log that contains the item: the small or the main queue of segments.
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

    /// Returns true if `block`, whose location is `location`, belongs to the item of `entry`. The
    /// blocks of an item are its head block, which contains the key and to which the entry refers,
    /// and the pieces of a large value. The head block contains a list of the pieces' locations.
    pub(crate) fn item_has_block(
        &self,
        entry: Entry,
        location: Location,
        block: Block<'_>,
    ) -> bool {
        if !block.is_piece() {
            return entry.location() == location;
        }
        let head = self.block(entry.location());
        head.is_in_pieces() && {
            let slot = head.pieces().get(block.piece_number());
            slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == location.units())
        }
    }
}
