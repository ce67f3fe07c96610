//! Pins: values that stay valid as long as their owner needs them.

use crate::heap::block::Block;
use crate::index::Location;
use crate::segment_holds::Credit;
use crate::store::Store;
use crate::sync::Arc;
use crate::worker::pieces_of;

/// A value that stays valid as long as the pin exists, even if its item is replaced or evicted: the
/// segments of the value are held and not reused.
#[derive(Debug)]
pub struct Pin {
    store: Arc<Store>,
    /// The blocks of the value: the block of its item, preceded by the blocks of its pieces, if
    /// any.
    blocks: Box<[Location]>,
    value_len: usize,
}

impl Pin {
    /// Pins a value found by a worker that is online. `None` if the bound of held memory is
    /// reached.
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

    /// As [`Pin::take`], without the bound. For a pin that is dropped before the operation ends.
    pub(crate) fn force(store: &Arc<Store>, location: Location, block: Block<'_>) -> Self {
        Self::hold(
            store,
            blocks_of(location, block),
            block.value_len(),
            Credit::none(),
        )
    }

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

    /// The slices of the value, in order.
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

    /// One of the pinned blocks.
    fn block(&self, location: Location) -> Block<'_> {
        // SAFETY: the block's segment is held until the pin is dropped.
        unsafe { self.store.log.heap.block(location) }
    }

    /// Length of the value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }
}

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
