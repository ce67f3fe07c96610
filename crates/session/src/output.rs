//! Bytes to send, with pinned values between them.

use store::Pin;

use crate::limits::{OUTPUT_SOFT_MAX, PINS_MAX};

/// Maximum capacity that a cleared output keeps, in bytes.
const KEPT_CAPACITY: usize = 4 * OUTPUT_SOFT_MAX;

/// The replies of a session that have not been sent.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Pinned values, each with the offset in `bytes` that it precedes.
    pins: Vec<(usize, Pin)>,
    pinned_len: usize,
}

impl Output {
    /// The buffer to append copied bytes to.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a pinned value.
    pub fn push_pin(&mut self, pin: Pin) {
        self.pinned_len += pin.value_len();
        self.pins.push((self.bytes.len(), pin));
    }

    /// Whether the output must be sent before a session adds more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= OUTPUT_SOFT_MAX || self.pins.len() >= PINS_MAX
    }

    /// Length in bytes, pinned values included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pinned_len
    }

    /// Allocated bytes. Pinned values are not included: their memory is the store's.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the output pins a value.
    #[must_use]
    pub fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// The content as slices, in order, without the first `sent` bytes.
    pub fn slices(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let mut skip = sent;
        self.all_slices().filter_map(move |slice| {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            Some(&slice[skipped..]).filter(|slice| !slice.is_empty())
        })
    }

    /// The content as one slice; none if a value is pinned.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.pins.is_empty().then_some(&self.bytes)
    }

    /// Takes the content out and leaves the output empty. Returns none if there is no content or a
    /// value is pinned. Otherwise `buffer` provides the buffer that the output fills next; it is
    /// cleared first.
    #[must_use]
    pub fn take_bytes(&mut self, buffer: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        if self.is_empty() || self.has_pins() {
            return None;
        }
        let mut buffer = buffer();
        buffer.clear();
        Some(std::mem::replace(&mut self.bytes, buffer))
    }

    /// Makes `begun`, taken out earlier, the content of this empty output. Returns the output's
    /// own buffer.
    #[must_use]
    pub fn resume_with(&mut self, begun: Vec<u8>) -> Vec<u8> {
        debug_assert!(self.is_empty());
        std::mem::replace(&mut self.bytes, begun)
    }

    /// Empties the output and limits the capacity it keeps.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.pins.clear();
        self.pinned_len = 0;
    }

    fn all_slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let copied_and_pinned = self.pins.iter().flat_map(move |(at, pin)| {
            let before = &self.bytes[from..*at];
            from = *at;
            std::iter::once(before).chain(pin.value())
        });
        let last = self.pins.last().map_or(0, |(at, _)| *at);
        copied_and_pinned.chain(std::iter::once(&self.bytes[last..]))
    }
}
