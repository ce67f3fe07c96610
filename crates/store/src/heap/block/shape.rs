//! The immutable header word of a block (word 2), and what follows from it.

use super::{HEADER_LEN, PIECES_MAX};
use crate::item::Expiry;

/// Size of an expiry.
pub(super) const EXPIRY_LEN: usize = 4;
/// The block has an expiry.
const TIMED: u32 = 1 << 2;
/// The longest value whose length fits into the header.
const SHORT_MAX: usize = (1 << 13) - 1;
/// The largest CAS that fits into the header.
pub(super) const SHORT_CAS_MAX: u64 = (1 << 40) - 1;

/// The form of an item's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// No further words.
    Plain = 0,
    /// With client flags.
    Flags = 1,
    /// With client flags, the length of a long value, and any CAS.
    Wide = 2,
    /// As `Wide`; the value is stored in pieces.
    Pieces = 3,
}

impl Form {
    const fn extra_len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Flags => 4,
            Self::Wide | Self::Pieces => 16,
        }
    }
}

/// The immutable properties of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) form: Form,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    pub(crate) flags: u32,
    /// Number of pieces of the value, if it is stored in pieces.
    pub(crate) pieces: usize,
    /// The block has a field for an expiry.
    pub(crate) is_timed: bool,
}

impl Outline {
    /// The shortest form for a value stored with its key. `cas` is one chosen by the client.
    #[inline]
    pub(crate) fn whole(
        key_len: usize,
        value_len: usize,
        flags: u32,
        cas: Option<u64>,
        is_timed: bool,
    ) -> Self {
        let is_wide = value_len > SHORT_MAX || cas.is_some_and(|cas| cas > SHORT_CAS_MAX);
        let form = match (is_wide, flags) {
            (true, _) => Form::Wide,
            (false, 0) => Form::Plain,
            (false, _) => Form::Flags,
        };
        Self {
            form,
            key_len,
            value_len,
            flags,
            pieces: 0,
            is_timed: is_timed || is_wide,
        }
    }

    /// The form for a value in pieces.
    pub(crate) fn pieces(key_len: usize, value_len: usize, flags: u32, pieces: usize) -> Self {
        debug_assert!(pieces <= PIECES_MAX);
        Self {
            form: Form::Pieces,
            key_len,
            value_len,
            flags,
            pieces,
            is_timed: true,
        }
    }

    /// The same, with a field for an expiry.
    pub(crate) fn timed(self) -> Self {
        Self {
            is_timed: true,
            ..self
        }
    }

    /// Length of the block in bytes.
    #[inline]
    pub(crate) fn block_len(&self) -> usize {
        let body_len = match self.form {
            // Four more bytes align the list, wherever the block lies.
            Form::Pieces => self.key_len.next_multiple_of(4) + 4 + 8 * self.pieces,
            Form::Plain | Form::Flags | Form::Wide => self.key_len + self.value_len,
        };
        (key_start(self.form, self.is_timed) + body_len).next_multiple_of(4)
    }
}

/// Offset of the key in an item's block.
const fn key_start(form: Form, is_timed: bool) -> usize {
    let expiry_len = if is_timed { EXPIRY_LEN } else { 0 };
    HEADER_LEN + expiry_len + form.extra_len()
}

/// Word 2 of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape(u32);

impl Shape {
    /// The word at the end of a segment.
    pub(super) const END: Self = Self(0);
    /// The word of a piece.
    pub(super) const PIECE: Self = Self(Form::Pieces as u32);

    /// Offset of the key, indexed by the lowest bits.
    const KEY_STARTS: [u8; 8] = {
        let mut starts = [0; 8];
        let mut bits = 0;
        while bits < 8 {
            let shape = Self(bits as u32);
            starts[bits] = key_start(shape.form(), shape.is_timed()) as u8;
            bits += 1;
        }
        starts
    };

    #[inline]
    pub(super) const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// The word of an item without a CAS.
    #[inline]
    pub(super) fn of(outline: &Outline) -> Self {
        let short_len = match outline.form {
            Form::Plain | Form::Flags => outline.value_len,
            Form::Wide | Form::Pieces => 0,
        };
        // A value that does not fit would overflow into the length of the key.
        assert!(short_len <= SHORT_MAX, "a value too long for its form");
        let timed = if outline.is_timed { TIMED } else { 0 };
        let lens = (outline.key_len as u32) << 16 | (short_len as u32) << 3;
        Self(lens | timed | outline.form as u32)
    }

    #[inline]
    pub(super) const fn word(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) const fn form(self) -> Form {
        match self.0 & 0b11 {
            0 => Form::Plain,
            1 => Form::Flags,
            2 => Form::Wide,
            _ => Form::Pieces,
        }
    }

    /// Whether length and CAS are in the header.
    #[inline]
    pub(super) const fn is_short(self) -> bool {
        self.0 & 0b10 == 0
    }

    #[inline]
    pub(super) const fn is_timed(self) -> bool {
        self.0 & TIMED != 0
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
        self.is_timed() || expiry == Expiry::NEVER
    }
}
