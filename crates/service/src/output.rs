//! Bytes to send, with pinned memory between them.

use crate::limits::{OUTPUT_SOFT_MAX, PINS_MAX};

/// Maximum capacity that a cleared output keeps, in bytes.
const KEPT_CAPACITY: usize = 4 * OUTPUT_SOFT_MAX;

/// Memory that is sent without a copy, such as a large value or a block of a file. Its owner may
/// reuse the memory once the pin is dropped.
pub trait Pin: Send + 'static {
    /// Bytes to send.
    fn len(&self) -> usize;

    /// Whether there is nothing to send.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to send, in order.
    fn slices(&self) -> impl Iterator<Item = &[u8]>;
}

/// The replies of a session that have not been sent.
#[derive(Debug)]
pub struct Output<P> {
    bytes: Vec<u8>,
    /// Pins, each with the offset in `bytes` that it precedes.
    pins: Vec<(usize, P)>,
    /// Length of all pins together, in bytes.
    pinned_len: usize,
}

impl<P> Default for Output<P> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            pins: Vec::new(),
            pinned_len: 0,
        }
    }
}

impl<P: Pin> Output<P> {
    /// The buffer to append copied bytes to.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends pinned memory.
    pub fn push_pin(&mut self, pin: P) {
        self.pinned_len += pin.len();
        self.pins.push((self.bytes.len(), pin));
    }

    /// Whether the output must be sent before a session adds more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= OUTPUT_SOFT_MAX || self.pins.len() >= PINS_MAX
    }

    /// Length in bytes, pinned memory included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pinned_len
    }

    /// Allocated bytes. Pinned memory is not included: it belongs to the service.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the output pins memory.
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

    /// The content as one slice. `None` if the output has a pin.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.pins.is_empty().then_some(&self.bytes)
    }

    /// Takes the content out and leaves the output empty. Returns `None` if there is no content or
    /// the output has a pin. Otherwise `buffer` provides the buffer that the output fills next; it
    /// is cleared first.
    #[must_use]
    pub fn take_bytes(&mut self, buffer: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        if self.is_empty() || self.has_pins() {
            return None;
        }
        let mut buffer = buffer();
        buffer.clear();
        Some(std::mem::replace(&mut self.bytes, buffer))
    }

    /// Makes `content`, which [`take_bytes`](Self::take_bytes) returned earlier, the content of
    /// this empty output. Returns the output's own buffer.
    #[must_use]
    pub fn resume_with(&mut self, content: Vec<u8>) -> Vec<u8> {
        debug_assert!(self.is_empty());
        std::mem::replace(&mut self.bytes, content)
    }

    /// Empties the output, and frees capacity beyond the length that an output keeps.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.pins.clear();
        self.pinned_len = 0;
    }

    fn all_slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let copied_and_pinned = self.pins.iter().flat_map(move |(offset, pin)| {
            let copied = &self.bytes[start..*offset];
            start = *offset;
            std::iter::once(copied).chain(pin.slices())
        });
        let last_offset = self.pins.last().map_or(0, |(offset, _)| *offset);
        copied_and_pinned.chain(std::iter::once(&self.bytes[last_offset..]))
    }
}
