//! The format of an index entry: one word with the location of an item, a tag of its key, and its
//! frequency counter.
//!
//! ```text
//! 63         44   43       42     41  40 39                                     0
//! ┌─────────────┬──────┬──────────┬──────┬────────────────────────────────────────┐
//! │ tag, 20 bits│ role │ restored │ freq │ location, units of 4 bytes, 0: no item │
//! └─────────────┴──────┴──────────┴──────┴────────────────────────────────────────┘
//! ```
//!
//! A key has two buckets. The role is 0 if the entry is in the first one, and 1 if it is in the
//! second one (`addressing.rs`).
//!
//! The restored bit is set when an item is restored from the tier (the slower storage for evicted
//! items). The next request for the item clears the bit and does not increment the frequency
//! counter, because it is usually the request for which the item was restored. A request that
//! computes a new value from the present one (`incr`, `append`) finds the entry twice: first to
//! read the item, which clears the bit, and then to replace the item. The request remembers that
//! the bit was set (`operations/rewrite.rs`). So the replacement does not increment the counter
//! either.

use super::addressing::TAG_BITS;
use crate::heap::Location;
use crate::limits::FREQUENCY_MAX;

const LOCATION_MASK: u64 = Location::MAX;
const FREQUENCY_SHIFT: u32 = Location::BITS;
const FREQUENCY_MASK: u64 = (FREQUENCY_MAX as u64) << FREQUENCY_SHIFT;
/// The restored bit. It is above the two bits of the frequency counter.
const RESTORED: u64 = 1 << (FREQUENCY_SHIFT + 2);
/// Number of bits below the role. Role and tag are the highest bits of a word.
pub(super) const ROLE_SHIFT: u32 = 43;
const TAG_SHIFT: u32 = 44;

const _: () = assert!(TAG_SHIFT + TAG_BITS == u64::BITS);

/// An index entry: a word that refers to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(super) fn new(location: Location, frequency: u8, tag: u64, role: usize) -> Self {
        let frequency = u64::from(frequency.min(FREQUENCY_MAX)) << FREQUENCY_SHIFT;
        Self(key_bits(tag, role) | frequency | location.units())
    }

    /// Decodes a word of the index. `None` if the word is an empty slot.
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
        Location::in_word(self.0)
    }

    /// Returns the frequency counter: 0 to 3, saturating.
    #[inline]
    pub(crate) fn frequency(self) -> u8 {
        ((self.0 & FREQUENCY_MASK) >> FREQUENCY_SHIFT) as u8
    }

    /// Returns true if the item was restored from the tier and has not been requested since.
    #[inline]
    pub(crate) fn is_restored(self) -> bool {
        self.0 & RESTORED != 0
    }

    #[must_use]
    pub(super) fn as_restored(self) -> Self {
        Self(self.0 | RESTORED)
    }

    #[must_use]
    pub(super) fn without_restored(self) -> Self {
        Self(self.0 & !RESTORED)
    }

    /// Returns the entry after one more request: without the restored bit if that was set,
    /// otherwise with an incremented frequency counter.
    #[must_use]
    pub(crate) fn requested(self) -> Self {
        match self.is_restored() {
            true => self.without_restored(),
            false => self.with_frequency(self.frequency() + 1),
        }
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
        Self(self.0 & !LOCATION_MASK | location.units())
    }
}

/// Returns a word in which only the bits of tag and role are set.
#[inline]
pub(super) fn key_bits(tag: u64, role: usize) -> u64 {
    tag << TAG_SHIFT | (role as u64) << ROLE_SHIFT
}

/// Returns true if the tag and role of a word are those of `key_bits`. An empty word may match too,
/// so the caller also checks that the word is not empty.
#[inline]
pub(super) fn may_match(word: u64, key_bits: u64) -> bool {
    // The exclusive or clears the bits of tag and role if, and only if, they are equal. Tag and
    // role are the highest bits, so the result is then below the bit of the role.
    let different_bits = word ^ key_bits;
    different_bits < (1 << ROLE_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_one_field_of_a_word_changes_no_other() {
        assert_eq!(Location::new(0), None);
        assert_eq!(Location::new(Location::MAX + 1), None);
        let largest = Location::new(Location::MAX).unwrap();
        let smallest = Location::new(1).unwrap();
        // The arguments are location, frequency, tag and role.
        let entry = Entry::new(largest, 0, 0xabcde, 1);
        assert!(may_match(entry.word(), key_bits(0xabcde, 1)));
        assert!(!may_match(entry.word(), key_bits(0xabcde, 0)));
        assert!(!may_match(entry.word(), key_bits(0xabcdf, 1)));
        let often = entry.with_frequency(9);
        assert_eq!(often, Entry::new(largest, 3, 0xabcde, 1));
        assert_eq!(often.with_role(0), Entry::new(largest, 3, 0xabcde, 0));
        assert_eq!(
            often.with_location(smallest),
            Entry::new(smallest, 3, 0xabcde, 1)
        );
        assert_eq!(
            (
                often.location(),
                often.frequency(),
                often.tag(),
                often.role()
            ),
            (largest, 3, 0xabcde, 1)
        );
        assert_eq!(often.with_frequency(0), entry);
        assert_eq!(Entry::from_word(0), None);
        assert_eq!(
            Entry::from_word(key_bits(0xabcde, 1)),
            None,
            "a word without a location is an empty slot"
        );
    }
}
