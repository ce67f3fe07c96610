//! A value that did not arrive with its command line.

use store::{Refused, Upload, Worker};

/// A value on its way, and the line that announced it.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    pub(crate) upload: Upload,
    /// The command line, parsed again when the value is whole. Bounded as every line is.
    pub(crate) line: Box<[u8]>,
    pub(crate) line_end: LineEnd,
}

/// What has come of the line end behind a value.
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

    /// Bytes still to come, the line end included.
    pub(crate) fn missing(&self) -> usize {
        self.upload.missing() + self.line_end.bytes.len() - self.line_end.len
    }

    /// Takes from the front of `bytes` what is missing.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<(), Refused> {
        let filled = worker.fill(&mut self.upload, bytes, now_s)?;
        let room = &mut self.line_end.bytes[self.line_end.len..];
        let rest = if self.upload.missing() == 0 {
            &bytes[filled..]
        } else {
            &[]
        };
        let len = room.len().min(rest.len());
        room[..len].copy_from_slice(&rest[..len]);
        self.line_end.len += len;
        Ok(())
    }

    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        self.upload.unfilled()
    }

    pub(crate) fn advance(&mut self, len: usize) {
        self.upload.advance(len);
    }

    /// Whether the value ended as values must.
    pub(crate) fn has_line_end(&self) -> bool {
        self.line_end.bytes == *b"\r\n"
    }
}
