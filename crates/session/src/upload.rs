//! The reception of a value that did not arrive completely with its command.
//!
//! The bytes go into the store's segments if the store grants an upload. Otherwise they go into the
//! spool, and are moved to the segments when the value is complete, or when the spool is full and
//! the store then grants an upload.

use std::collections::VecDeque;

use store::{KeyHash, Rejected, Reserve, Spooled, Upload, Worker};

use crate::limits::{SPOOL_CHUNK_MAX, SPOOL_CHUNK_MIN, SPOOL_MOVED_PER_TURN};
use crate::operation::StoreOptions;
use crate::protocols::OwnedEncoder;

/// A partly received value and its storage command.
#[derive(Debug)]
pub(crate) struct PendingUpload {
    pub(crate) value: PendingValue,
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

/// Why a value cannot be received or stored now.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unready {
    /// The connection has to wait for memory.
    Memory,
    /// More bytes are to be moved in another turn.
    Yield,
    Rejected,
}

impl From<Rejected> for Unready {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Deferred | Rejected::HoldLimit => Self::Memory,
            _ => Self::Rejected,
        }
    }
}

/// The received part of a value.
#[derive(Debug)]
pub(crate) enum PendingValue {
    Stored(Upload),
    Spooled(SpooledValue),
}

impl PendingValue {
    /// Reserves memory for a value that a client is sending.
    ///
    /// # Errors
    /// Those of [`Worker::reserve`] except [`Rejected::HoldLimit`].
    pub(crate) fn begin(
        key: &[u8],
        hash: KeyHash,
        reserve: Reserve,
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<Self, Rejected> {
        match worker.reserve(key, hash, &reserve, now_s) {
            Ok(upload) => Ok(Self::Stored(upload)),
            Err(Rejected::HoldLimit) => Ok(Self::Spooled(SpooledValue {
                key: key.into(),
                hash,
                reserve,
                chunks: VecDeque::new(),
                received: 0,
                last_free: 0,
                moved: 0,
                upload: None,
            })),
            Err(rejected) => Err(rejected),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Stored(upload) => upload.key(),
            Self::Spooled(value) => &value.key,
        }
    }

    pub(crate) fn hash(&self) -> KeyHash {
        match self {
            Self::Stored(upload) => upload.hash(),
            Self::Spooled(value) => value.hash,
        }
    }

    fn missing(&self) -> usize {
        match self {
            Self::Stored(upload) => upload.missing(),
            Self::Spooled(value) => value.reserve.value_len - value.received,
        }
    }

    /// Copies missing bytes from the front of `bytes`, and returns their number.
    fn fill(&mut self, bytes: &[u8], worker: &mut Worker, now_s: u32) -> Result<usize, Unready> {
        let mut copied = 0;
        loop {
            match self {
                Self::Stored(upload) => {
                    return Ok(copied + worker.fill(upload, &bytes[copied..], now_s)?);
                }
                Self::Spooled(value) => {
                    copied += value.copy(&bytes[copied..]);
                    let is_complete = value.received == value.reserve.value_len;
                    if is_complete || copied == bytes.len() {
                        return Ok(copied);
                    }
                    if value.upload.is_some() || !value.extend(worker) {
                        let waits_for_client = true;
                        self.store(waits_for_client, worker, now_s)?;
                    }
                }
            }
        }
    }

    /// Moves what is spooled to the store, as far as one turn may. If the value waits for its
    /// client, it needs the right to hold segments meanwhile.
    fn store(
        &mut self,
        waits_for_client: bool,
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<(), Unready> {
        if let Self::Spooled(value) = self {
            let upload = value.move_to_store(waits_for_client, worker, now_s)?;
            *self = Self::Stored(upload);
        }
        Ok(())
    }
}

/// A value that is being received into the spool.
#[derive(Debug)]
pub(crate) struct SpooledValue {
    key: Box<[u8]>,
    hash: KeyHash,
    reserve: Reserve,
    /// The received bytes that were not moved to the store, and free space in the last chunk.
    chunks: VecDeque<Spooled>,
    /// Number of bytes received.
    received: usize,
    /// Length of the free space in the last chunk.
    last_free: usize,
    /// Number of bytes of the first chunk that were moved.
    moved: usize,
    /// The memory of the store, once bytes are being moved there.
    upload: Option<Upload>,
}

impl SpooledValue {
    /// Allocates another chunk. Returns false if the spool is full.
    fn extend(&mut self, worker: &Worker) -> bool {
        let missing = self.reserve.value_len - self.received;
        // As much as has arrived before.
        let len = self
            .received
            .clamp(SPOOL_CHUNK_MIN, SPOOL_CHUNK_MAX)
            .min(missing);
        let Some(mut chunk) = worker.store().spool(len) else {
            return false;
        };
        chunk.resize(len, 0);
        self.chunks.push_back(chunk);
        self.last_free = len;
        true
    }

    /// The free space of the last chunk.
    fn unfilled(&mut self) -> &mut [u8] {
        let free = self.last_free;
        match self.chunks.back_mut() {
            Some(chunk) => {
                let filled = chunk.len() - free;
                &mut chunk[filled..]
            }
            None => &mut [],
        }
    }

    fn advance(&mut self, len: usize) {
        let len = len.min(self.last_free);
        self.last_free -= len;
        self.received += len;
    }

    /// Copies bytes to the free space of the last chunk, and returns their number.
    fn copy(&mut self, bytes: &[u8]) -> usize {
        let unfilled = self.unfilled();
        let len = unfilled.len().min(bytes.len());
        unfilled[..len].copy_from_slice(&bytes[..len]);
        self.advance(len);
        len
    }

    /// Moves bytes to the store, at most [`SPOOL_MOVED_PER_TURN`]. Returns the upload when all have
    /// been moved.
    fn move_to_store(
        &mut self,
        waits_for_client: bool,
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<Upload, Unready> {
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => {
                let reserve = Reserve {
                    whole: !waits_for_client,
                    ..self.reserve
                };
                worker.reserve(&self.key, self.hash, &reserve, now_s)?
            }
        };
        let missing = self.reserve.value_len - self.received;
        let mut budget = SPOOL_MOVED_PER_TURN;
        while let Some(chunk) = self.chunks.front() {
            let unmoved = upload.missing() - missing;
            let part = &chunk[self.moved..];
            let part = &part[..part.len().min(unmoved).min(budget)];
            let filled = worker.fill(&mut upload, part, now_s);
            let moved = unmoved - (upload.missing() - missing);
            self.moved += moved;
            budget -= moved;
            if let Err(rejected) = filled {
                self.upload = Some(upload);
                return Err(rejected.into());
            }
            if moved == unmoved {
                break;
            }
            if self.moved == chunk.len() {
                self.chunks.pop_front();
                self.moved = 0;
            } else {
                self.upload = Some(upload);
                return Err(Unready::Yield);
            }
        }
        Ok(upload)
    }
}

impl PendingUpload {
    /// The number of bytes that have not been received, including the line end.
    pub(crate) fn missing(&self) -> usize {
        self.value.missing() + self.request.value_end.missing.len()
    }

    /// Copies missing bytes from the front of `bytes`, as many as `bytes` has. If this fails, some
    /// bytes may have been copied. [`missing`](Self::missing) then counts only the bytes that are
    /// still missing. When none is missing, the value is in the store.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        worker: &mut Worker,
        now_s: u32,
    ) -> Result<(), Unready> {
        let filled = self.value.fill(bytes, worker, now_s)?;
        if self.value.missing() == 0 {
            self.request.value_end.receive(&bytes[filled..]);
        }
        if self.missing() == 0 {
            let waits_for_client = false;
            self.value.store(waits_for_client, worker, now_s)?;
        }
        Ok(())
    }

    /// The memory into which the next bytes of the value may be received directly.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        match &mut self.value {
            PendingValue::Stored(upload) => upload.unfilled(),
            PendingValue::Spooled(value) => value.unfilled(),
        }
    }

    /// Records that `len` bytes have been received into [`unfilled`](Self::unfilled).
    pub(crate) fn advance(&mut self, len: usize) {
        match &mut self.value {
            PendingValue::Stored(upload) => upload.advance(len),
            PendingValue::Spooled(value) => value.advance(len),
        }
    }
}
