//! A block of the log: an item, or a piece of a large item's value.
//!
//! ```text
//! item    word 0   last access 27 bits · dead · base64 key · fetched ·   rewritten by reads
//!                  stale · claimed
//!         word 1   CAS, low 32 bits; or the number of pieces            ┐
//!         word 2   CAS 8 bits · key length 8 · short length 13 ·        │ immutable
//!                  timed · form 2                                       ┘ once published
//!         [expiry, seconds]            if timed                          rewritten by touch
//!         [flags]                      forms Flags, Wide, Pieces        ┐
//!         [value length, CAS 64 bits]  forms Wide, Pieces               │ immutable
//!         key                                                           │ once published
//!         value, or the locations of its pieces, aligned to 8           ┘ (locations may change)
//! piece   words 0, 1  hash of the item's key
//!         word 2      key length 0, form Pieces
//!         word 3      number of the piece 15 bits · its length 17 bits
//!         bytes
//! ```
//!
//! A word has 4 bytes, and the length of a block is a multiple of 4. The forms Plain and Flags
//! store the length of the value in the field *short length*. The forms Wide and Pieces do not use
//! that field: they have separate words for the length and the CAS, so that word 1 is free for the
//! number of pieces. Word 2 of a block is never 0; a 0 there marks the end of a segment. A *timed*
//! block has a word for an expiry. A block that is not timed never expires: to get an expiry, its
//! item is moved to another block (`read.rs`). `Wide` and `Pieces` blocks are always timed, because
//! they are expensive to move and large enough that four more bytes do not matter.

mod access;
mod shape;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use access::Access;
use access::AccessWord;
pub(crate) use shape::Outline;
use shape::{EXPIRY_LEN, Form, Shape};

use crate::item::Expiry;

/// Size of the three header words.
pub(crate) const HEADER_LEN: usize = 12;
/// Bytes before the content of a piece.
pub(crate) const PIECE_HEADER_LEN: usize = 16;
/// The longest piece in bytes. It bounds the bytes that an evacuation step copies. The field for
/// the length has 17 bits.
pub(crate) const PIECE_MAX: usize = 124 * 1024;
/// Maximum number of pieces of a value. The field for the number of a piece has 15 bits.
pub(crate) const PIECES_MAX: usize = (1 << 14) - 1;

/// Length of the block of a piece with `len` bytes of content.
pub(crate) fn piece_block_len(len: usize) -> usize {
    (PIECE_HEADER_LEN + len).next_multiple_of(4)
}

/// A block in the log, valid during its lifetime parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'h> {
    start: NonNull<u8>,
    heap: PhantomData<&'h AtomicU32>,
}

impl<'h> Block<'h> {
    /// # Safety
    /// `start` is aligned to 4. It is the address of a block, or of [`Outline::block_len`] bytes of
    /// memory for a new block to which the caller has exclusive access. This holds during `'h`.
    pub(super) unsafe fn at(start: NonNull<u8>) -> Self {
        Self {
            start,
            heap: PhantomData,
        }
    }

    /// The address of the block, for prefetching.
    #[inline]
    pub(super) fn address(self) -> *const u8 {
        self.start.as_ptr().cast_const()
    }

    /// The address of byte `at` of the block.
    #[inline]
    fn byte(self, at: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(at)
    }

    #[inline]
    fn word(self, number: usize) -> &'h AtomicU32 {
        let word = self.byte(4 * number).cast::<AtomicU32>();
        // SAFETY: a block is aligned to 4 and has at least three words; word 2 says which further
        // words it has. Words before the key are accessed only as atomics. The contract of `at`
        // covers the lifetime.
        unsafe { &*word }
    }

    #[inline]
    fn load(self, number: usize) -> u32 {
        self.word(number).load(Ordering::Relaxed)
    }

    #[inline]
    fn shape(self) -> Shape {
        Shape::of_word(self.load(2))
    }

    #[inline]
    fn form(self) -> Form {
        self.shape().form()
    }

    /// The index of a word among all words of the block. `number` counts from the word after the
    /// expiry.
    #[inline]
    fn further(self, number: usize) -> usize {
        3 + usize::from(self.shape().is_timed()) + number
    }

    /// Whether the block can hold this CAS and this expiry.
    #[inline]
    pub(crate) fn can_hold(self, cas: u64, expiry: Expiry) -> bool {
        let shape = self.shape();
        shape.can_hold_cas(cas) && shape.can_hold_expiry(expiry)
    }

    /// Whether the block can hold this expiry.
    #[inline]
    pub(crate) fn can_hold_expiry(self, expiry: Expiry) -> bool {
        self.shape().can_hold_expiry(expiry)
    }

    /// The immutable part of the header.
    pub(crate) fn outline(self) -> Outline {
        let shape = self.shape();
        Outline {
            form: shape.form(),
            key_len: shape.key_len(),
            value_len: self.value_len(),
            flags: self.flags(),
            pieces: match shape.form() {
                Form::Pieces => self.count_pieces(),
                Form::Plain | Form::Flags | Form::Wide => 0,
            },
            is_timed: shape.is_timed(),
        }
    }

    #[inline]
    pub(crate) fn key(self) -> &'h [u8] {
        let shape = self.shape();
        // SAFETY: the key of a published block does not change, and `at` covers the lifetime.
        unsafe { slice::from_raw_parts(self.byte(shape.key_start()), shape.key_len()) }
    }

    #[inline]
    pub(crate) fn value_len(self) -> usize {
        let shape = self.shape();
        match shape.is_short() {
            true => shape.short_len(),
            false => self.load(self.further(1)) as usize,
        }
    }

    #[inline]
    pub(crate) fn flags(self) -> u32 {
        match self.form() {
            Form::Plain => 0,
            Form::Flags | Form::Wide | Form::Pieces => self.load(self.further(0)),
        }
    }

    #[inline]
    pub(crate) fn cas(self) -> u64 {
        let shape = self.shape();
        let (high, low) = match shape.is_short() {
            true => (shape.cas_high(), self.load(1)),
            false => (self.load(self.further(3)), self.load(self.further(2))),
        };
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    pub(crate) fn expiry(self) -> Expiry {
        match self.shape().is_timed() {
            true => Expiry::of_word(self.load(3)),
            false => Expiry::NEVER,
        }
    }

    /// Sets an expiry that the block can [hold](Self::can_hold_expiry).
    pub(crate) fn set_expiry(self, expiry: Expiry) {
        debug_assert!(self.can_hold_expiry(expiry));
        if self.shape().is_timed() {
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

    /// Records a read. If several readers do so concurrently, the last write determines the
    /// recorded time.
    #[inline]
    pub(crate) fn record_access(self, before: Access, after: Access) {
        let is_timed = || self.shape().is_timed();
        self.access_word().record_access(before, after, is_timed);
    }

    /// Whether the value is stored in pieces.
    #[inline]
    pub(crate) fn is_in_pieces(self) -> bool {
        self.form() == Form::Pieces
    }

    /// The value, if it is stored with the key.
    #[inline]
    pub(crate) fn value(self) -> &'h [u8] {
        let from = self.shape().value_start();
        // SAFETY: the value of a published block does not change, and `at` covers the lifetime.
        unsafe { slice::from_raw_parts(self.byte(from), self.value_len()) }
    }

    /// The locations of the pieces of a value that is stored in pieces.
    pub(crate) fn pieces(self) -> &'h [AtomicU64] {
        debug_assert!(self.is_in_pieces());
        let list = self.byte(self.shape().value_start());
        let list = list.wrapping_add(list.align_offset(8)).cast::<AtomicU64>();
        // SAFETY: the list lies in the block, `align_offset` has aligned it to 8, and it is
        // accessed only as atomics.
        unsafe { slice::from_raw_parts(list, self.count_pieces()) }
    }

    fn count_pieces(self) -> usize {
        self.load(1) as usize
    }

    /// Marks an item that has been unlinked, so that evacuation need not look it up. An unmarked
    /// block may be dead too: a piece, a block that has been copied, or one whose mark a reader has
    /// overwritten.
    pub(crate) fn mark_dead(self) {
        self.access_word().mark_dead();
    }

    /// Whether the block is an item with the mark of [`mark_dead`](Self::mark_dead).
    pub(crate) fn is_marked_dead(self) -> bool {
        !self.is_piece() && self.access_word().is_marked_dead()
    }

    /// Writes the header and the key of an item that is not published yet.
    pub(crate) fn begin(self, outline: &Outline, key: &[u8]) {
        debug_assert!(outline.pieces <= PIECES_MAX && key.len() == outline.key_len);
        let shape = Shape::of(outline);
        self.set_access(Access::DEAD);
        self.word(1).store(outline.pieces as u32, Ordering::Relaxed);
        self.word(2).store(shape.word(), Ordering::Relaxed);
        self.set_expiry(Expiry::NEVER);
        if outline.form != Form::Plain {
            let flags = self.word(self.further(0));
            flags.store(outline.flags, Ordering::Relaxed);
        }
        if matches!(outline.form, Form::Wide | Form::Pieces) {
            let value_len = self.word(self.further(1));
            value_len.store(outline.value_len as u32, Ordering::Relaxed);
        }
        let to = self.byte(shape.key_start());
        // SAFETY: the block has space for its key, and the caller has exclusive access.
        unsafe { to.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
    }

    /// Sets the CAS of an item that is not published yet. The block must be able to
    /// [hold](Self::can_hold) it.
    pub(crate) fn set_cas(self, cas: u64) {
        let (low, high) = (cas as u32, (cas >> 32) as u32);
        let shape = self.shape();
        if shape.is_short() {
            let shape = shape.with_cas_high(high);
            self.word(1).store(low, Ordering::Relaxed);
            self.word(2).store(shape.word(), Ordering::Relaxed);
        } else {
            self.word(self.further(2)).store(low, Ordering::Relaxed);
            self.word(self.further(3)).store(high, Ordering::Relaxed);
        }
    }

    /// The value stored with the key, to be filled.
    ///
    /// # Safety
    /// The caller has exclusive access to the block.
    pub(crate) unsafe fn value_mut(self) -> &'h mut [u8] {
        let from = self.shape().value_start();
        // SAFETY: the value lies in the block, to which the caller has exclusive access.
        unsafe { slice::from_raw_parts_mut(self.byte(from), self.value_len()) }
    }

    /// Writes the header of a piece.
    pub(crate) fn begin_piece(self, hash: u64, number: usize, len: usize) {
        debug_assert!(len <= PIECE_MAX && number <= PIECES_MAX);
        self.word(0).store(hash as u32, Ordering::Relaxed);
        self.word(1).store((hash >> 32) as u32, Ordering::Relaxed);
        self.word(2).store(Shape::PIECE.word(), Ordering::Relaxed);
        let position = (number as u32) << 17 | len as u32;
        self.word(3).store(position, Ordering::Relaxed);
    }

    pub(crate) fn is_piece(self) -> bool {
        self.shape().key_len() == 0
    }

    /// The hash of the key of the item to which a piece belongs.
    pub(crate) fn piece_hash(self) -> u64 {
        u64::from(self.load(1)) << 32 | u64::from(self.load(0))
    }

    pub(crate) fn piece_number(self) -> usize {
        (self.load(3) >> 17) as usize
    }

    fn piece_len(self) -> usize {
        (self.load(3) & 0x1_ffff) as usize
    }

    /// The bytes of a piece.
    #[inline]
    pub(crate) fn piece(self) -> &'h [u8] {
        // SAFETY: the bytes of a published piece do not change, and `at` covers the lifetime.
        unsafe { slice::from_raw_parts(self.byte(PIECE_HEADER_LEN), self.piece_len()) }
    }

    /// The bytes of a piece, to be filled.
    ///
    /// # Safety
    /// The caller has exclusive access to the block.
    pub(crate) unsafe fn piece_mut(self) -> &'h mut [u8] {
        // SAFETY: the bytes lie in the block, to which the caller has exclusive access.
        unsafe { slice::from_raw_parts_mut(self.byte(PIECE_HEADER_LEN), self.piece_len()) }
    }

    /// Whether this is not a block but the mark at the end of a segment.
    pub(super) fn is_end(self) -> bool {
        self.shape() == Shape::END
    }

    /// Writes the mark at the end of a segment.
    pub(super) fn make_end(self) {
        self.word(2).store(Shape::END.word(), Ordering::Relaxed);
    }

    /// Length of the block in bytes.
    #[inline]
    pub(crate) fn len(self) -> usize {
        let shape = self.shape();
        match shape.is_short() {
            true => shape.short_block_len(),
            false => self.long_len(),
        }
    }

    fn long_len(self) -> usize {
        match self.is_piece() {
            true => piece_block_len(self.piece_len()),
            false => self.outline().block_len(),
        }
    }

    /// Copies `other` into this block. Other threads may read `other` meanwhile; the caller has
    /// exclusive access to this block.
    pub(crate) fn copy_from(self, other: Block<'_>) {
        if !other.is_piece() && other.is_in_pieces() {
            self.begin(&other.outline(), other.key());
            self.set_cas(other.cas());
            // The piece lists of the two blocks may be aligned differently.
            for (to, from) in self.pieces().iter().zip(other.pieces()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.set_expiry(other.expiry());
            self.set_access(other.access());
        } else {
            let len = other.len();
            // The expiry and the access word may change concurrently, so these words are copied as
            // atomics.
            let words_len = match other.shape().is_timed() || other.is_piece() {
                true => HEADER_LEN + EXPIRY_LEN,
                false => HEADER_LEN,
            };
            for number in 0..words_len / 4 {
                self.word(number)
                    .store(other.load(number), Ordering::Relaxed);
            }
            let (from, to) = (other.byte(words_len), self.byte(words_len));
            // SAFETY: both blocks have `len` bytes; no byte of the source after `words_len`
            // changes, and the caller has exclusive access to the destination.
            unsafe { to.copy_from_nonoverlapping(from, len - words_len) };
        }
    }
}

#[cfg(test)]
mod tests;
