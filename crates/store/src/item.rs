//! Items as seen by a reader, and their expiry.

use std::cell::RefCell;

use crate::heap::block::Block;
use crate::index::Location;
use crate::pin::Pin;
use crate::store::Store;
use crate::sync::Arc;
use crate::worker::pieces_of;

/// When an item expires, in whole seconds of the caller's clock.
///
/// An expiry is exact: an item with `Expiry::at(t)` is returned while `now < t`, and not from `t`
/// on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(u32);

impl Expiry {
    /// The item never expires.
    pub const NEVER: Self = Self(u32::MAX);

    /// The item expires at second `second`.
    #[must_use]
    pub fn at(second: u32) -> Self {
        Self(second.min(u32::MAX - 1))
    }

    pub(crate) fn from_word(word: u32) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// Whether the expiry has passed.
    #[must_use]
    pub fn is_past(self, now_s: u32) -> bool {
        self != Self::NEVER && self.0 <= now_s
    }

    /// Seconds until the expiry. `None`: the item never expires.
    #[must_use]
    pub fn seconds_left(self, now_s: u32) -> Option<u32> {
        (self != Self::NEVER).then(|| self.0.saturating_sub(now_s))
    }
}

/// An item at the moment of the read, borrowed for the duration of a closure.
#[derive(Debug)]
pub struct Item<'a> {
    /// The client flags: 32 bits that the store does not interpret.
    pub flags: u32,
    /// The CAS. It changes with every write of this item.
    pub cas: u64,
    /// The expiry, as it was before this read.
    pub expiry: Expiry,
    /// The second of the last read or write before this one.
    pub last_access_s: u32,
    /// The item was read before.
    pub fetched: bool,
    /// The item was invalidated, and its old value is still returned.
    pub stale: bool,
    /// This reader has claimed the item and is expected to renew it.
    pub won: bool,
    /// Another reader had claimed the item before.
    pub claimed: bool,
    /// The last full write named its key in base64 ([`Write::base64_key`]).
    ///
    /// [`Write::base64_key`]: crate::Write::base64_key
    pub base64_key: bool,
    pub(crate) location: Location,
    pub(crate) block: Block<'a>,
    pub(crate) store: &'a Arc<Store>,
    /// A pin taken before the read changed the item.
    pub(crate) pin: RefCell<Option<Pin>>,
}

impl Item<'_> {
    /// Length of the value in bytes.
    #[must_use]
    #[inline]
    pub fn value_len(&self) -> usize {
        self.block.value_len()
    }

    /// Memory of the item in bytes: header, key and value, in multiples of four.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        let is_in_pieces = self.block.is_in_pieces();
        let pieces = is_in_pieces.then(|| self.pieces().map(Block::len));
        self.block.len() + pieces.into_iter().flatten().sum::<usize>()
    }

    /// The pieces of a value that is stored in pieces.
    fn pieces(&self) -> impl Iterator<Item = Block<'_>> {
        // SAFETY: a worker is borrowed as long as the item, whose list contained the location.
        let piece = |at| unsafe { self.store.log.heap.block(at) };
        pieces_of(self.block).map(piece)
    }

    /// The slices of the value, in order.
    #[inline]
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        let is_in_pieces = self.block.is_in_pieces();
        let whole = (!is_in_pieces).then(|| self.block.value());
        let pieces = is_in_pieces.then(|| self.pieces().map(Block::piece));
        whole.into_iter().chain(pieces.into_iter().flatten())
    }

    /// Pins the value so that it can be sent after the closure. `None` if the bound of held memory
    /// is reached.
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
    fn expiry_is_exact_to_the_second() {
        let expiry = Expiry::at(10);
        assert!(!expiry.is_past(9));
        assert!(expiry.is_past(10));
        assert_eq!(expiry.seconds_left(7), Some(3));
        assert!(!Expiry::NEVER.is_past(u32::MAX));
        assert_eq!(Expiry::NEVER.seconds_left(1), None);
        assert!(Expiry::at(u32::MAX) < Expiry::NEVER);
    }
}
