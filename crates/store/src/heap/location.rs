//! The number of a segment, and the location of a block.

/// The number of a segment, counted from 0 in the mapping.
pub(crate) type SegmentNumber = u32;

/// The location of a block: its offset from the start of the store's memory, in units of four
/// bytes. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location(u64);

impl Location {
    /// Number of bits of a location.
    pub(crate) const BITS: u32 = 40;

    /// The largest location: one unit below 4 TiB.
    pub(crate) const MAX: u64 = (1 << Self::BITS) - 1;

    /// Creates a location from an offset in units. `None` if the offset is 0 or above
    /// [`Self::MAX`].
    pub(crate) fn new(units: u64) -> Option<Self> {
        (1..=Self::MAX).contains(&units).then_some(Self(units))
    }

    /// Returns the location in the lowest [`Self::BITS`] bits of a word. These bits must not all be
    /// 0.
    #[inline]
    pub(crate) fn in_word(word: u64) -> Self {
        Self(word & Self::MAX)
    }

    /// Returns the offset in units of four bytes.
    #[inline]
    pub(crate) fn units(self) -> u64 {
        self.0
    }
}
