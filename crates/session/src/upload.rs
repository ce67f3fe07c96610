//! Receiving a value that did not arrive together with its command line.

use store::{Rejected, Upload, Worker};

/// A partly received value, with its command line.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    pub(crate) upload: Upload,
    /// The command line, parsed again when the value is complete. Its length is bounded like that
    /// of every line.
    pub(crate) line: Box<[u8]>,
    pub(crate) line_end: LineEnd,
}

/// The received part of the line end after a value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineEnd {
    bytes: [u8; 2],
    len: usize,
}

impl PendingUpload {
    pub(crate) fn new(upload: Upload, line: &[u8]) -> Self {
        Self {
            upload,
            line: line.into(),
            line_end: LineEnd::default(),
        }
    }

    /// Bytes still to receive, including the line end.
    pub(crate) fn missing(&self) -> usize {
        self.upload.missing() + self.line_end.bytes.len() - self.line_end.len
    }

    /// Copies the missing bytes from the front of `bytes`, as far as they are there.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<(), Rejected> {
        let filled = worker.fill(&mut self.upload, bytes, now_s)?;
        let free = &mut self.line_end.bytes[self.line_end.len..];
        let rest = if self.upload.missing() == 0 {
            &bytes[filled..]
        } else {
            &[]
        };
        let len = free.len().min(rest.len());
        free[..len].copy_from_slice(&rest[..len]);
        self.line_end.len += len;
        Ok(())
    }

    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        self.upload.unfilled()
    }

    pub(crate) fn advance(&mut self, len: usize) {
        self.upload.advance(len);
    }

    /// Whether the value is followed by `\r\n`, as the protocol requires.
    pub(crate) fn has_line_end(&self) -> bool {
        self.line_end.bytes == *b"\r\n"
    }
}
