//! The bytes of a document that a connection has to send.

use std::sync::Arc;

use http::ByteRange;
use service::{NoPin, Output};

use crate::counts::{FileCount, FileCounts};
use crate::disk::{Disk, Document};
use crate::limits::BLOCK_LEN;
use crate::worker::FileWorker;

/// The bytes of a document that are not in the output yet.
#[derive(Debug)]
pub(super) struct Transfer<F> {
    pub(super) document: Arc<Document<F>>,
    pub(super) rest: ByteRange,
    /// Whether the connection is closed behind them.
    pub(super) is_last: bool,
    /// The length of the part of the file that ends the output.
    file_len: usize,
    /// Whether all bytes are copied, because the service sends no parts of files, one of them could
    /// not be sent, or a block was not in memory.
    pub(super) must_copy: bool,
}

impl<F: Send + Sync + 'static> Transfer<F> {
    pub(super) fn new(
        document: Arc<Document<F>>,
        rest: ByteRange,
        is_last: bool,
        must_copy: bool,
    ) -> Self {
        Self {
            document,
            rest,
            is_last,
            file_len: 0,
            must_copy,
        }
    }

    /// The length of the next read: up to the end of a block, or of the bytes to send.
    pub(super) fn block_len(&self) -> usize {
        let in_block = BLOCK_LEN as u64 - self.rest.start % BLOCK_LEN as u64;
        usize::try_from(in_block.min(self.rest.end - self.rest.start)).unwrap_or(BLOCK_LEN)
    }

    /// Appends a part of the file to the output, if it is in memory and the runtime sends such
    /// parts. Returns whether it did.
    pub(super) fn push_part<D: Disk<File = F>>(
        &mut self,
        files: &FileWorker<D>,
        out: &mut Output<NoPin>,
    ) -> bool {
        if self.must_copy || !out.accepts_files() {
            return false;
        }
        let Some(part) = files.resident_part(&self.document, self.rest) else {
            return false;
        };
        let memory_len = out.len();
        out.push_file(part);
        self.file_len = out.len() - memory_len;
        self.rest.start += self.file_len as u64;
        true
    }

    /// Takes the last `len` bytes of the part in the output back, which could not be sent.
    pub(super) fn take_back(&mut self, len: usize) {
        self.rest.start -= len as u64;
        self.file_len -= len;
        self.must_copy = true;
    }

    /// Counts the bytes of the part that was in the output: all that were not taken back.
    pub(super) fn count_sent(&mut self, counts: &FileCounts) {
        let sent = std::mem::take(&mut self.file_len) as u64;
        if sent > 0 {
            counts.add(FileCount::SendfileBytes, sent);
        }
    }
}
