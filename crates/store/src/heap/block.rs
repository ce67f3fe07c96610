//! A block: an item, or a piece of a large item's value. The log (`log.rs`) appends blocks to
//! segments. This file encodes and decodes the memory of a block.
//!
//! ```text
//! item    word 0   last_access:27 · dead:1 · base64_key:1 · fetched:1 ·  rewritten by reads
//!                  stale:1 · claimed:1                          (bits)
//!         word 1   CAS, low 32 bits; or the number of pieces            ┐
//!         word 2   CAS high:8 · key_len:8 · short_len:13 ·              │ immutable
//!                  has_expiry_word:1 · layout:2                 (bits)  ┘ once published
//!         [expiry, seconds]            if has_expiry_word                rewritten by touch
//!         [client flags]               layouts Flags, Wide, Pieces      ┐
//!         [value length, CAS 64 bits]  layouts Wide, Pieces             │ immutable
//!         key                                                           │ once published
//!         value, or the locations of its pieces, aligned to 8 bytes     ┘ (locations may change)
//! piece   words 0, 1  hash of the item's key
//!         word 2      key_len 0, layout Pieces
//!         word 3      piece_number:15 · piece_len:17            (bits)
//!         bytes
//! ```
//!
//! A word has 4 bytes, and the length of a block is a multiple of 4. In the diagram, `name:n` is a
//! field of n bits, and fields in square brackets exist only in some blocks.
//!
//! - The layouts Plain and Flags store the length of the value in the field `short_len`, and a CAS
//!   of 40 bits in words 1 and 2.
//! - The layouts Wide and Pieces have separate words for the length of the value and for a CAS of
//!   64 bits. So word 1 is free, and a block with layout Pieces stores the number of pieces there.
//! - Word 2 of a block is never 0. After the last block of a segment, a word 2 of 0 is the end
//!   marker.
//! - The item of a block without an expiry word never expires. A touch is a request that changes
//!   only the expiry. If a touch gives such an item an expiry, the item is first moved to a block
//!   with an expiry word (`operations/read.rs`). Wide and Pieces blocks always have an expiry word,
//!   because such blocks are large: a move is expensive, and four more bytes do not matter.

mod access;
mod header;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use access::Access;
use access::AccessWord;
pub(crate) use header::HeaderFields;
use header::{EXPIRY_LEN, HeaderWord, Layout};

use super::location::Location;
use crate::expiry::Expiry;

/// Size in bytes of the three words with which every block begins.
pub(crate) const HEADER_LEN: usize = 12;
/// Offset of the content in the block of a piece, in bytes.
pub(crate) const PIECE_HEADER_LEN: usize = 16;
/// Maximum length of the content of a piece, in bytes. It bounds the number of bytes that an
/// evacuation step copies, and fits into the field `piece_len` of 17 bits.
pub(crate) const PIECE_MAX: usize = 124 * 1024;
/// Maximum number of pieces of a value. A piece number fits into the field `piece_number` of 15
/// bits.
pub(crate) const PIECES_MAX: usize = (1 << 14) - 1;

// The numbers of the extra words of a header, counted from 0. The extra words follow the first
// three words and the expiry word. The layout determines which extra words a block has.
/// The number of the word with the client flags.
const FLAGS: usize = 0;
/// The number of the word with the length of the value.
const VALUE_LEN: usize = 1;
/// The number of the word with the low half of the CAS.
const CAS_LOW: usize = 2;
/// The number of the word with the high half of the CAS.
const CAS_HIGH: usize = 3;

/// Returns the length of the block of a piece with `len` bytes of content.
pub(crate) fn piece_block_len(len: usize) -> usize {
    (PIECE_HEADER_LEN + len).next_multiple_of(4)
}

/// A reference to a block in the log. The memory contains this block during `'h`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'h> {
    start: NonNull<u8>,
    heap: PhantomData<&'h AtomicU32>,
}

impl<'h> Block<'h> {
    /// Creates a reference to the block at an address.
    ///
    /// # Safety
    /// `start` is aligned to 4. During `'h`, `start` is the address of a published block, of an end
    /// marker, or of memory for a new block. The caller has exclusive access to memory for a new
    /// block, and this memory is at least as long as the block.
    pub(super) unsafe fn from_raw(start: NonNull<u8>) -> Self {
        Self {
            start,
            heap: PhantomData,
        }
    }

    /// Returns the address of the block, for prefetching.
    #[inline]
    pub(super) fn address(self) -> *const u8 {
        self.start.as_ptr().cast_const()
    }

    /// Returns the address of byte `at` of the block.
    #[inline]
    fn byte(self, at: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(at)
    }

    /// Returns word `number` of the block, counted from 0.
    #[inline]
    fn word(self, number: usize) -> &'h AtomicU32 {
        let word = self.byte(4 * number).cast::<AtomicU32>();
        // SAFETY: a block is aligned to 4 and has at least three words. Callers access a further
        // word only if word 2 says that the block has it. Words before the key are accessed only
        // as atomics. By the contract of `from_raw`, the memory is valid during `'h`.
        unsafe { &*word }
    }

    #[inline]
    fn load(self, number: usize) -> u32 {
        self.word(number).load(Ordering::Relaxed)
    }

    #[inline]
    fn header(self) -> HeaderWord {
        HeaderWord::from_word(self.load(2))
    }

    #[inline]
    fn layout(self) -> Layout {
        self.header().layout()
    }

    /// Returns the position of an extra word among all words of the block, counted from 0. `number`
    /// is [`FLAGS`], [`VALUE_LEN`], [`CAS_LOW`] or [`CAS_HIGH`].
    #[inline]
    fn extra_word(self, number: usize) -> usize {
        3 + usize::from(self.header().has_expiry_word()) + number
    }

    /// Returns true if the layout of the block can store this CAS and this expiry.
    #[inline]
    pub(crate) fn can_hold(self, cas: u64, expiry: Expiry) -> bool {
        let header = self.header();
        header.can_hold_cas(cas) && header.can_hold_expiry(expiry)
    }

    /// Returns true if the layout of the block can store this expiry.
    #[inline]
    pub(crate) fn can_hold_expiry(self, expiry: Expiry) -> bool {
        self.header().can_hold_expiry(expiry)
    }

    /// Returns the immutable header fields, except the CAS.
    pub(crate) fn header_fields(self) -> HeaderFields {
        let header = self.header();
        HeaderFields {
            layout: header.layout(),
            key_len: header.key_len(),
            value_len: self.value_len(),
            flags: self.flags(),
            pieces: match header.layout() {
                Layout::Pieces => self.count_pieces(),
                Layout::Plain | Layout::Flags | Layout::Wide => 0,
            },
            has_expiry_word: header.has_expiry_word(),
        }
    }

    #[inline]
    pub(crate) fn key(self) -> &'h [u8] {
        let header = self.header();
        // SAFETY: the key of a published block does not change. By the contract of `from_raw`, the
        // memory is valid during `'h`.
        unsafe { slice::from_raw_parts(self.byte(header.key_start()), header.key_len()) }
    }

    #[inline]
    pub(crate) fn value_len(self) -> usize {
        let header = self.header();
        match header.is_short() {
            true => header.short_len(),
            false => self.load(self.extra_word(VALUE_LEN)) as usize,
        }
    }

    #[inline]
    pub(crate) fn flags(self) -> u32 {
        match self.layout() {
            Layout::Plain => 0,
            Layout::Flags | Layout::Wide | Layout::Pieces => self.load(self.extra_word(FLAGS)),
        }
    }

    #[inline]
    pub(crate) fn cas(self) -> u64 {
        let header = self.header();
        let (high, low) = match header.is_short() {
            true => (header.cas_high(), self.load(1)),
            false => (
                self.load(self.extra_word(CAS_HIGH)),
                self.load(self.extra_word(CAS_LOW)),
            ),
        };
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    pub(crate) fn expiry(self) -> Expiry {
        match self.header().has_expiry_word() {
            true => Expiry::from_word(self.load(3)),
            false => Expiry::NEVER,
        }
    }

    /// Sets the expiry. The block must be able to [hold](Self::can_hold_expiry) it.
    pub(crate) fn set_expiry(self, expiry: Expiry) {
        debug_assert!(self.can_hold_expiry(expiry));
        if self.header().has_expiry_word() {
            self.word(3).store(expiry.word(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn access_word(self) -> AccessWord<'h> {
        AccessWord(self.word(0))
    }

    #[inline]
    pub(crate) fn access(self) -> Access {
        self.access_word().access()
    }

    pub(crate) fn set_access(self, access: Access) {
        self.access_word().set(access);
    }

    /// Records an access to the item: changes the access word from `before`, which the caller has
    /// loaded, to `after`. If several threads record an access concurrently, the last store
    /// determines the time of the last access.
    #[inline]
    pub(crate) fn record_access(self, before: Access, after: Access) {
        let has_expiry_word = || self.header().has_expiry_word();
        self.access_word()
            .record_access(before, after, has_expiry_word);
    }

    /// Returns true if the value is stored in pieces.
    #[inline]
    pub(crate) fn is_in_pieces(self) -> bool {
        self.layout() == Layout::Pieces
    }

    /// Returns the value, which must be stored in this block, not in pieces.
    #[inline]
    pub(crate) fn value(self) -> &'h [u8] {
        let from = self.header().value_start();
        // SAFETY: the value of a published block does not change. By the contract of `from_raw`,
        // the memory is valid during `'h`.
        unsafe { slice::from_raw_parts(self.byte(from), self.value_len()) }
    }

    /// Returns the locations of the pieces in order. The value must be stored in pieces.
    pub(crate) fn pieces(self) -> &'h [AtomicU64] {
        debug_assert!(self.is_in_pieces());
        let list = self.byte(self.header().value_start());
        let list = list.wrapping_add(list.align_offset(8)).cast::<AtomicU64>();
        // SAFETY: the list is in the block, whose length includes 4 bytes for the alignment.
        // `align_offset` has aligned the list to 8. It is accessed only as atomics.
        unsafe { slice::from_raw_parts(list, self.count_pieces()) }
    }

    /// Returns the number of pieces of a value that is stored in pieces.
    fn count_pieces(self) -> usize {
        self.load(1) as usize
    }

    /// Sets the dead mark of an item that has been unlinked, so that evacuation skips the block
    /// without a lookup in the index. Some blocks are dead without the mark: pieces of an unlinked
    /// item, blocks of which evacuation has made a copy, and blocks whose mark a concurrent reader
    /// has overwritten.
    pub(crate) fn mark_dead(self) {
        self.access_word().mark_dead();
    }

    /// Returns true if the block is an item with the dead mark ([`mark_dead`](Self::mark_dead)).
    pub(crate) fn is_marked_dead(self) -> bool {
        !self.is_piece() && self.access_word().is_marked_dead()
    }

    /// Writes the header and the key of an item that is not published yet. The access word gets the
    /// dead mark, because the index does not refer to the block yet.
    pub(crate) fn write_header_and_key(self, fields: &HeaderFields, key: &[u8]) {
        debug_assert!(fields.pieces <= PIECES_MAX && key.len() == fields.key_len);
        let header = HeaderWord::new(fields);
        self.set_access(Access::DEAD);
        self.word(1).store(fields.pieces as u32, Ordering::Relaxed);
        self.word(2).store(header.word(), Ordering::Relaxed);
        self.set_expiry(Expiry::NEVER);
        if fields.layout != Layout::Plain {
            let flags = self.word(self.extra_word(FLAGS));
            flags.store(fields.flags, Ordering::Relaxed);
        }
        if matches!(fields.layout, Layout::Wide | Layout::Pieces) {
            let value_len = self.word(self.extra_word(VALUE_LEN));
            value_len.store(fields.value_len as u32, Ordering::Relaxed);
        }
        let to = self.byte(header.key_start());
        // SAFETY: the block has space for its key, and the caller has exclusive access to the
        // block, because it is not published.
        unsafe { to.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
    }

    /// Sets the CAS of an item that is not published yet. The block must be able to
    /// [hold](Self::can_hold) it.
    pub(crate) fn set_cas(self, cas: u64) {
        let (low, high) = (cas as u32, (cas >> 32) as u32);
        let header = self.header();
        if header.is_short() {
            let header = header.with_cas_high(high);
            self.word(1).store(low, Ordering::Relaxed);
            self.word(2).store(header.word(), Ordering::Relaxed);
        } else {
            self.word(self.extra_word(CAS_LOW))
                .store(low, Ordering::Relaxed);
            self.word(self.extra_word(CAS_HIGH))
                .store(high, Ordering::Relaxed);
        }
    }

    /// Returns the bytes of the value for writing. The value must be stored in this block.
    ///
    /// # Safety
    /// The caller has exclusive access to the block.
    pub(crate) unsafe fn value_mut(self) -> &'h mut [u8] {
        let from = self.header().value_start();
        // SAFETY: the value is in the block, to which the caller has exclusive access.
        unsafe { slice::from_raw_parts_mut(self.byte(from), self.value_len()) }
    }

    /// Writes the header of a piece. `hash` is the hash of the item's key, `number` the position of
    /// the piece in the value, and `len` the length of its content in bytes.
    pub(crate) fn write_piece_header(self, hash: u64, number: usize, len: usize) {
        debug_assert!(len <= PIECE_MAX && number <= PIECES_MAX);
        self.word(0).store(hash as u32, Ordering::Relaxed);
        self.word(1).store((hash >> 32) as u32, Ordering::Relaxed);
        self.word(2)
            .store(HeaderWord::PIECE.word(), Ordering::Relaxed);
        let number_and_len = (number as u32) << 17 | len as u32;
        self.word(3).store(number_and_len, Ordering::Relaxed);
    }

    /// Returns true if the block is a piece. An item has a key of at least one byte; a piece has
    /// none.
    pub(crate) fn is_piece(self) -> bool {
        self.header().key_len() == 0
    }

    /// Returns the hash of the key of the item to which a piece belongs.
    pub(crate) fn piece_hash(self) -> u64 {
        u64::from(self.load(1)) << 32 | u64::from(self.load(0))
    }

    /// Returns the position of a piece in the list of its item's pieces.
    pub(crate) fn piece_number(self) -> usize {
        (self.load(3) >> 17) as usize
    }

    /// Returns the length of the content of a piece.
    fn piece_len(self) -> usize {
        (self.load(3) & 0x1_ffff) as usize
    }

    /// Returns the content of a piece.
    #[inline]
    pub(crate) fn piece(self) -> &'h [u8] {
        // SAFETY: the content of a published piece does not change. By the contract of `from_raw`,
        // the memory is valid during `'h`.
        unsafe { slice::from_raw_parts(self.byte(PIECE_HEADER_LEN), self.piece_len()) }
    }

    /// Returns the content of a piece for writing.
    ///
    /// # Safety
    /// The caller has exclusive access to the block.
    pub(crate) unsafe fn piece_mut(self) -> &'h mut [u8] {
        // SAFETY: the content is in the block, to which the caller has exclusive access.
        unsafe { slice::from_raw_parts_mut(self.byte(PIECE_HEADER_LEN), self.piece_len()) }
    }

    /// Returns true if this is the end marker of a segment instead of a block.
    pub(super) fn is_end_marker(self) -> bool {
        self.header() == HeaderWord::END
    }

    /// Writes the end marker of a segment at the address of this block.
    pub(super) fn write_end_marker(self) {
        self.word(2)
            .store(HeaderWord::END.word(), Ordering::Relaxed);
    }

    /// Returns the length of the block in bytes.
    #[inline]
    pub(crate) fn len(self) -> usize {
        let header = self.header();
        match header.is_short() {
            true => header.short_block_len(),
            false => self.long_len(),
        }
    }

    /// Returns the length of all blocks of an item in bytes: of this block, and of those of its
    /// pieces, if any.
    pub(crate) fn len_with_pieces(self) -> usize {
        let pieces_len = match self.is_in_pieces() {
            // Every piece except the last is full, and the length of a full piece is a multiple of
            // 4. So only the block of the last piece is padded.
            true => (PIECE_HEADER_LEN * self.count_pieces() + self.value_len()).next_multiple_of(4),
            false => 0,
        };
        self.len() + pieces_len
    }

    /// Returns the length of a block with layout Wide or Pieces, or of a piece.
    fn long_len(self) -> usize {
        match self.is_piece() {
            true => piece_block_len(self.piece_len()),
            false => self.header_fields().block_len(),
        }
    }

    /// Copies `other` into the memory of this block. The caller has exclusive access to this block.
    /// Other threads may read `other` concurrently, and change its expiry, access word and pieces.
    pub(crate) fn copy_from(self, other: Block<'_>) {
        if !other.is_piece() && other.is_in_pieces() {
            self.write_header_and_key(&other.header_fields(), other.key());
            self.set_cas(other.cas());
            // The two lists may have different offsets, because each is aligned to 8 while a block
            // is aligned to 4. So the entries are copied one by one.
            for (to, from) in self.pieces().iter().zip(other.pieces()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.set_expiry(other.expiry());
            self.set_access(other.access());
        } else {
            let len = other.len();
            // Other threads may change the access word and the expiry concurrently. So the words up
            // to the expiry are copied as atomics, and only the bytes after them as plain memory.
            let words_len = match other.header().has_expiry_word() || other.is_piece() {
                true => HEADER_LEN + EXPIRY_LEN,
                false => HEADER_LEN,
            };
            for number in 0..words_len / 4 {
                self.word(number)
                    .store(other.load(number), Ordering::Relaxed);
            }
            let (from, to) = (other.byte(words_len), self.byte(words_len));
            // SAFETY: both blocks have `len` bytes. No byte of the source after `words_len`
            // changes. The caller has exclusive access to the destination.
            unsafe { to.copy_from_nonoverlapping(from, len - words_len) };
        }
    }
}

/// Returns the present locations of the pieces of a value, in order. `block` is the head block of
/// the item, the block with its key.
pub(crate) fn pieces_of(block: Block<'_>) -> impl Iterator<Item = Location> {
    // Acquire: pairs with the release in `Worker::relink`. Evacuation copies a piece and then
    // stores the location of the copy with release. So a reader of that location sees all bytes of
    // the copy.
    let locations = block.pieces().iter().map(|it| it.load(Ordering::Acquire));
    locations.filter_map(Location::new)
}

#[cfg(test)]
mod tests;
