//! The position of an evacuation in its segment. *Evacuating* a segment means relocating some of
//! its blocks to other segments, and unlinking the others. The segment is then *retired*: it
//! becomes free, and is used again, once no reader, pin or upload can access it.

use crate::heap::Location;
use crate::heap::block::Block;
use crate::heap::segment::FIRST_BLOCK;
use crate::limits::{ASSUMED_PART, DEAD_PART};
use crate::log::Victim;
use crate::store::Lease;
use crate::sync::Arc;

/// A worker's exclusive right to evacuate a segment, and the position that evacuation has reached.
/// Until the cursor is dropped, no other worker evacuates or retires the segment.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// A reference to the store. A [`Lease`] counts the references of one worker.
    store: Arc<Lease>,
    /// The segment that is being evacuated.
    victim: Victim,
    /// Offset, in bytes, of the next block to visit. This block begins at the end of the block that
    /// was visited last.
    offset: u32,
    /// Length, in bytes, of the block at `offset`, once `next` has returned that block; before, 0.
    next_len: u32,
    /// Total length of the visited blocks whose item had expired, and of those whose item had not.
    /// Both begin as if a part of the segment had been visited, in which as much had expired as in
    /// the segment of the same part that was evicted last.
    expired: u32,
    unexpired: u32,
    /// Whether the segment was retired. Dropping the cursor then does not make the segment
    /// available to other workers.
    is_retired: bool,
}

impl Cursor {
    pub(crate) fn new(store: &Arc<Lease>, victim: Victim, expired_thousandths: u32) -> Self {
        let assumed = store.log.heap.segment_size() / ASSUMED_PART;
        let expired = assumed * expired_thousandths / 1000;
        Self {
            store: Arc::clone(store),
            victim,
            offset: FIRST_BLOCK,
            next_len: 0,
            expired,
            unexpired: assumed - expired,
            is_retired: false,
        }
    }

    /// Returns the segment that is being evacuated, and why it was selected.
    pub(crate) fn victim(&self) -> Victim {
        self.victim
    }

    /// Returns the next block to visit. `None` at the end of the segment.
    pub(crate) fn next(&mut self) -> Option<(Location, Block<'_>)> {
        let heap = &self.store.log.heap;
        // SAFETY: `offset` is the first block, and only `advance` changes it, from a block to the
        // end of that block. All blocks of the segment were written before it was closed, and no
        // writer can write to a closed segment. Only `retire` retires the segment, and `retire`
        // consumes the cursor.
        let found = unsafe { heap.block_in(self.victim.number, self.offset) };
        self.next_len = found.as_ref().map_or(0, |(_, block)| block.len() as u32);
        found
    }

    /// Advances to the end of the block that `next` has returned. Does nothing if `next` was not
    /// called since the last call of this function, or has reached the end of the segment.
    pub(crate) fn advance(&mut self) {
        // The length comes from the block itself (see `next`), not from the caller. A wrong length
        // would make `next` read a block where none begins. The length of a block does not change
        // once the block has been published.
        self.offset += std::mem::take(&mut self.next_len);
        assert!(
            self.offset <= self.store.log.heap.segment_size(),
            "a block ends after its segment"
        );
    }

    /// Counts a visited block, whose item had expired or had not.
    pub(crate) fn count(&mut self, len: usize, has_expired: bool) {
        match has_expired {
            true => self.expired += len as u32,
            false => self.unexpired += len as u32,
        }
    }

    /// How much of what was visited had expired, in thousandths.
    pub(crate) fn expired_thousandths(&self) -> u32 {
        let visited = u64::from(self.expired + self.unexpired).max(1);
        (u64::from(self.expired) * 1000 / visited) as u32
    }

    /// Whether at least a tenth ([`DEAD_PART`]) of what was visited had expired.
    pub(crate) fn finds_expired_items(&self) -> bool {
        u64::from(self.expired_thousandths()) * DEAD_PART >= 1000
    }

    /// Returns a block that `next` has returned before, at `location`.
    pub(crate) fn block(&self, location: Location) -> Block<'_> {
        let heap = &self.store.log.heap;
        assert!(heap.number_of(location) == self.victim.number);
        // SAFETY: the caller has the location from `next`, so a block begins there. The block stays
        // valid for the reasons given in `next`.
        unsafe { heap.block(location) }
    }

    /// Retires the segment. The caller has relocated or unlinked all blocks of the segment. So no
    /// index entry and no piece list refers to one of these blocks. (The *piece list* of an item
    /// with a large value has the locations of the blocks that contain the value.)
    pub(crate) fn retire(mut self) {
        self.is_retired = true;
        self.store.log.retire(self.victim.number);
    }
}

impl Drop for Cursor {
    /// If the segment is only partly evacuated, allows other workers to evacuate the rest.
    fn drop(&mut self) {
        if !self.is_retired {
            self.store.log.abandon(self.victim.number);
        }
    }
}
