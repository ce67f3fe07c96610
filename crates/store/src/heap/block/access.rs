//! When an item was last asked for, and what has become of it.

/// Bits of the second of the last access: 28 bits of seconds are 8.5 years.
const ACCESS_MASK: u32 = (1 << 28) - 1;
const DEAD: u32 = 1 << 28;
const FETCHED: u32 = 1 << 29;
const STALE: u32 = 1 << 30;
const CLAIMED: u32 = 1 << 31;

/// When an item was last asked for, and what has become of it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(pub(super) u32);

impl Access {
    /// Of a block that no entry leads to yet.
    pub(super) const DEAD: Self = Self(DEAD);

    /// Of an item that is new.
    pub(crate) fn new(now_s: u32) -> Self {
        Self(now_s & ACCESS_MASK)
    }

    #[inline]
    pub(crate) fn second(self) -> u32 {
        self.0 & ACCESS_MASK
    }

    #[inline]
    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    #[inline]
    pub(crate) fn is_claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// Whether no entry of the index leads to the block: not yet, or not any more.
    #[inline]
    pub(super) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The same item without an entry. A reader that found the item before is still shown its
    /// facts.
    #[must_use]
    pub(super) fn dead(self) -> Self {
        Self(self.0 | DEAD)
    }

    /// Read just now.
    #[inline]
    #[must_use]
    pub(crate) fn fetched_at(self, now_s: u32) -> Self {
        Self(self.0 & !ACCESS_MASK | FETCHED | now_s & ACCESS_MASK)
    }

    #[must_use]
    pub(crate) fn with(self, stale: bool, claimed: bool) -> Self {
        let bits = if stale { STALE } else { 0 } | if claimed { CLAIMED } else { 0 };
        Self(self.0 & !(STALE | CLAIMED) | bits)
    }
}
