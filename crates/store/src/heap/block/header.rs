//! The immutable header word of a block (word 2), and the header layout that it describes.

use super::{HEADER_LEN, PIECES_MAX};
use crate::item::Expiry;

/// Size of an expiry.
pub(super) const EXPIRY_LEN: usize = 4;
/// The block has a word for an expiry.
const EXPIRY_BIT: u32 = 1 << 2;
/// The longest value whose length fits into the header.
const SHORT_MAX: usize = (1 << 13) - 1;
/// The largest CAS that fits into the header.
pub(super) const SHORT_CAS_MAX: u64 = (1 << 40) - 1;

/// The layout of an item's header: which extra words it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// No extra words.
    Plain = 0,
    /// Client flags.
    Flags = 1,
    /// Client flags, the length of a long value, and a CAS of 64 bits.
    Wide = 2,
    /// As `Wide`; the value is stored in pieces.
    Pieces = 3,
}

impl Layout {
    const fn extra_len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Flags => 4,
            Self::Wide | Self::Pieces => 16,
        }
    }
}

/// The immutable header fields of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderFields {
    pub(crate) layout: Layout,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    pub(crate) flags: u32,
    /// Number of pieces of the value, if it is stored in pieces.
    pub(crate) pieces: usize,
    /// The block has a word for an expiry.
    pub(crate) has_expiry_word: bool,
}

impl HeaderFields {
    /// The fields of an item whose value is stored with its key, in the shortest layout. `cas` is
    /// one chosen by the client.
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
            has_expiry_word: has_expiry_word || is_wide,
        }
    }

    /// The fields of an item whose value is stored in pieces.
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

    /// The same fields, with a word for an expiry.
    pub(crate) fn with_expiry_word(self) -> Self {
        Self {
            has_expiry_word: true,
            ..self
        }
    }

    /// Length of the block in bytes.
    #[inline]
    pub(crate) fn block_len(&self) -> usize {
        let body_len = match self.layout {
            // Four more bytes align the list, wherever the block lies.
            Layout::Pieces => self.key_len.next_multiple_of(4) + 4 + 8 * self.pieces,
            Layout::Plain | Layout::Flags | Layout::Wide => self.key_len + self.value_len,
        };
        (key_start(self.layout, self.has_expiry_word) + body_len).next_multiple_of(4)
    }
}

/// Offset of the key in an item's block.
const fn key_start(layout: Layout, has_expiry_word: bool) -> usize {
    let expiry_len = if has_expiry_word { EXPIRY_LEN } else { 0 };
    HEADER_LEN + expiry_len + layout.extra_len()
}

/// Word 2 of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderWord(u32);

impl HeaderWord {
    /// Word 2 of the mark at the end of a segment.
    pub(super) const END: Self = Self(0);
    /// Word 2 of a piece.
    pub(super) const PIECE: Self = Self(Layout::Pieces as u32);

    /// Offset of the key, indexed by the lowest bits.
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

    /// Word 2 of an item whose CAS is not set yet.
    #[inline]
    pub(super) fn new(fields: &HeaderFields) -> Self {
        let short_len = match fields.layout {
            Layout::Plain | Layout::Flags => fields.value_len,
            Layout::Wide | Layout::Pieces => 0,
        };
        // A value that does not fit would overflow into the length of the key.
        assert!(short_len <= SHORT_MAX, "a value too long for its layout");
        let expiry_bit = if fields.has_expiry_word {
            EXPIRY_BIT
        } else {
            0
        };
        let lens = (fields.key_len as u32) << 16 | (short_len as u32) << 3;
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

    /// Whether length and CAS are in the header.
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
        (self.0 >> 16 & 0xff) as usize
    }

    /// Length of a short value.
    #[inline]
    pub(super) const fn short_len(self) -> usize {
        (self.0 >> 3) as usize & SHORT_MAX
    }

    #[inline]
    pub(super) fn key_start(self) -> usize {
        Self::KEY_STARTS[(self.0 & 0b111) as usize].into()
    }

    /// Offset of the value or of the list of its pieces.
    #[inline]
    pub(super) fn value_start(self) -> usize {
        self.key_start() + self.key_len()
    }

    /// Length of the block of a short value.
    #[inline]
    pub(super) fn short_block_len(self) -> usize {
        (self.value_start() + self.short_len()).next_multiple_of(4)
    }

    /// The highest bits of a short CAS.
    #[inline]
    pub(super) const fn cas_high(self) -> u32 {
        self.0 >> 24
    }

    #[inline]
    #[must_use]
    pub(super) const fn with_cas_high(self, high: u32) -> Self {
        Self(self.0 & 0x00ff_ffff | high << 24)
    }

    /// Whether the header can hold this CAS.
    #[inline]
    pub(super) const fn can_hold_cas(self, cas: u64) -> bool {
        cas <= SHORT_CAS_MAX || !self.is_short()
    }

    /// Whether the block can hold this expiry.
    #[inline]
    pub(super) fn can_hold_expiry(self, expiry: Expiry) -> bool {
        self.has_expiry_word() || expiry == Expiry::NEVER
    }
}
