//! The output of a session: bytes to send, with pinned memory between them, and a part of a file at
//! the end.

use crate::file_range::{FileRange, FileRest};
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

/// The replies of a session that have not been sent completely: copied bytes, pins, and a part of a
/// file.
///
/// Bytes and pins are the content *in memory*. A part of a file is always behind them, and an
/// output with one is full. So the session that appended it can take back what cannot be sent
/// without waiting for a disk ([`Session::take_back`]).
///
/// [`Session::take_back`]: crate::Session::take_back
#[derive(Debug)]
pub struct Output<P> {
    bytes: Vec<u8>,
    /// The pins, each with an offset in `bytes`. A pin is sent between the bytes before this offset
    /// and the bytes after it.
    pins: Vec<(usize, P)>,
    /// The sum of the lengths of all pins, in bytes.
    pinned_len: usize,
    /// What is sent behind the bytes and the pins.
    file: Option<FileRange>,
    /// Whether the runtime sends parts of files.
    accepts_files: bool,
}

impl<P> Default for Output<P> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            pins: Vec::new(),
            pinned_len: 0,
            file: None,
            accepts_files: false,
        }
    }
}

impl<P: Pin> Output<P> {
    /// The buffer of the copied bytes. Callers may only append to it.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.file.is_none(), "the bytes would be sent before it");
        &mut self.bytes
    }

    /// Appends pinned memory.
    pub fn push_pin(&mut self, pin: P) {
        debug_assert!(self.file.is_none(), "the pin would be sent before it");
        self.pinned_len += pin.len();
        self.pins.push((self.bytes.len(), pin));
    }

    /// Whether the session may append a part of a file. If not, it has to copy the bytes.
    #[must_use]
    pub fn accepts_files(&self) -> bool {
        self.accepts_files
    }

    /// Says whether the runtime sends parts of files on the connection. It does so before each
    /// turn; before it has, the output accepts none.
    pub fn set_accepts_files(&mut self, accepts_files: bool) {
        self.accepts_files = accepts_files;
    }

    /// Appends a part of a file, whose bytes are in the page cache. The session then appends
    /// nothing more, needs [`Next::OutputSpace`], and may have to take back a part of the range.
    ///
    /// # Panics
    /// The output has a part of a file, or does not accept any.
    ///
    /// [`Next::OutputSpace`]: crate::Next::OutputSpace
    pub fn push_file(&mut self, range: FileRange) {
        assert!(self.accepts_files && self.file.is_none(), "a file too many");
        self.file = Some(range);
    }

    /// Whether the output must be sent before a session adds more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= OUTPUT_SOFT_MAX || self.pins.len() >= PINS_MAX || self.file.is_some()
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory_len() + self.file.as_ref().map_or(0, FileRange::len)
    }

    /// The length in bytes of the content in memory.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        self.bytes.len() + self.pinned_len
    }

    /// The allocated bytes. Pinned memory is not included, because it belongs to the service, nor
    /// is a part of a file, whose memory is the page cache.
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

    /// Whether the output ends with a part of a file.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// The rest of the part of a file, if that is next because the first `sent` bytes have been
    /// sent. `None` if content in memory is next, or nothing is left.
    #[must_use]
    pub fn file_rest(&self, sent: usize) -> Option<FileRest<'_>> {
        let sent_of_file = sent.checked_sub(self.memory_len())?;
        self.file.as_ref()?.rest(sent_of_file)
    }

    /// The content in memory as slices in order, without the first `sent` bytes, which have been
    /// sent.
    pub fn slices(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let mut skip = sent;
        self.all_slices().filter_map(move |slice| {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            Some(&slice[skipped..]).filter(|slice| !slice.is_empty())
        })
    }

    /// The content as one slice. `None` if the output has a pin or a part of a file.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        (self.pins.is_empty() && self.file.is_none()).then_some(&self.bytes)
    }

    /// The copied bytes, without pins and a part of a file.
    #[must_use]
    pub fn copied_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the content out and leaves the output empty. The output continues with the buffer that
    /// `buffer` returns, after clearing it. Returns `None`, and does not call `buffer`, if there is
    /// no content or the output has a pin or a part of a file.
    #[must_use]
    pub fn take_bytes(&mut self, buffer: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        if self.is_empty() || self.has_pins() || self.has_file() {
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

    /// Takes the content out, of which `sent` bytes have been sent. Returns it with the number of
    /// its bytes that have been sent. If only a part of a file is left, the buffer stays with this
    /// output, and the returned content occupies no memory.
    ///
    /// # Panics
    /// The content has a part of a file, of which all has been sent.
    #[must_use]
    pub fn take_unsent(&mut self, sent: usize) -> (Self, usize) {
        let sent_of_file = sent.checked_sub(self.memory_len());
        match (sent_of_file, self.file.take()) {
            (Some(sent_of_file), Some(mut range)) => {
                range.advance(sent_of_file);
                let unsent = Self {
                    file: Some(range),
                    ..Self::default()
                };
                (unsent, 0)
            }
            (_, file) => {
                self.file = file;
                (std::mem::take(self), sent)
            }
        }
    }

    /// Removes the content, drops the pins and the part of a file, and frees capacity above
    /// `KEPT_CAPACITY`.
    pub fn clear(&mut self) {
        self.file = None;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.pins.clear();
        self.pinned_len = 0;
    }

    /// The complete content in memory as slices in order.
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd as _, AsRawFd as _};
    use std::sync::Arc;

    use super::*;
    use crate::NoPin;

    /// An output of four bytes in memory, and six of a file from its third on.
    fn with_file(file: &Arc<File>) -> Output<NoPin> {
        let mut output = Output::default();
        output.set_accepts_files(true);
        output.bytes_mut().extend_from_slice(b"head");
        output.push_file(FileRange::new(Arc::<File>::clone(file), 2, 6));
        output
    }

    fn null() -> Arc<File> {
        Arc::new(File::open("/dev/null").unwrap())
    }

    #[test]
    fn a_part_of_a_file_is_behind_the_bytes_and_fills_the_output() {
        let file = null();
        let mut output = with_file(&file);
        assert_eq!((output.len(), output.memory_len()), (10, 4));
        assert!(output.is_full() && output.as_bytes().is_none());
        assert!(output.take_bytes(Vec::new).is_none());
        let slices: Vec<&[u8]> = output.slices(1).collect();
        assert_eq!(slices, [b"ead"]);
        let rest = |sent| output.file_rest(sent).map(|it| (it.offset, it.len));
        let expected = [(3, None), (4, Some((2, 6))), (9, Some((7, 1))), (10, None)];
        for (sent, expected) in expected {
            assert_eq!(rest(sent), expected, "{sent}");
        }
        let fd = output.file_rest(4).unwrap().file.as_raw_fd();
        assert_eq!(fd, file.as_fd().as_raw_fd());
        output.clear();
        assert!(output.is_empty() && !output.is_full());
        assert_eq!(Arc::strong_count(&file), 1);
    }

    #[test]
    fn unsent_content_without_bytes_in_memory_occupies_none() {
        let file = null();
        let mut output = with_file(&file);
        let (mut unsent, sent) = output.take_unsent(3);
        assert_eq!((unsent.len(), sent), (10, 3));
        assert!(output.is_empty() && unsent.capacity() > 0);
        let (unsent, sent) = unsent.take_unsent(4 + 1);
        assert_eq!((unsent.len(), sent, unsent.capacity()), (5, 0, 0));
        let rest = unsent.file_rest(0).unwrap();
        assert_eq!((rest.offset, rest.len), (3, 5));
    }

    #[test]
    #[should_panic(expected = "a file too many")]
    fn an_output_whose_runtime_sends_no_files_accepts_none() {
        let mut output = with_file(&null());
        output.clear();
        output.set_accepts_files(false);
        output.push_file(FileRange::new(null(), 0, 1));
    }
}
