//! Uploads: memory reserved for a value and filled in place.

use std::sync::Arc;

use thiserror::Error;

use crate::ledger::{Block, Ledger};
use crate::worker::KeyHash;

/// Why no memory was reserved.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The value is longer than the store takes.
    #[error("value longer than the store takes")]
    TooLarge,
    /// Everything else is held by pins and uploads.
    #[error("no memory left that may be evicted")]
    NoMemory,
    /// As many uploads and pins wait for their peers as may: try again when one is done.
    #[error("too much memory held for slow peers")]
    HeldFull,
}

/// A value on its way in. Dropped unpublished, it leaves no trace.
#[derive(Debug)]
pub struct Upload {
    pub(crate) block: Block,
    pub(crate) hash: KeyHash,
    filled: usize,
    charge: u64,
    waiting: bool,
    ledger: Arc<Ledger>,
}

impl Upload {
    pub(crate) fn new(
        block: Block,
        hash: KeyHash,
        charge: u64,
        waiting: bool,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            block,
            hash,
            filled: 0,
            charge,
            waiting,
            ledger,
        }
    }

    /// The key it is for.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.block.key()
    }

    /// The key's hash.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Length of the whole value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.block.value().len()
    }

    /// Bytes still to come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_len() - self.filled
    }

    /// The next piece to fill. Empty when nothing is missing.
    pub fn unfilled(&mut self) -> &mut [u8] {
        let filled = self.filled;
        &mut self.block.value_mut()[filled..]
    }

    /// Says that the first `len` bytes of [`Upload::unfilled`] are filled.
    pub fn advance(&mut self, len: usize) {
        self.filled = self.value_len().min(self.filled + len);
    }

    /// Copies from the front of `bytes` what is missing; returns how much that was.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let room = self.unfilled();
        let len = room.len().min(bytes.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.advance(len);
        len
    }

    /// Hands the block over to the index, which from now on counts it.
    pub(crate) fn into_block(mut self) -> Block {
        self.charge = 0;
        self.block.clone()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.waiting {
            self.ledger.stop_waiting(self.block.charge());
        }
        self.ledger.release(self.charge);
    }
}
