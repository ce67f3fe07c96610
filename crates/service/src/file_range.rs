//! A part of a file that an output ends with.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A part of a file, which the runtime sends from the kernel's page cache without a copy. The file
/// stays open until the range is dropped.
#[derive(Clone)]
pub struct FileRange {
    file: Arc<dyn AsFd + Send + Sync>,
    offset: u64,
    len: usize,
}

/// The bytes of a [`FileRange`] that have not been sent.
#[derive(Debug, Clone, Copy)]
pub struct FileRest<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// The offset of the first of these bytes in the file.
    pub offset: u64,
    /// Their number, at least 1.
    pub len: usize,
}

impl FileRange {
    /// The `len` bytes of a file from `offset` on.
    ///
    /// # Panics
    /// `len` is 0.
    #[must_use]
    pub fn new(file: Arc<dyn AsFd + Send + Sync>, offset: u64, len: usize) -> Self {
        assert!(len > 0, "a part of a file has bytes");
        Self { file, offset, len }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes without the first `sent`. `None` if there are none.
    pub(crate) fn rest(&self, sent: usize) -> Option<FileRest<'_>> {
        let len = self.len.checked_sub(sent).filter(|&len| len > 0)?;
        Some(FileRest {
            file: self.file.as_fd(),
            offset: self.offset + sent as u64,
            len,
        })
    }

    /// Removes the first `sent` bytes, of which there must be more.
    pub(crate) fn advance(&mut self, sent: usize) {
        assert!(sent < self.len, "bytes are left");
        self.offset += sent as u64;
        self.len -= sent;
    }
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRange")
            .field("file", &self.file.as_fd())
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish()
    }
}
