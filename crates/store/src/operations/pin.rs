//! Pins: values that stay valid until their pin is dropped, for example while a slow client
//! receives them.

use crate::heap::Location;
use crate::heap::block::{Block, pieces_of};
use crate::heap::holds::{Credit, Holder};
use crate::limits::COPIED_PIN_MAX;
use crate::spool::Spooled;
use crate::store::Store;
use crate::sync::Arc;

/// A reference to a value that stays valid as long as the pin exists, even if the value's item is
/// replaced or evicted. The pin holds the segments of the value, so they are not reused, or has a
/// copy of the value.
#[derive(Debug)]
pub struct Pin {
    store: Arc<Store>,
    /// The locations of the value's blocks: those of its pieces in order, if any, and last the
    /// block of the item.
    blocks: Box<[Location]>,
    /// A copy of the value, in place of blocks.
    copy: Option<Spooled>,
    value_len: usize,
}

impl Pin {
    /// Pins the value of an item. The caller must be a worker that has found the block and has not
    /// been quiescent since. If pins and uploads hold as many segments as they may, copies a value
    /// of at most [`COPIED_PIN_MAX`] bytes, if `may_copy` allows that. Returns `None` if there is
    /// no space for a copy either.
    pub(crate) fn take(
        store: &Arc<Store>,
        location: Location,
        block: Block<'_>,
        may_copy: bool,
    ) -> Option<Self> {
        let blocks = blocks_of(location, block);
        let mut segments: Vec<_> = blocks
            .iter()
            .map(|&at| store.log.heap.number_of(at))
            .collect();
        segments.dedup();
        let segment_limit = store.log.segment_limit();
        match store
            .holds
            .request(segments.len() as u32, Holder::Pin, segment_limit)
        {
            Some(credit) => Some(Self::hold(store, blocks, block.value_len(), credit)),
            None if may_copy && block.value_len() <= COPIED_PIN_MAX => {
                Self::copied(store, &blocks, block.value_len())
            }
            None => None,
        }
    }

    fn copied(store: &Arc<Store>, blocks: &[Location], value_len: usize) -> Option<Self> {
        let mut copy = store.spool(value_len)?;
        slices_of(store, blocks).for_each(|slice| copy.extend_from_slice(slice));
        Some(Self {
            store: Arc::clone(store),
            blocks: Box::default(),
            copy: Some(copy),
            value_len,
        })
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
            copy: None,
            value_len,
        }
    }

    /// Returns the slices of the value, in order.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        let copy = self.copy.iter().map(|copy| copy.as_slice());
        copy.chain(slices_of(&self.store, &self.blocks))
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

/// Returns the slices of the value in `blocks`, in order. The caller holds their segments, or has
/// not been quiescent since it found the blocks.
fn slices_of<'s>(store: &'s Store, blocks: &'s [Location]) -> impl Iterator<Item = &'s [u8]> {
    blocks.iter().filter_map(|&at| {
        // SAFETY: the caller keeps the block from being reused.
        let block = unsafe { store.log.heap.block(at) };
        if block.is_piece() {
            Some(block.piece())
        } else {
            (!block.is_in_pieces()).then(|| block.value())
        }
    })
}

impl Drop for Pin {
    fn drop(&mut self) {
        let heap = &self.store.log.heap;
        for &at in &self.blocks {
            self.store.holds.release(heap, heap.number_of(at));
        }
        if self.copy.is_none() {
            self.store.holds.unpin_bytes(self.value_len as u64);
        }
    }
}
