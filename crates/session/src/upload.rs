//! The reception of a value that did not arrive completely with its command.

use store::{Rejected, Upload, Worker};

use crate::operation::StoreOptions;
use crate::protocols::OwnedEncoder;

/// A partly received value and its storage command. The key is in `upload`.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    pub(crate) upload: Upload,
    pub(crate) request: StoreRequest,
    pub(crate) encoder: OwnedEncoder,
}

/// The parts of a storage command that are needed to publish its value (to make it visible in the
/// store).
#[derive(Debug)]
pub(crate) struct StoreRequest {
    pub(crate) options: StoreOptions,
    /// Whether the key was sent in base64.
    pub(crate) base64: bool,
    pub(crate) value_end: ValueEnd,
}

/// The line end after a value, which may arrive in parts and may be wrong.
#[derive(Debug)]
pub(crate) struct ValueEnd {
    /// The part of the expected line end that has not been received.
    missing: &'static [u8],
    /// See [`ValueEnd::is_valid`].
    is_valid: bool,
}

impl ValueEnd {
    /// The line end `expected`, of which nothing has been received.
    pub(crate) fn new(expected: &'static [u8]) -> Self {
        Self {
            missing: expected,
            is_valid: true,
        }
    }

    /// Whether all bytes received so far equal the expected bytes.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Receives the missing part from the front of `bytes`, as far as it is there, and compares it
    /// with the expected bytes.
    fn receive(&mut self, bytes: &[u8]) {
        let len = self.missing.len().min(bytes.len());
        let (expected, missing) = self.missing.split_at(len);
        self.is_valid &= expected == &bytes[..len];
        self.missing = missing;
    }
}

impl PendingUpload {
    /// The number of bytes that have not been received, including the line end.
    pub(crate) fn missing(&self) -> usize {
        self.upload.missing() + self.request.value_end.missing.len()
    }

    /// Copies missing bytes from the front of `bytes`, as many as `bytes` has. If this fails, some
    /// bytes may have been copied. [`missing`](Self::missing) then counts only the bytes that are
    /// still missing.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<(), Rejected> {
        let filled = worker.fill(&mut self.upload, bytes, now_s)?;
        if self.upload.missing() == 0 {
            self.request.value_end.receive(&bytes[filled..]);
        }
        Ok(())
    }

    /// The memory of the store into which the next bytes of the value may be received directly.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        self.upload.unfilled()
    }

    /// Records that `len` bytes have been received into [`unfilled`](Self::unfilled).
    pub(crate) fn advance(&mut self, len: usize) {
        self.upload.advance(len);
    }
}
