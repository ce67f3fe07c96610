//! Whether an item may be returned, and the removal of an item that has expired or was flushed.

use crate::heap::Location;
use crate::heap::block::Block;
use crate::heap::segment::Segment;
use crate::index::Found;
use crate::index::writer::Writer;
use crate::miss::Miss;
use crate::worker::Worker;

impl Worker {
    /// Returns why a read of this item misses: the item has expired or was flushed. Returns `None`
    /// if the item is valid.
    #[inline]
    pub(crate) fn miss_reason(
        &self,
        location: Location,
        block: Block<'_>,
        now_s: u32,
    ) -> Option<Miss> {
        // A segment records the number of flushes before it was opened. If another flush has
        // happened since, it has invalidated all items of the segment. While there was no flush at
        // all, the segment need not be read.
        let flushes = self.store.log.perform_due_flush(now_s);
        if flushes > 0 && self.store.log.heap.segment_of(location).flush_generation() != flushes {
            return Some(Miss::Flushed);
        }
        block.expiry().is_past(now_s).then_some(Miss::Expired)
    }

    /// Returns true if a flush was performed or is due since the segment was opened. All items of
    /// the segment are then flushed.
    pub(crate) fn is_flushed(&self, segment: &Segment, now_s: u32) -> bool {
        segment.flush_generation() != self.store.log.perform_due_flush(now_s)
    }

    /// Unlinks the item at `location`, which was found expired or flushed without a lock. Returns
    /// false, and does nothing, if the index does not refer to the location any more, or if a touch
    /// has extended the item's expiry.
    pub(crate) fn unlink_expired(&self, hash: u64, location: Location, now_s: u32) -> bool {
        let writer = self.store.index.lock(hash);
        let Some(found) = writer.find(|entry| entry.location() == location) else {
            return false;
        };
        let block = self.block(location);
        if self.miss_reason(location, block, now_s).is_none() {
            return false;
        }
        self.unlink_expired_found(&writer, &found, block, now_s);
        true
    }

    /// Unlinks an expired or flushed item. `found` is its entry, which was found under the lock of
    /// the shard that `writer` holds.
    pub(crate) fn unlink_expired_found(
        &self,
        writer: &Writer<'_>,
        found: &Found,
        block: Block<'_>,
        now_s: u32,
    ) {
        writer.remove(found);
        self.remove_from_tier(writer, now_s);
        self.count_expired(block);
        self.account_unlinked(&self.block_ref(found.entry().location()));
    }
}
