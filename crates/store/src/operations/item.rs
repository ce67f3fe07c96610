//! The item that a read passes to its closure. The value of a large item is stored in *pieces*,
//! which are blocks of their own.

use std::cell::RefCell;

use crate::expiry::Expiry;
use crate::heap::Location;
use crate::heap::block::{Block, pieces_of};
use crate::operations::pin::Pin;
use crate::statistics::size_class::SizeClass;
use crate::store::Store;
use crate::sync::Arc;

/// An item as a read found it. The closure passed to [`Worker::read`](crate::Worker::read) borrows
/// it.
#[derive(Debug)]
pub struct Item<'a> {
    /// The client flags: 32 bits that the store does not interpret.
    pub flags: u32,
    /// The CAS. It changes with every write of this item.
    pub cas: u64,
    /// The expiry before this read. (The read may change it.)
    pub expiry: Expiry,
    /// The second of the last read or write before this read.
    pub last_access_s: u32,
    /// Whether the item was read before this read, since it was last written.
    pub fetched: bool,
    /// Whether the item was invalidated. Reads still return its old value.
    pub stale: bool,
    /// Whether this read has claimed the item, so that its client is expected to renew the value.
    pub won: bool,
    /// Whether an earlier read had claimed the item.
    pub claimed: bool,
    /// Whether the last write of a complete value gave the key in base64 ([`Write::base64_key`]).
    ///
    /// [`Write::base64_key`]: crate::Write::base64_key
    pub base64_key: bool,
    pub(crate) location: Location,
    pub(crate) block: Block<'a>,
    pub(crate) store: &'a Arc<Store>,
    /// [`Read::may_copy`](crate::Read::may_copy).
    pub(crate) may_copy: bool,
    /// A pin that the read took before it changed the item, for the closure to take. Pinning can
    /// fail, and after the change that would be too late.
    pub(crate) pin: RefCell<Option<Pin>>,
}

impl Item<'_> {
    /// Returns the length of the value in bytes.
    #[must_use]
    #[inline]
    pub fn value_len(&self) -> usize {
        self.block.value_len()
    }

    /// Returns the size class of the item.
    #[must_use]
    #[inline]
    pub fn size_class(&self) -> SizeClass {
        SizeClass::of(self.block.key().len(), self.flags, self.value_len())
    }

    /// Returns the bytes of memory that the item takes: the lengths of its blocks, including
    /// headers and key.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        let is_in_pieces = self.block.is_in_pieces();
        let pieces = is_in_pieces.then(|| self.pieces().map(Block::len));
        self.block.len() + pieces.into_iter().flatten().sum::<usize>()
    }

    /// Returns the blocks that contain the value, which must be stored in pieces.
    fn pieces(&self) -> impl Iterator<Item = Block<'_>> {
        // SAFETY: the location was read from the item's piece list. The item borrows a worker, so
        // the worker has not been quiescent since.
        let piece = |at| unsafe { self.store.log.heap.block(at) };
        pieces_of(self.block).map(piece)
    }

    /// Returns the value as a sequence of slices. A value that is not stored in pieces is one
    /// slice.
    #[inline]
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        let is_in_pieces = self.block.is_in_pieces();
        let whole = (!is_in_pieces).then(|| self.block.value());
        let pieces = is_in_pieces.then(|| self.pieces().map(Block::piece));
        whole.into_iter().chain(pieces.into_iter().flatten())
    }

    /// Pins the value, so that it can be sent after the closure has returned, or copies it if the
    /// read allows that ([`Read::may_copy`](crate::Read::may_copy)). `None` if pins, uploads and
    /// copies hold too much memory already.
    #[must_use]
    pub fn pin(&self) -> Option<Pin> {
        let taken = self.pin.take();
        taken.or_else(|| Pin::take(self.store, self.location, self.block, self.may_copy))
    }
}
