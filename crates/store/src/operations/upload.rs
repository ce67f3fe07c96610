//! Uploads. An upload is memory for a value that is reserved when the length of the value is known,
//! and filled in place as the bytes of the value arrive.

use std::fmt;

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::block::{
    Block, HeaderFields, PIECE_HEADER_LEN, PIECE_MAX, PIECES_MAX, piece_block_len,
};
use crate::heap::holds::{Credit, Holder};
use crate::heap::{BlockRef, SegmentNumber};
use crate::limits::{KEY_MAX, PIECE_MIN_PART, WHOLE_PART};
use crate::log::Allocation;
use crate::operations::insertion::{NewItem, Value};
use crate::rejected::Rejected;
use crate::store::{Lease, Store};
use crate::sync::Arc;
use crate::worker::{KeyHash, Worker};

/// The properties of the item for which an upload reserves memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Length of the value in bytes.
    pub value_len: usize,
    /// The client flags: 32 bits that the store does not interpret.
    pub flags: u32,
    /// The expected expiry. It selects the segment, because items of similar expiry are stored
    /// together. The item itself gets the expiry of the [`Write`](crate::Write).
    pub expiry: Expiry,
    /// The caller has all bytes of the value already. If false, the upload has to wait for a client
    /// to send them. Then its segments count as held until the upload is published or dropped. The
    /// number of held segments is limited (`heap/holds.rs`).
    pub whole: bool,
}

/// A value that is being received, in memory of the store. Dropping an upload that was not
/// published changes no item. The memory of its blocks is reclaimed when their segments are
/// evacuated.
pub struct Upload {
    store: Arc<Lease>,
    pub(crate) hash: KeyHash,
    pub(crate) flags: u32,
    /// The part of the log, small or main, to which the item is written.
    part: Part,
    value_len: usize,
    /// Number of bytes of the value that are present.
    filled: usize,
    /// The right to hold further segments while a client sends the value. `None` if the caller had
    /// the whole value from the start.
    credit: Option<Credit>,
    memory: UploadMemory,
}

/// The memory of an upload.
#[derive(Debug)]
enum UploadMemory {
    /// One block for the key and the complete value.
    Whole(Allocation),
    /// Blocks for the pieces of a large value. All pieces except the last are full.
    Pieces {
        /// The key. It is copied into the item's head block, which is built when the upload is
        /// published.
        key: Box<[u8]>,
        pieces: Vec<Allocation>,
        /// Number of bytes of the value in all pieces except the last.
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
    /// Reserves memory for the value of an item: for the complete value, or, if the value is to be
    /// stored in pieces, for the first piece.
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

    /// Does the work of [`Worker::reserve`]. `cas` is the CAS of the item, if it is known already.
    /// The block gets a layout that can hold this CAS.
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
            let segments = (1 + request.value_len / heap.segment_size() as usize) as u32;
            let (holds, limit) = (&self.store.holds, self.store.log.segment_limit());
            let credit = holds.request(segments, Holder::Upload, limit);
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
            // `try_allocate` does not wait for memory, but is only for blocks that are filled at
            // once. `allocate` waits if necessary.
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
                // The upload needs no further segment, so return the rest of the credit. Credit is
                // left if the segment was held before, because only its first hold uses up credit.
                self.store.holds.return_credit(credit.take());
            }
        } else {
            self.extend(&mut upload, now_s)?;
        }
        Ok(upload)
    }

    /// Checks the arguments of a write, and sets the worker online. Every write of an item calls
    /// this first.
    ///
    /// # Errors
    /// The key is empty or too long, or the item is too large.
    ///
    /// # Panics
    /// `hash` is the hash of another key or of another store. Such a write must not happen, because
    /// evacuation searches for the entry of a block under the hash of the block's key. It would not
    /// find an entry that is stored under another hash. The entry would then remain, and refer to
    /// memory that is reused.
    pub(crate) fn begin_write(
        &self,
        key: &[u8],
        hash: KeyHash,
        flags: u32,
        value_len: usize,
    ) -> Result<(), Rejected> {
        assert!(self.hash(key).0 == hash.0, "the hash of another key");
        self.ensure_online();
        // The visits of this operation are counted from here (`VISITS_MAX`).
        self.visits_before.set(self.visits());
        let is_key = (1..=KEY_MAX).contains(&key.len());
        if !is_key || !self.fits(key, flags, value_len) {
            return Err(Rejected::TooLarge);
        }
        Ok(())
    }

    /// Copies bytes from the front of `bytes` into an upload, until `bytes` ends or the upload is
    /// full. Returns the number of copied bytes. Allocates memory as needed.
    ///
    /// # Errors
    /// There is no memory for the next piece, or it is not free yet ([`Rejected::Deferred`]). The
    /// bytes for which there was memory have been copied: see [`Upload::missing`].
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
        self.check_owner(upload.owner());
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

    /// Allocates the next piece of an upload whose present pieces are full. Does nothing for an
    /// upload in one block.
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
        // A piece has no expiry of its own. It goes to a segment for items that never expire.
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
            // Record the length of the item only with its last piece, so that a value that never
            // arrives changes nothing.
            if len == missing {
                self.store.log.expect_item_of(upload.value_len);
            }
        }
        upload.hold(segment);
        Ok(())
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

    /// The store that it belongs to.
    pub(crate) fn owner(&self) -> &Arc<Store> {
        self.store.store()
    }

    /// The length of the complete value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// The number of bytes of the value that are still missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_len - self.filled
    }

    /// The memory for the next bytes of the value. It is empty if no bytes are missing, or if the
    /// next piece is not allocated yet, which [`Worker::fill`] does.
    pub fn unfilled(&mut self) -> &mut [u8] {
        let Some(last) = self.last() else {
            return &mut [];
        };
        let block = self.block(last);
        let (bytes, from) = match &self.memory {
            // SAFETY: the block was allocated for this upload and is not linked, so no other thread
            // accesses its bytes; the slice borrows the upload exclusively.
            UploadMemory::Whole(_) => (unsafe { block.value_mut() }, 0),
            UploadMemory::Pieces {
                bytes_before_last, ..
            } => {
                // SAFETY: the piece was allocated for this upload and no item refers to it, so no
                // other thread accesses its bytes; the slice borrows the upload exclusively.
                (unsafe { block.piece_mut() }, *bytes_before_last)
            }
        };
        &mut bytes[self.filled - from..]
    }

    /// Declares the first `len` bytes of [`Upload::unfilled`] as filled. The caller must have
    /// written them.
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

    /// The only block of the upload, or its last piece.
    fn last(&self) -> Option<&Allocation> {
        match &self.memory {
            UploadMemory::Whole(allocation) => Some(allocation),
            UploadMemory::Pieces { pieces, .. } => pieces.last(),
        }
    }

    /// The block of the item. `None` for a value in pieces, whose head block is not built yet.
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

    /// Returns the item to be stored when this upload is published.
    pub(crate) fn new_item(&self) -> NewItem<'_> {
        NewItem {
            key: self.key(),
            hash: self.hash(),
            flags: self.flags,
            part: self.part(),
            value: match (self.block_ref(), self.pieces()) {
                (Some(block_ref), _) => Value::Bytes(block_ref.block.value()),
                (None, pieces) => Value::Pieces(self.value_len(), pieces.unwrap_or_default()),
            },
        }
    }

    /// The part in which the item is stored.
    pub(crate) fn part(&self) -> Part {
        self.part
    }

    /// Releases the holds on the segment of a block of this upload.
    fn release(&self, allocation: &Allocation) {
        let heap = &self.store.log.heap;
        if self.credit.is_some() {
            self.store.holds.release(heap, allocation.number);
        }
        heap.segment(allocation.number).release_writer();
    }

    /// Holds a segment, and counts it as held, if the upload waits for a client to send the value.
    fn hold(&mut self, number: SegmentNumber) {
        if let Some(credit) = &mut self.credit {
            let segment = self.store.log.heap.segment(number);
            self.store.holds.hold(segment, credit);
        }
    }
}

impl Drop for Upload {
    /// Releases the segments. Blocks of a published upload may now belong to an item. All other
    /// blocks are dead, and disappear when their segment is evacuated.
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
