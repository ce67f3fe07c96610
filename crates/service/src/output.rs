//! The output of a session: bytes to send, with pinned memory between them.

use crate::limits::{OUTPUT_SOFT_MAX, PINS_MAX};

/// The maximum capacity of the buffer that a cleared output keeps, in bytes.
const KEPT_CAPACITY: usize = 4 * OUTPUT_SOFT_MAX;

/// A hold on memory that is sent without a copy, such as a large value or a block of a file. The
/// owner of the memory must not reuse it before the pin is dropped.
pub trait Pin: Send + 'static {
    /// The number of bytes to send.
    fn len(&self) -> usize;

    /// Whether there is nothing to send.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to send, as slices in order.
    fn slices(&self) -> impl Iterator<Item = &[u8]>;
}

/// The replies of a session that have not been sent completely: copied bytes, and pins.
#[derive(Debug)]
pub struct Output<P> {
    bytes: Vec<u8>,
    /// The pins, each with an offset in `bytes`. A pin is sent between the bytes before this offset
    /// and the bytes after it.
    pins: Vec<(usize, P)>,
    /// The sum of the lengths of all pins, in bytes.
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
    /// The buffer of the copied bytes. Callers may only append to it.
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

    /// The length in bytes, pinned memory included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pinned_len
    }

    /// The allocated bytes. Pinned memory is not included, because it belongs to the service.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether the output has no content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the output pins memory.
    #[must_use]
    pub fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// The content as slices in order, without the first `sent` bytes, which have been sent.
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

    /// Takes the content out and leaves the output empty. The output continues with the buffer that
    /// `buffer` returns, after clearing it. Returns `None`, and does not call `buffer`, if there is
    /// no content or the output has a pin.
    #[must_use]
    pub fn take_bytes(&mut self, buffer: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        if self.is_empty() || self.has_pins() {
            return None;
        }
        let mut buffer = buffer();
        buffer.clear();
        Some(std::mem::replace(&mut self.bytes, buffer))
    }

    /// Puts back `content`, which an earlier [`take_bytes`](Self::take_bytes) returned. The output
    /// must be empty. Returns the buffer that the output had, for reuse.
    #[must_use]
    pub fn resume_with(&mut self, content: Vec<u8>) -> Vec<u8> {
        debug_assert!(self.is_empty());
        std::mem::replace(&mut self.bytes, content)
    }

    /// Removes the content, drops the pins, and frees capacity above `KEPT_CAPACITY`.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.pins.clear();
        self.pinned_len = 0;
    }

    /// The complete content as slices in order.
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
