//! What is to be sent: bytes, and between them values that are pinned.

use store::Pin;

use crate::limits::{OUTPUT_SOFT_MAX, PINS_MAX};

/// Capacity an emptied output may keep, in bytes.
const KEPT_CAPACITY: usize = 4 * OUTPUT_SOFT_MAX;

/// What is to be sent.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Pinned values, each with the place in `bytes` it stands before.
    pins: Vec<(usize, Pin)>,
    pinned_len: usize,
}

impl Output {
    /// The bytes, to be added to.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds a pinned value behind what is there.
    pub fn push_pin(&mut self, pin: Pin) {
        self.pinned_len += pin.value_len();
        self.pins.push((self.bytes.len(), pin));
    }

    /// Whether a session should let it be sent before it adds more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= OUTPUT_SOFT_MAX || self.pins.len() >= PINS_MAX
    }

    /// Length in bytes, pinned values included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pinned_len
    }

    /// Bytes of memory it takes, without pinned values, which are the store's.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a value is pinned.
    #[must_use]
    pub fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// The slices, in order, without the first `sent` bytes.
    pub fn slices(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let mut skip = sent;
        self.all_slices().filter_map(move |piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            Some(&piece[skipped..]).filter(|piece| !piece.is_empty())
        })
    }

    /// All as one piece, where no value is pinned.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.pins.is_empty().then_some(&self.bytes)
    }

    /// Gives all away as one piece, where there is something and no value is pinned, and is empty
    /// then; `memory` tells, if so, what it fills next, which is emptied.
    #[must_use]
    pub fn take_bytes(&mut self, memory: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        if self.is_empty() || self.has_pins() {
            return None;
        }
        let mut memory = memory();
        memory.clear();
        Some(std::mem::replace(&mut self.bytes, memory))
    }

    /// Goes on behind what was given away before; it is empty. Returns the memory it had.
    #[must_use]
    pub fn resume_with(&mut self, begun: Vec<u8>) -> Vec<u8> {
        debug_assert!(self.is_empty());
        std::mem::replace(&mut self.bytes, begun)
    }

    /// Makes it empty, keeping a sensible capacity.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.pins.clear();
        self.pinned_len = 0;
    }

    fn all_slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let before_and_in_pins = self.pins.iter().flat_map(move |(place, pin)| {
            let before = &self.bytes[from..*place];
            from = *place;
            std::iter::once(before).chain(pin.value())
        });
        let last = self.pins.last().map_or(0, |(place, _)| *place);
        before_and_in_pins.chain(std::iter::once(&self.bytes[last..]))
    }
}
