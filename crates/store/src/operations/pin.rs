//! Pins: values that stay valid until their pin is dropped, for example while a slow client
//! receives them.

use crate::heap::Location;
use crate::heap::block::{Block, pieces_of};
use crate::heap::holds::Credit;
use crate::store::Store;
use crate::sync::Arc;

/// A reference to a value that stays valid as long as the pin exists, even if the value's item is
/// replaced or evicted. The pin holds the segments of the value, so they are not reused.
#[derive(Debug)]
pub struct Pin {
    store: Arc<Store>,
    /// The locations of the value's blocks: those of its pieces in order, if any, and last the
    /// block of the item.
    blocks: Box<[Location]>,
    value_len: usize,
}

impl Pin {
    /// Pins the value of an item. The caller must be a worker that has found the block and has not
    /// been quiescent since. Returns `None` if pins and uploads hold as many segments as they may.
    pub(crate) fn take(store: &Arc<Store>, location: Location, block: Block<'_>) -> Option<Self> {
        let blocks = blocks_of(location, block);
        let mut segments: Vec<_> = blocks
            .iter()
            .map(|&at| store.log.heap.number_of(at))
            .collect();
        segments.dedup();
        let credit = store
            .holds
            .request(segments.len() as u32, store.log.segment_limit())?;
        Some(Self::hold(store, blocks, block.value_len(), credit))
    }

    /// Pins the value of an item as [`Pin::take`] does, but ignores the limit on held segments. For
    /// a pin that the worker drops before its operation ends.
    pub(crate) fn take_unbounded(store: &Arc<Store>, location: Location, block: Block<'_>) -> Self {
        Self::hold(
            store,
            blocks_of(location, block),
            block.value_len(),
            Credit::none(),
        )
    }

    /// Holds the segments of `blocks`. Uses `credit`, the right to hold a number of segments, and
    /// gives back the part of it that is not needed.
    fn hold(
        store: &Arc<Store>,
        blocks: Box<[Location]>,
        value_len: usize,
        mut credit: Credit,
    ) -> Self {
        let heap = &store.log.heap;
        for at in &blocks {
            store.holds.hold(heap.segment_of(*at), &mut credit);
        }
        store.holds.return_credit(credit);
        store.holds.pin_bytes(value_len as u64);
        Self {
            store: Arc::clone(store),
            blocks,
            value_len,
        }
    }

    /// Returns the slices of the value, in order.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.blocks.iter().filter_map(|&at| {
            let block = self.block(at);
            if block.is_piece() {
                Some(block.piece())
            } else {
                (!block.is_in_pieces()).then(|| block.value())
            }
        })
    }

    /// Returns one of the pinned blocks.
    fn block(&self, location: Location) -> Block<'_> {
        // SAFETY: the block's segment is held until the pin is dropped.
        unsafe { self.store.log.heap.block(location) }
    }

    /// Returns the length of the value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }
}

/// Returns the locations of the blocks of an item: its pieces in order, if any, then the item's own
/// block.
fn blocks_of(location: Location, block: Block<'_>) -> Box<[Location]> {
    if block.is_in_pieces() {
        pieces_of(block).chain([location]).collect()
    } else {
        Box::new([location])
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let heap = &self.store.log.heap;
        for &at in &self.blocks {
            self.store.holds.release(heap, heap.number_of(at));
        }
        self.store.holds.unpin_bytes(self.value_len as u64);
    }
}
