//! Uploads: memory reserved for a value and filled in place.

use std::fmt;

use thiserror::Error;

use crate::heap::block::{
    Block, Outline, PIECE_HEADER_LEN, PIECE_MAX, PIECES_MAX, piece_block_len,
};
use crate::heap::segment::Part;
use crate::heap::{BlockRef, Number};
use crate::holds::Credit;
use crate::item::Expiry;
use crate::limits::{KEY_MAX, PIECE_MIN_PART, WHOLE_PART};
use crate::log::Allocation;
use crate::sync::Arc;
use crate::worker::{KeyHash, Lease, Worker};

/// Why no memory was reserved.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The value is longer than the store takes.
    #[error("value longer than the store takes")]
    TooLarge,
    /// Everything else is held by pins and uploads.
    #[error("no memory left that may be evicted")]
    NoMemory,
    /// As many uploads and pins wait for their peers as may: try again when one is done.
    #[error("too much memory held for slow peers")]
    HoldLimit,
    /// Memory is on its way, but a worker that may still look at what was there has stood still for
    /// long: try again in a moment.
    #[error("memory that is to be used again is still looked at")]
    Deferred,
}

/// What a value is reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Length of the value in bytes.
    pub value_len: usize,
    /// The client's own 32 bits.
    pub flags: u32,
    /// When the item will stop being shown, as far as is known: items that expire together lie
    /// together.
    pub expiry: Expiry,
    /// All its bytes are at hand. A value still on its way counts as held for a peer until it is
    /// published or dropped.
    pub whole: bool,
}

/// A value on its way in. Dropped unpublished, it leaves no trace.
pub struct Upload {
    store: Arc<Lease>,
    pub(crate) hash: KeyHash,
    pub(crate) flags: u32,
    part: Part,
    value_len: usize,
    filled: usize,
    /// Of an upload that waits for its peer.
    credit: Option<Credit>,
    memory: UploadMemory,
}

/// Where an upload's bytes lie.
#[derive(Debug)]
enum UploadMemory {
    /// Behind the key.
    Whole(Allocation),
    /// In pieces, of which those at the front are full; the key is kept until the item is made.
    Pieces {
        key: Box<[u8]>,
        pieces: Vec<Allocation>,
        /// Bytes that all pieces but the last hold.
        before_last: usize,
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
        asked: &Reserve,
        now_s: u32,
    ) -> Result<Upload, Rejected> {
        self.reserve_for(key, hash, asked, None, now_s)
    }

    /// As [`Worker::reserve`], where the client's own CAS is known already.
    pub(crate) fn reserve_for(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        asked: &Reserve,
        cas: Option<u64>,
        now_s: u32,
    ) -> Result<Upload, Rejected> {
        self.begin_write(key, hash, asked.flags, asked.value_len)?;
        let heap = &self.store.log.heap;
        let credit = if asked.whole {
            None
        } else {
            let segments = 1 + asked.value_len / heap.segment_size() as usize;
            let segment_limit = self.store.log.segment_limit();
            let credit = self.store.holds.ask(segments as u32, segment_limit);
            Some(credit.ok_or(Rejected::HoldLimit)?)
        };
        let is_timed = self.is_timed(asked.expiry);
        let outline = Outline::whole(key.len(), asked.value_len, asked.flags, cas, is_timed);
        let block_len = outline.block_len();
        self.assist_evacuation(block_len, now_s);
        let part = self.part_for(self.present(hash).as_ref(), hash);
        let memory = if block_len <= self.store.log.heap.block_max() / WHOLE_PART {
            let at_once = match asked.whole {
                true => self.take_at_once(block_len, part, asked.expiry, now_s),
                false => None,
            };
            let allocation = match at_once {
                Some(allocation) => Ok(allocation),
                None => self.take(block_len, part, asked.expiry, now_s),
            };
            match allocation {
                Ok(allocation) => UploadMemory::Whole(allocation),
                Err(rejected) => {
                    if let Some(credit) = credit {
                        self.store.holds.settle(credit);
                    }
                    return Err(rejected);
                }
            }
        } else {
            UploadMemory::Pieces {
                key: key.into(),
                pieces: Vec::new(),
                before_last: 0,
            }
        };
        let mut upload = Upload {
            store: Arc::clone(&self.lease),
            hash,
            flags: asked.flags,
            part,
            value_len: asked.value_len,
            filled: 0,
            credit,
            memory,
        };
        if let UploadMemory::Whole(allocation) = &upload.memory {
            let number = allocation.number;
            upload.block(allocation).begin(&outline, key);
            upload.hold(number);
            if let Some(credit) = &mut upload.credit {
                // It lies in one segment, which others may hold already.
                self.store.holds.settle(credit.take());
            }
        } else {
            self.extend(&mut upload, now_s)?;
        }
        Ok(upload)
    }

    /// Every write of an item begins so.
    ///
    /// # Errors
    /// No item may be so large.
    ///
    /// # Panics
    /// The hash is that of another key or of another store's worker. Evacuation finds an entry by
    /// the hash of the key in its block: one inserted under another hash would lead to memory that
    /// is used again.
    pub(crate) fn begin_write(
        &self,
        key: &[u8],
        hash: KeyHash,
        flags: u32,
        value_len: usize,
    ) -> Result<(), Rejected> {
        assert!(self.hash(key).0 == hash.0, "the hash of another key");
        self.wake();
        self.visits_before.set(self.visits());
        let is_key = (1..=KEY_MAX).contains(&key.len());
        if !is_key || !self.fits(key, flags, value_len) {
            return Err(Rejected::TooLarge);
        }
        Ok(())
    }

    /// Takes memory, without waiting for any, for an item whose bytes are at hand: a hole, if one
    /// has its length. The worker is not quiescent meanwhile: what it has seen counts.
    pub(crate) fn take_at_once(
        &self,
        len: usize,
        part: Part,
        expiry: Expiry,
        now_s: u32,
    ) -> Option<Allocation> {
        let target = self.target(part, expiry, now_s);
        let holes = self.take_hole(len, &target);
        holes.or_else(|| self.store.log.take(len, &target))
    }

    /// Copies from the front of `bytes` what an upload misses; returns how much that was. Memory is
    /// taken as it is needed.
    ///
    /// # Errors
    /// There is no more memory, or not yet ([`Rejected::Deferred`]): what fitted has been taken.
    ///
    /// # Panics
    /// The upload is another store's.
    pub fn fill(
        &mut self,
        upload: &mut Upload,
        bytes: &[u8],
        now_s: u32,
    ) -> Result<usize, Rejected> {
        self.wake();
        self.check_owner(upload);
        let mut done = 0;
        while done < bytes.len() && upload.missing() > 0 {
            let mut room = upload.unfilled();
            if room.is_empty() {
                self.extend(upload, now_s)?;
                room = upload.unfilled();
            }
            let len = room.len().min(bytes.len() - done);
            room[..len].copy_from_slice(&bytes[done..done + len]);
            upload.filled += len;
            done += len;
        }
        Ok(done)
    }

    /// An upload lies in its own store's memory: no other store may use its locations.
    pub(crate) fn check_owner(&self, upload: &Upload) {
        assert!(
            Arc::ptr_eq(upload.store.store(), &self.store),
            "an upload of another store"
        );
    }

    /// Takes memory for the next piece of an upload whose pieces are full.
    fn extend(&mut self, upload: &mut Upload, now_s: u32) -> Result<(), Rejected> {
        let missing = upload.missing();
        let UploadMemory::Pieces {
            pieces,
            before_last,
            ..
        } = &mut upload.memory
        else {
            return Ok(());
        };
        let block_max = self.store.log.heap.block_max();
        let most = missing.min(PIECE_MAX).min(block_max - PIECE_HEADER_LEN);
        let least = most.min(block_max / PIECE_MIN_PART);
        let number = pieces.len();
        if number >= PIECES_MAX {
            return Err(Rejected::TooLarge);
        }
        self.assist_evacuation(most, now_s);
        let target = self.target(upload.part, Expiry::NEVER, now_s);
        let (allocation, block_len) = loop {
            let lens = (piece_block_len(least), piece_block_len(most));
            if let Some(allocation) = self.store.log.take_some(lens.0, lens.1, &target) {
                break allocation;
            }
            self.wait_for_segment(now_s)?;
        };
        *before_last = upload.filled;
        let segment = allocation.number;
        pieces.push(allocation);
        if let Some(allocation) = upload.last() {
            let len = most.min(block_len - PIECE_HEADER_LEN);
            let piece = upload.block(allocation);
            piece.begin_piece(upload.hash.0, number, len);
        }
        upload.hold(segment);
        Ok(())
    }

    /// Takes memory for a block; waits for it if it can be had.
    pub(crate) fn take(
        &mut self,
        len: usize,
        part: Part,
        expiry: Expiry,
        now_s: u32,
    ) -> Result<Allocation, Rejected> {
        let target = self.target(part, expiry, now_s);
        loop {
            if let Some(allocation) = self.store.log.take(len, &target) {
                return Ok(allocation);
            }
            self.wait_for_segment(now_s)?;
        }
    }
}

impl Upload {
    /// The key it is for.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match &self.memory {
            UploadMemory::Whole(allocation) => self.block(allocation).key(),
            UploadMemory::Pieces { key, .. } => key,
        }
    }

    /// The key's hash.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Length of the whole value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Bytes still to come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_len - self.filled
    }

    /// Memory to be filled next. Empty when nothing is missing, or when [`Worker::fill`] must take
    /// more first.
    pub fn unfilled(&mut self) -> &mut [u8] {
        let Some(last) = self.last() else {
            return &mut [];
        };
        let block = self.block(last);
        let (bytes, from) = match &self.memory {
            // SAFETY: the block was taken for this upload, which the index does not know, and is
            // lent out for as long as the upload is borrowed.
            UploadMemory::Whole(_) => (unsafe { block.value_mut() }, 0),
            UploadMemory::Pieces { before_last, .. } => {
                // SAFETY: as above.
                (unsafe { block.piece_mut() }, *before_last)
            }
        };
        &mut bytes[self.filled - from..]
    }

    /// Says that the first `len` bytes of [`Upload::unfilled`] are filled.
    pub fn advance(&mut self, len: usize) {
        let room = self.unfilled().len();
        self.filled += len.min(room);
    }

    /// The filled value's pieces, in order.
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

    /// A block that was taken for this upload.
    fn block(&self, allocation: &Allocation) -> Block<'_> {
        // SAFETY: its segment is held for a writer until the upload is dropped.
        unsafe { self.store.log.heap.block(allocation.location) }
    }

    /// The block that is filled, or was filled last.
    fn last(&self) -> Option<&Allocation> {
        match &self.memory {
            UploadMemory::Whole(allocation) => Some(allocation),
            UploadMemory::Pieces { pieces, .. } => pieces.last(),
        }
    }

    /// The block of the item, if it has been made.
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

    /// The pieces, if the value lies in pieces.
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

    /// A segment of an upload that waits is held for its peer.
    fn hold(&mut self, number: Number) {
        if let Some(credit) = &mut self.credit {
            let segment = self.store.log.heap.segment(number);
            self.store.holds.hold(segment, credit);
        }
    }
}

impl Drop for Upload {
    /// The bytes of what was published live on; of what was not, they are dead.
    fn drop(&mut self) {
        match &self.memory {
            UploadMemory::Whole(allocation) => self.release(allocation),
            UploadMemory::Pieces { pieces, .. } => pieces
                .iter()
                .for_each(|allocation| self.release(allocation)),
        }
        if let Some(credit) = self.credit.take() {
            self.store.holds.settle(credit);
        }
    }
}
