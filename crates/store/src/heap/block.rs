//! A block of the log: an item, or a piece of a large item's value.
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
//! A word has 4 bytes, and the length of a block is a multiple of 4. The layouts Plain and Flags
//! store the length of the value in the field `short_len`. The layouts Wide and Pieces do not use
//! that field: they have separate words for the length and the CAS, so that word 1 is free for the
//! number of pieces. Word 2 of a block is never 0; a 0 there marks the end of a segment. A block
//! without an expiry word never expires: to get an expiry, its item is moved to another block
//! (`read.rs`). `Wide` and `Pieces` blocks always have the word, because they are expensive to move
//! and large enough that four more bytes do not matter.

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

// The extra words of a header, numbered from the word after the expiry. The layout says which of
// them a block has.
/// Client flags.
const FLAGS: usize = 0;
/// Length of the value.
const VALUE_LEN: usize = 1;
/// Low half of the CAS.
const CAS_LOW: usize = 2;
/// High half of the CAS.
const CAS_HIGH: usize = 3;

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
    /// `start` is aligned to 4. It is the address of a block, or of [`HeaderFields::block_len`]
    /// bytes of memory for a new block to which the caller has exclusive access. This holds during
    /// `'h`.
    pub(super) unsafe fn from_raw(start: NonNull<u8>) -> Self {
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
        // words it has. Words before the key are accessed only as atomics. The contract of
        // `from_raw` guarantees `'h`.
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

    /// The index of an extra word among all words of the block. `number` is one of [`FLAGS`],
    /// [`VALUE_LEN`], [`CAS_LOW`] and [`CAS_HIGH`].
    #[inline]
    fn extra_word(self, number: usize) -> usize {
        3 + usize::from(self.header().has_expiry_word()) + number
    }

    /// Whether the block can hold this CAS and this expiry.
    #[inline]
    pub(crate) fn can_hold(self, cas: u64, expiry: Expiry) -> bool {
        let header = self.header();
        header.can_hold_cas(cas) && header.can_hold_expiry(expiry)
    }

    /// Whether the block can hold this expiry.
    #[inline]
    pub(crate) fn can_hold_expiry(self, expiry: Expiry) -> bool {
        self.header().can_hold_expiry(expiry)
    }

    /// The immutable part of the header.
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
        // SAFETY: the key of a published block does not change, and `from_raw` guarantees `'h`.
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

    /// Sets an expiry that the block can [hold](Self::can_hold_expiry).
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

    /// Records a read. If several readers do so concurrently, the last write determines the
    /// recorded time.
    #[inline]
    pub(crate) fn record_access(self, before: Access, after: Access) {
        let has_expiry_word = || self.header().has_expiry_word();
        self.access_word()
            .record_access(before, after, has_expiry_word);
    }

    /// Whether the value is stored in pieces.
    #[inline]
    pub(crate) fn is_in_pieces(self) -> bool {
        self.layout() == Layout::Pieces
    }

    /// The value, if it is stored with the key.
    #[inline]
    pub(crate) fn value(self) -> &'h [u8] {
        let from = self.header().value_start();
        // SAFETY: the value of a published block does not change, and `from_raw` guarantees `'h`.
        unsafe { slice::from_raw_parts(self.byte(from), self.value_len()) }
    }

    /// The locations of the pieces of a value that is stored in pieces.
    pub(crate) fn pieces(self) -> &'h [AtomicU64] {
        debug_assert!(self.is_in_pieces());
        let list = self.byte(self.header().value_start());
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
        // SAFETY: the block has space for its key, and the caller has exclusive access.
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

    /// The value stored with the key, to be filled.
    ///
    /// # Safety
    /// The caller has exclusive access to the block.
    pub(crate) unsafe fn value_mut(self) -> &'h mut [u8] {
        let from = self.header().value_start();
        // SAFETY: the value lies in the block, to which the caller has exclusive access.
        unsafe { slice::from_raw_parts_mut(self.byte(from), self.value_len()) }
    }

    /// Writes the header of a piece.
    pub(crate) fn write_piece_header(self, hash: u64, number: usize, len: usize) {
        debug_assert!(len <= PIECE_MAX && number <= PIECES_MAX);
        self.word(0).store(hash as u32, Ordering::Relaxed);
        self.word(1).store((hash >> 32) as u32, Ordering::Relaxed);
        self.word(2)
            .store(HeaderWord::PIECE.word(), Ordering::Relaxed);
        let number_and_len = (number as u32) << 17 | len as u32;
        self.word(3).store(number_and_len, Ordering::Relaxed);
    }

    pub(crate) fn is_piece(self) -> bool {
        self.header().key_len() == 0
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
        // SAFETY: the bytes of a published piece do not change, and `from_raw` guarantees `'h`.
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
    pub(super) fn is_end_marker(self) -> bool {
        self.header() == HeaderWord::END
    }

    /// Writes the mark at the end of a segment.
    pub(super) fn write_end_marker(self) {
        self.word(2)
            .store(HeaderWord::END.word(), Ordering::Relaxed);
    }

    /// Length of the block in bytes.
    #[inline]
    pub(crate) fn len(self) -> usize {
        let header = self.header();
        match header.is_short() {
            true => header.short_block_len(),
            false => self.long_len(),
        }
    }

    fn long_len(self) -> usize {
        match self.is_piece() {
            true => piece_block_len(self.piece_len()),
            false => self.header_fields().block_len(),
        }
    }

    /// Copies `other` into this block. Other threads may read `other` concurrently; the caller has
    /// exclusive access to this block.
    pub(crate) fn copy_from(self, other: Block<'_>) {
        if !other.is_piece() && other.is_in_pieces() {
            self.write_header_and_key(&other.header_fields(), other.key());
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
            let words_len = match other.header().has_expiry_word() || other.is_piece() {
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
