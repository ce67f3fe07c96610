//! A word of the index: the location of an item, a tag of its key, and its frequency counter.
//!
//! ```text
//! 63          44  43    42    41 40  39                                    0
//! ┌─────────────┬──────┬──────┬──────┬───────────────────────────────────────┐
//! │ tag, 20 bits│ role │ tier │ freq │ location, units of 4 bytes, 0: no item │
//! └─────────────┴──────┴──────┴──────┴───────────────────────────────────────┘
//! ```
//!
//! The role says which of the two bucket numbers of the item's key selected this bucket
//! (`addressing.rs`). The tier bit is unused; it is reserved for locations on disk.

use super::addressing::TAG_BITS;

const LOCATION_BITS: u32 = 40;
const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;
const FREQUENCY_SHIFT: u32 = LOCATION_BITS;
const FREQUENCY_MASK: u64 = 0b11 << FREQUENCY_SHIFT;
/// The value at which the counter saturates.
const FREQUENCY_MAX: u8 = 3;
pub(super) const ROLE_SHIFT: u32 = 43;
const TAG_SHIFT: u32 = 44;

const _: () = assert!(TAG_SHIFT + TAG_BITS == u64::BITS);

/// The location of an item, in units of four bytes from the start of the region; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location(u64);

impl Location {
    /// The highest value of the field: 4 TiB less one unit.
    pub(crate) const MAX: u64 = LOCATION_MASK;

    /// `None` if no item can be at this offset.
    pub(crate) fn new(units: u64) -> Option<Self> {
        (1..=Self::MAX).contains(&units).then_some(Self(units))
    }

    #[inline]
    pub(crate) fn units(self) -> u64 {
        self.0
    }
}

/// A word that refers to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(super) fn new(location: Location, frequency: u8, tag: u64, role: usize) -> Self {
        let frequency = u64::from(frequency.min(FREQUENCY_MAX)) << FREQUENCY_SHIFT;
        Self(key_bits(tag, role) | frequency | location.0)
    }

    /// `None` for an empty word.
    #[inline]
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word & LOCATION_MASK != 0).then_some(Self(word))
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn location(self) -> Location {
        Location(self.0 & LOCATION_MASK)
    }

    /// The frequency counter: 0 to 3, saturating.
    #[inline]
    pub(crate) fn frequency(self) -> u8 {
        ((self.0 & FREQUENCY_MASK) >> FREQUENCY_SHIFT) as u8
    }

    #[inline]
    pub(super) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    pub(super) fn role(self) -> usize {
        (self.0 >> ROLE_SHIFT & 1) as usize
    }

    #[must_use]
    pub(super) fn with_frequency(self, frequency: u8) -> Self {
        let bits = u64::from(frequency.min(FREQUENCY_MAX)) << FREQUENCY_SHIFT;
        Self(self.0 & !FREQUENCY_MASK | bits)
    }

    #[must_use]
    pub(super) fn with_role(self, role: usize) -> Self {
        Self(self.0 & !(1 << ROLE_SHIFT) | (role as u64) << ROLE_SHIFT)
    }

    #[must_use]
    pub(super) fn with_location(self, location: Location) -> Self {
        Self(self.0 & !LOCATION_MASK | location.0)
    }
}

/// The bits of tag and role in a word.
#[inline]
pub(super) fn key_bits(tag: u64, role: usize) -> u64 {
    tag << TAG_SHIFT | (role as u64) << ROLE_SHIFT
}

/// Whether a word may belong to an item whose key has this tag and role. An empty word can match
/// too: the caller checks for it.
#[inline]
pub(super) fn may_match(word: u64, key_bits: u64) -> bool {
    word ^ key_bits < 1 << ROLE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_word_do_not_overlap() {
        assert_eq!(Location::new(0), None);
        assert_eq!(Location::new(Location::MAX + 1), None);
        let (location, one) = (
            Location::new(Location::MAX).unwrap(),
            Location::new(1).unwrap(),
        );
        let entry = Entry::new(location, 0, 0xabcde, 1);
        assert!(may_match(entry.word(), key_bits(0xabcde, 1)));
        assert!(!may_match(entry.word(), key_bits(0xabcde, 0)));
        assert!(!may_match(entry.word(), key_bits(0xabcdf, 1)));
        let often = entry.with_frequency(9);
        assert_eq!(often, Entry::new(location, 3, 0xabcde, 1));
        assert_eq!(often.with_role(0), Entry::new(location, 3, 0xabcde, 0));
        assert_eq!(often.with_location(one), Entry::new(one, 3, 0xabcde, 1));
        assert_eq!(
            (
                often.location(),
                often.frequency(),
                often.tag(),
                often.role()
            ),
            (location, 3, 0xabcde, 1)
        );
        assert_eq!(often.with_frequency(0), entry);
        assert_eq!(Entry::from_word(0), None);
        assert_eq!(
            Entry::from_word(key_bits(0xabcde, 1)),
            None,
            "a tag alone is no item"
        );
    }
}
