//! The item that a read passes to its closure, and the type of an item's expiry.

use std::cell::RefCell;

use crate::heap::block::Block;
use crate::index::Location;
use crate::pin::Pin;
use crate::size_class::SizeClass;
use crate::store::Store;
use crate::sync::Arc;
use crate::worker::pieces_of;

/// The time at which an item expires, in whole seconds of the caller's clock. An item with
/// `Expiry::at(t)` is returned by reads before second `t`, and never from second `t` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(u32);

impl Expiry {
    /// The expiry of an item that never expires.
    pub const NEVER: Self = Self(u32::MAX);

    /// Creates an expiry at second `second`. The largest `u32` is reserved for [`Expiry::NEVER`],
    /// so it is replaced by the second before.
    #[must_use]
    pub fn at(second: u32) -> Self {
        Self(second.min(u32::MAX - 1))
    }

    /// Decodes an expiry that [`word`](Self::word) returned.
    pub(crate) fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Encodes the expiry, to be stored in memory. Later expiries have larger words.
    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// Returns true if an item with this expiry has expired at second `now_s`.
    #[must_use]
    pub fn is_past(self, now_s: u32) -> bool {
        self != Self::NEVER && self.0 <= now_s
    }

    /// Returns the seconds until the expiry, 0 if it is past. `None` if the item never expires.
    #[must_use]
    pub fn seconds_left(self, now_s: u32) -> Option<u32> {
        (self != Self::NEVER).then(|| self.0.saturating_sub(now_s))
    }
}

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
    /// The second of the last read or write before this one.
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
    /// A pin that the read took in advance, for the closure to take. The read changes the item
    /// before the closure is called, and a later pin could fail.
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

    /// Pins the value, so that it can be sent after the closure has returned. `None` if pins and
    /// uploads hold too much memory already.
    #[must_use]
    pub fn pin(&self) -> Option<Pin> {
        let taken = self.pin.take();
        taken.or_else(|| Pin::take(self.store, self.location, self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_expires_exactly_in_the_second_of_its_expiry() {
        let expiry = Expiry::at(10);
        assert!(!expiry.is_past(9));
        assert!(expiry.is_past(10));
        assert_eq!(expiry.seconds_left(7), Some(3));
        assert!(!Expiry::NEVER.is_past(u32::MAX));
        assert_eq!(Expiry::NEVER.seconds_left(1), None);
        assert!(Expiry::at(u32::MAX) < Expiry::NEVER);
    }
}
