//! Receiving a value that did not arrive together with its command.

use store::{Rejected, Upload, Worker};

use crate::operation::StoreOptions;
use crate::protocols::OwnedEncoder;

/// A partly received value, with the request that the value belongs to. `upload` holds the key.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    pub(crate) upload: Upload,
    pub(crate) request: StoreRequest,
    pub(crate) encoder: OwnedEncoder,
}

/// The parts of a store request that are needed to publish its value.
#[derive(Debug)]
pub(crate) struct StoreRequest {
    pub(crate) options: StoreOptions,
    /// The key was sent in base64.
    pub(crate) base64: bool,
    pub(crate) value_end: ValueEnd,
}

/// The bytes that follow a value, as far as received.
#[derive(Debug)]
pub(crate) struct ValueEnd {
    /// The bytes that the protocol requires and that have not been received.
    missing: &'static [u8],
    /// All bytes received are those that the protocol requires.
    is_valid: bool,
}

impl ValueEnd {
    pub(crate) fn new(expected: &'static [u8]) -> Self {
        Self {
            missing: expected,
            is_valid: true,
        }
    }

    /// Whether all bytes received are those that the protocol requires.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid
    }

    fn receive(&mut self, bytes: &[u8]) {
        let len = self.missing.len().min(bytes.len());
        let (expected, missing) = self.missing.split_at(len);
        self.is_valid &= expected == &bytes[..len];
        self.missing = missing;
    }
}

impl PendingUpload {
    /// Bytes still to receive, including those that follow the value.
    pub(crate) fn missing(&self) -> usize {
        self.upload.missing() + self.request.value_end.missing.len()
    }

    /// Copies missing bytes from the front of `bytes`, as many as there are.
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

    /// The memory that the next bytes of the value may be received into.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        self.upload.unfilled()
    }

    pub(crate) fn advance(&mut self, len: usize) {
        self.upload.advance(len);
    }
}
