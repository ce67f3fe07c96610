//! Uploads: memory reserved for a value and filled in place.

use std::fmt;

use thiserror::Error;

use crate::heap::block::{
    Block, HeaderFields, PIECE_HEADER_LEN, PIECE_MAX, PIECES_MAX, piece_block_len,
};
use crate::heap::segment::Part;
use crate::heap::{BlockRef, SegmentNumber};
use crate::item::Expiry;
use crate::limits::{KEY_MAX, PIECE_MIN_PART, WHOLE_PART};
use crate::log::Allocation;
use crate::segment_holds::Credit;
use crate::sync::Arc;
use crate::worker::{KeyHash, Lease, Worker};

/// Why a write was rejected.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The value is longer than the store accepts.
    #[error("value longer than the store accepts")]
    TooLarge,
    /// Pins and uploads hold all memory that could be evicted.
    #[error("no memory left that may be evicted")]
    NoMemory,
    /// The bound of memory held for peers is reached. Try again when a pin or upload ends.
    #[error("too much memory held for slow peers")]
    HoldLimit,
    /// Memory will become free once a worker that may still use it has become quiescent, which
    /// takes too long to wait for. Try again soon.
    #[error("a worker may still use memory that is to be reused")]
    Deferred,
}

/// The item for which memory is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Length of the value in bytes.
    pub value_len: usize,
    /// The client flags: 32 bits that the store does not interpret.
    pub flags: u32,
    /// The expected expiry, which selects a segment: items of similar expiry are stored together.
    pub expiry: Expiry,
    /// All bytes of the value are available. Otherwise the upload's segments count as held for a
    /// peer until it is published or dropped.
    pub whole: bool,
}

/// A value being received. If it is dropped before it is published, the store is unchanged.
pub struct Upload {
    store: Arc<Lease>,
    pub(crate) hash: KeyHash,
    pub(crate) flags: u32,
    part: Part,
    value_len: usize,
    filled: usize,
    /// The unused credit. `None` if the upload does not wait for a peer.
    credit: Option<Credit>,
    memory: UploadMemory,
}

/// The memory of an upload.
#[derive(Debug)]
enum UploadMemory {
    /// One block, which also contains the key.
    Whole(Allocation),
    /// Pieces; all but the last are full. The key is kept until the item's head block is built.
    Pieces {
        key: Box<[u8]>,
        pieces: Vec<Allocation>,
        /// Bytes in all pieces but the last.
        bytes_before_last: usize,
    },
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("value_len", &self.value_len)
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Reserves memory for the value of an item.
    ///
    /// # Errors
    /// See [`Rejected`].
    pub fn reserve(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        request: &Reserve,
        now_s: u32,
    ) -> Result<Upload, Rejected> {
        self.reserve_for(key, hash, request, None, now_s)
    }

    /// As [`Worker::reserve`], for a write whose CAS is known.
    pub(crate) fn reserve_for(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        request: &Reserve,
        cas: Option<u64>,
        now_s: u32,
    ) -> Result<Upload, Rejected> {
        self.begin_write(key, hash, request.flags, request.value_len)?;
        let heap = &self.store.log.heap;
        let credit = if request.whole {
            None
        } else {
            let segments = 1 + request.value_len / heap.segment_size() as usize;
            let segment_limit = self.store.log.segment_limit();
            let credit = self.store.holds.request(segments as u32, segment_limit);
            Some(credit.ok_or(Rejected::HoldLimit)?)
        };
        let has_expiry_word = self.needs_expiry_word(request.expiry);
        let fields = HeaderFields::inline(
            key.len(),
            request.value_len,
            request.flags,
            cas,
            has_expiry_word,
        );
        let block_len = fields.block_len();
        self.assist_evacuation(block_len, now_s);
        let part = self.part_for(self.candidate(hash).as_ref(), hash);
        let memory = if block_len <= self.store.log.heap.block_max() / WHOLE_PART {
            let immediate = match request.whole {
                true => self.try_allocate(block_len, part, request.expiry, now_s),
                false => None,
            };
            let allocation = match immediate {
                Some(allocation) => Ok(allocation),
                None => self.allocate(block_len, part, request.expiry, now_s),
            };
            match allocation {
                Ok(allocation) => UploadMemory::Whole(allocation),
                Err(rejected) => {
                    if let Some(credit) = credit {
                        self.store.holds.return_credit(credit);
                    }
                    return Err(rejected);
                }
            }
        } else {
            UploadMemory::Pieces {
                key: key.into(),
                pieces: Vec::new(),
                bytes_before_last: 0,
            }
        };
        let mut upload = Upload {
            store: Arc::clone(&self.lease),
            hash,
            flags: request.flags,
            part,
            value_len: request.value_len,
            filled: 0,
            credit,
            memory,
        };
        if let UploadMemory::Whole(allocation) = &upload.memory {
            let number = allocation.number;
            upload.block(allocation).write_header_and_key(&fields, key);
            upload.hold(number);
            if let Some(credit) = &mut upload.credit {
                // The block is in one segment. If that was held before, credit is left.
                self.store.holds.return_credit(credit.take());
            }
        } else {
            self.extend(&mut upload, now_s)?;
        }
        Ok(upload)
    }

    /// Called at the start of every write of an item.
    ///
    /// # Errors
    /// The item is too large.
    ///
    /// # Panics
    /// The hash belongs to another key or to another store. Evacuation finds an entry by the hash
    /// of the key in its block: an entry under another hash would refer to reused memory.
    pub(crate) fn begin_write(
        &self,
        key: &[u8],
        hash: KeyHash,
        flags: u32,
        value_len: usize,
    ) -> Result<(), Rejected> {
        assert!(self.hash(key).0 == hash.0, "the hash of another key");
        self.ensure_online();
        self.visits_before.set(self.visits());
        let is_key = (1..=KEY_MAX).contains(&key.len());
        if !is_key || !self.fits(key, flags, value_len) {
            return Err(Rejected::TooLarge);
        }
        Ok(())
    }

    /// Allocates memory for an item whose bytes are available: a hole of its length if there is
    /// one. Does not wait, and the worker does not become quiescent, so locations that it has read
    /// stay valid.
    pub(crate) fn try_allocate(
        &self,
        len: usize,
        part: Part,
        expiry: Expiry,
        now_s: u32,
    ) -> Option<Allocation> {
        let target = self.target(part, expiry, now_s);
        let hole = self.take_hole(len, &target);
        hole.or_else(|| self.store.log.allocate(len, &target))
    }

    /// Copies the missing bytes of an upload from the front of `bytes` and returns their number.
    /// Allocates memory as needed.
    ///
    /// # Errors
    /// There is no memory, or it is not free yet ([`Rejected::Deferred`]). The bytes that fitted
    /// have been copied.
    ///
    /// # Panics
    /// The upload belongs to another store.
    pub fn fill(
        &mut self,
        upload: &mut Upload,
        bytes: &[u8],
        now_s: u32,
    ) -> Result<usize, Rejected> {
        self.ensure_online();
        self.check_owner(upload);
        let mut copied = 0;
        while copied < bytes.len() && upload.missing() > 0 {
            let mut unfilled = upload.unfilled();
            if unfilled.is_empty() {
                self.extend(upload, now_s)?;
                unfilled = upload.unfilled();
            }
            let len = unfilled.len().min(bytes.len() - copied);
            unfilled[..len].copy_from_slice(&bytes[copied..copied + len]);
            upload.filled += len;
            copied += len;
        }
        Ok(copied)
    }

    /// Panics if the upload belongs to another store: it contains locations of its own store.
    pub(crate) fn check_owner(&self, upload: &Upload) {
        assert!(
            Arc::ptr_eq(upload.store.store(), &self.store),
            "an upload of another store"
        );
    }

    /// Allocates the next piece of an upload whose pieces are full.
    fn extend(&mut self, upload: &mut Upload, now_s: u32) -> Result<(), Rejected> {
        let missing = upload.missing();
        let UploadMemory::Pieces {
            pieces,
            bytes_before_last,
            ..
        } = &mut upload.memory
        else {
            return Ok(());
        };
        let block_max = self.store.log.heap.block_max();
        let len_max = missing.min(PIECE_MAX).min(block_max - PIECE_HEADER_LEN);
        let len_min = len_max.min(block_max / PIECE_MIN_PART);
        let number = pieces.len();
        if number >= PIECES_MAX {
            return Err(Rejected::TooLarge);
        }
        self.assist_evacuation(len_max, now_s);
        let target = self.target(upload.part, Expiry::NEVER, now_s);
        let (allocation, block_len) = loop {
            let (min, max) = (piece_block_len(len_min), piece_block_len(len_max));
            if let Some(allocation) = self.store.log.allocate_between(min, max, &target) {
                break allocation;
            }
            self.wait_for_segment(now_s)?;
        };
        *bytes_before_last = upload.filled;
        let segment = allocation.number;
        pieces.push(allocation);
        if let Some(allocation) = upload.last() {
            let len = len_max.min(block_len - PIECE_HEADER_LEN);
            let piece = upload.block(allocation);
            piece.write_piece_header(upload.hash.0, number, len);
        }
        upload.hold(segment);
        Ok(())
    }

    /// Allocates memory for a block. Waits, and becomes quiescent, if memory can become free.
    pub(crate) fn allocate(
        &mut self,
        len: usize,
        part: Part,
        expiry: Expiry,
        now_s: u32,
    ) -> Result<Allocation, Rejected> {
        let target = self.target(part, expiry, now_s);
        loop {
            if let Some(allocation) = self.store.log.allocate(len, &target) {
                return Ok(allocation);
            }
            self.wait_for_segment(now_s)?;
        }
    }
}

impl Upload {
    /// The key of the item.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match &self.memory {
            UploadMemory::Whole(allocation) => self.block(allocation).key(),
            UploadMemory::Pieces { key, .. } => key,
        }
    }

    /// The hash of the item's key.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Length of the whole value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Number of missing bytes.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_len - self.filled
    }

    /// The memory to fill next. Empty if nothing is missing, or if [`Worker::fill`] has to allocate
    /// more first.
    pub fn unfilled(&mut self) -> &mut [u8] {
        let Some(last) = self.last() else {
            return &mut [];
        };
        let block = self.block(last);
        let (bytes, from) = match &self.memory {
            // SAFETY: the block was allocated for this upload and is not linked; the slice borrows
            // the upload.
            UploadMemory::Whole(_) => (unsafe { block.value_mut() }, 0),
            UploadMemory::Pieces {
                bytes_before_last, ..
            } => {
                // SAFETY: as above.
                (unsafe { block.piece_mut() }, *bytes_before_last)
            }
        };
        &mut bytes[self.filled - from..]
    }

    /// Declares the first `len` bytes of [`Upload::unfilled`] as filled.
    pub fn advance(&mut self, len: usize) {
        let unfilled = self.unfilled().len();
        self.filled += len.min(unfilled);
    }

    /// The slices of the complete value, in order.
    pub(crate) fn value(&self) -> impl Iterator<Item = &[u8]> {
        let (whole, pieces) = match &self.memory {
            UploadMemory::Whole(allocation) => (Some(self.block(allocation).value()), &[][..]),
            UploadMemory::Pieces { pieces, .. } => (None, &pieces[..]),
        };
        let pieces = pieces
            .iter()
            .map(|allocation| self.block(allocation).piece());
        whole.into_iter().chain(pieces)
    }

    /// A block allocated for this upload.
    fn block(&self, allocation: &Allocation) -> Block<'_> {
        // SAFETY: the block's segment is held for a writer until the upload is dropped.
        unsafe { self.store.log.heap.block(allocation.location) }
    }

    /// The block that is being filled, or was filled last.
    fn last(&self) -> Option<&Allocation> {
        match &self.memory {
            UploadMemory::Whole(allocation) => Some(allocation),
            UploadMemory::Pieces { pieces, .. } => pieces.last(),
        }
    }

    /// The block of the item, if the upload has one: `None` for a value in pieces.
    pub(crate) fn block_ref(&self) -> Option<BlockRef<'_>> {
        match &self.memory {
            UploadMemory::Whole(allocation) => Some(BlockRef {
                location: allocation.location,
                block: self.block(allocation),
                segment: self.store.log.heap.segment(allocation.number),
            }),
            UploadMemory::Pieces { .. } => None,
        }
    }

    /// The pieces, if the value is stored in pieces.
    pub(crate) fn pieces(&self) -> Option<&[Allocation]> {
        match &self.memory {
            UploadMemory::Whole(_) => None,
            UploadMemory::Pieces { pieces, .. } => Some(pieces),
        }
    }

    pub(crate) fn part(&self) -> Part {
        self.part
    }

    fn release(&self, allocation: &Allocation) {
        let heap = &self.store.log.heap;
        if self.credit.is_some() {
            self.store.holds.release(heap, allocation.number);
        }
        heap.segment(allocation.number).release_writer();
    }

    /// Holds a segment for the peer, if the upload waits for one.
    fn hold(&mut self, number: SegmentNumber) {
        if let Some(credit) = &mut self.credit {
            let segment = self.store.log.heap.segment(number);
            self.store.holds.hold(segment, credit);
        }
    }
}

impl Drop for Upload {
    /// Releases the segments. The blocks of a published upload are live then, those of any other
    /// upload dead.
    fn drop(&mut self) {
        match &self.memory {
            UploadMemory::Whole(allocation) => self.release(allocation),
            UploadMemory::Pieces { pieces, .. } => pieces
                .iter()
                .for_each(|allocation| self.release(allocation)),
        }
        if let Some(credit) = self.credit.take() {
            self.store.holds.return_credit(credit);
        }
    }
}
