//! Word 2 of a block's header, which does not change once the block is published. It determines the
//! layout of the rest of the block. The diagram in `block.rs` shows all layouts.

use super::{HEADER_LEN, PIECES_MAX};
use crate::expiry::Expiry;

/// Size of the expiry word in bytes.
pub(super) const EXPIRY_LEN: usize = 4;
/// The bit of word 2 that is set if the block has an expiry word.
const EXPIRY_BIT: u32 = 1 << 2;
/// The position of the lowest bit of the field `short_len` in word 2.
const SHORT_LEN_SHIFT: u32 = 3;
/// The position of the lowest bit of the field `key_len` in word 2.
const KEY_LEN_SHIFT: u32 = 16;
/// Maximum length of a value whose length fits into the field `short_len` of word 2.
const SHORT_MAX: usize = (1 << 13) - 1;
/// The largest CAS that fits into words 1 and 2.
pub(super) const SHORT_CAS_MAX: u64 = (1 << 40) - 1;

/// The layout of an item's header. It determines the extra words, those after the first three words
/// and the expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// No extra words.
    Plain = 0,
    /// Client flags.
    Flags = 1,
    /// Client flags, the length of a long value, and a CAS of 64 bits.
    Wide = 2,
    /// The same extra words as `Wide`. The value is stored in pieces, in other blocks.
    Pieces = 3,
}

impl Layout {
    /// Returns the length of the extra words in bytes.
    const fn extra_len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Flags => 4,
            Self::Wide | Self::Pieces => 16,
        }
    }
}

/// The fields of an item's header that do not change once the item is published. The CAS
/// does not change either, but is not included, because `Block::set_cas` writes it separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderFields {
    pub(crate) layout: Layout,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    pub(crate) flags: u32,
    /// Number of pieces of the value. 0 if it is not stored in pieces.
    pub(crate) pieces: usize,
    /// Whether the block has an expiry word.
    pub(crate) has_expiry_word: bool,
}

impl HeaderFields {
    /// Returns the fields of an item whose value is stored in the same block as its key, in the
    /// shortest possible layout. `cas` is a CAS that the layout has to hold, or `None` if the store
    /// will assign one.
    #[inline]
    pub(crate) fn inline(
        key_len: usize,
        value_len: usize,
        flags: u32,
        cas: Option<u64>,
        has_expiry_word: bool,
    ) -> Self {
        let is_wide = value_len > SHORT_MAX || cas.is_some_and(|cas| cas > SHORT_CAS_MAX);
        let layout = match (is_wide, flags) {
            (true, _) => Layout::Wide,
            (false, 0) => Layout::Plain,
            (false, _) => Layout::Flags,
        };
        Self {
            layout,
            key_len,
            value_len,
            flags,
            pieces: 0,
            // A touch that gives an expiry to a block without an expiry word has to move the block.
            // Wide blocks are usually large. So they always have the word, which avoids the move.
            has_expiry_word: has_expiry_word || is_wide,
        }
    }

    /// Returns the fields of an item whose value is stored in `pieces` pieces.
    pub(crate) fn pieces(key_len: usize, value_len: usize, flags: u32, pieces: usize) -> Self {
        debug_assert!(pieces <= PIECES_MAX);
        Self {
            layout: Layout::Pieces,
            key_len,
            value_len,
            flags,
            pieces,
            has_expiry_word: true,
        }
    }

    /// Returns the same fields with an expiry word.
    pub(crate) fn with_expiry_word(self) -> Self {
        Self {
            has_expiry_word: true,
            ..self
        }
    }

    /// Returns the length of the block in bytes.
    #[inline]
    pub(crate) fn block_len(&self) -> usize {
        let body_len = match self.layout {
            // The list of pieces is aligned to 8, but the block only to 4. So it depends on the
            // address of the block whether 4 bytes of padding precede the list. The length always
            // includes these 4 bytes. So a copy of the block at another address, where the padding
            // may be needed, has the same length.
            Layout::Pieces => self.key_len.next_multiple_of(4) + 4 + 8 * self.pieces,
            Layout::Plain | Layout::Flags | Layout::Wide => self.key_len + self.value_len,
        };
        (key_start(self.layout, self.has_expiry_word) + body_len).next_multiple_of(4)
    }
}

/// Returns the offset of the key in an item's block.
const fn key_start(layout: Layout, has_expiry_word: bool) -> usize {
    let expiry_len = if has_expiry_word { EXPIRY_LEN } else { 0 };
    HEADER_LEN + expiry_len + layout.extra_len()
}

/// Word 2 of a block. Its fields, from the lowest bit on:
///
/// ```text
/// bits   0-1     2                3-15       16-23    24-31
/// field  layout  has_expiry_word  short_len  key_len  high 8 bits of the CAS
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderWord(u32);

impl HeaderWord {
    /// Word 2 of the end marker of a segment.
    pub(super) const END: Self = Self(0);
    /// Word 2 of a piece: layout Pieces, and a key length of 0.
    pub(super) const PIECE: Self = Self(Layout::Pieces as u32);

    /// The offset of the key, indexed by the lowest three bits of word 2: layout and expiry bit.
    const KEY_STARTS: [u8; 8] = {
        let mut starts = [0; 8];
        let mut bits = 0;
        while bits < 8 {
            let header = Self(bits as u32);
            starts[bits] = key_start(header.layout(), header.has_expiry_word()) as u8;
            bits += 1;
        }
        starts
    };

    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Returns word 2 of an item with these fields. The high bits of the CAS are 0 until
    /// [`with_cas_high`](Self::with_cas_high) sets them.
    #[inline]
    pub(super) fn new(fields: &HeaderFields) -> Self {
        let short_len = match fields.layout {
            Layout::Plain | Layout::Flags => fields.value_len,
            Layout::Wide | Layout::Pieces => 0,
        };
        // The length of a longer value would extend into the bits of the key's length.
        assert!(short_len <= SHORT_MAX, "a value too long for its layout");
        let expiry_bit = if fields.has_expiry_word {
            EXPIRY_BIT
        } else {
            0
        };
        let lens = (fields.key_len as u32) << KEY_LEN_SHIFT | (short_len as u32) << SHORT_LEN_SHIFT;
        Self(lens | expiry_bit | fields.layout as u32)
    }

    #[inline]
    pub(super) const fn word(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) const fn layout(self) -> Layout {
        match self.0 & 0b11 {
            0 => Layout::Plain,
            1 => Layout::Flags,
            2 => Layout::Wide,
            _ => Layout::Pieces,
        }
    }

    /// Returns true if the length of the value and the CAS are stored in words 1 and 2 (layouts
    /// Plain and Flags).
    #[inline]
    pub(super) const fn is_short(self) -> bool {
        self.0 & 0b10 == 0
    }

    #[inline]
    pub(super) const fn has_expiry_word(self) -> bool {
        self.0 & EXPIRY_BIT != 0
    }

    #[inline]
    pub(super) const fn key_len(self) -> usize {
        (self.0 >> KEY_LEN_SHIFT & 0xff) as usize
    }

    /// Returns the length of the value, in the layouts Plain and Flags.
    #[inline]
    pub(super) const fn short_len(self) -> usize {
        (self.0 >> SHORT_LEN_SHIFT) as usize & SHORT_MAX
    }

    #[inline]
    pub(super) fn key_start(self) -> usize {
        Self::KEY_STARTS[(self.0 & 0b111) as usize].into()
    }

    /// Returns the offset of the value, or of the list of its pieces before alignment.
    #[inline]
    pub(super) fn value_start(self) -> usize {
        self.key_start() + self.key_len()
    }

    /// Returns the length of the block, in the layouts Plain and Flags.
    #[inline]
    pub(super) fn short_block_len(self) -> usize {
        (self.value_start() + self.short_len()).next_multiple_of(4)
    }

    /// Returns the high 8 bits of the CAS, in the layouts Plain and Flags.
    #[inline]
    pub(super) const fn cas_high(self) -> u32 {
        self.0 >> 24
    }

    #[inline]
    #[must_use]
    pub(super) const fn with_cas_high(self, high: u32) -> Self {
        Self(self.0 & 0x00ff_ffff | high << 24)
    }

    /// Returns true if the layout can store this CAS.
    #[inline]
    pub(super) const fn can_hold_cas(self, cas: u64) -> bool {
        cas <= SHORT_CAS_MAX || !self.is_short()
    }

    /// Returns true if the layout can store this expiry.
    #[inline]
    pub(super) fn can_hold_expiry(self, expiry: Expiry) -> bool {
        self.has_expiry_word() || expiry == Expiry::NEVER
    }
}
