//! A value that did not arrive with its command line.

use store::{Refused, Upload, Worker};

/// A value on its way, and the line that announced it.
#[derive(Debug)]
pub(crate) struct Uploading {
    pub(crate) upload: Upload,
    /// The command line, parsed again when the value is whole. Bounded as every line is.
    pub(crate) line: Box<[u8]>,
    tail: [u8; 2],
    tail_len: usize,
}

impl Uploading {
    pub(crate) fn new(upload: Upload, line: &[u8]) -> Self {
        Self {
            upload,
            line: line.into(),
            tail: [0; 2],
            tail_len: 0,
        }
    }

    /// Bytes still to come, the line end included.
    pub(crate) fn missing(&self) -> usize {
        self.upload.missing() + self.tail.len() - self.tail_len
    }

    /// Takes from the front of `bytes` what is missing; returns how much that was.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        worker: &Worker,
        now_s: u32,
    ) -> Result<usize, Refused> {
        let filled = worker.fill(&mut self.upload, bytes, now_s)?;
        let room = &mut self.tail[self.tail_len..];
        let rest = if self.upload.missing() == 0 {
            &bytes[filled..]
        } else {
            &[]
        };
        let len = room.len().min(rest.len());
        room[..len].copy_from_slice(&rest[..len]);
        self.tail_len += len;
        Ok(filled + len)
    }

    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        self.upload.unfilled()
    }

    pub(crate) fn advance(&mut self, len: usize) {
        self.upload.advance(len);
    }

    /// Whether the value ended as values must.
    pub(crate) fn is_well_ended(&self) -> bool {
        self.tail == *b"\r\n"
    }
}
