//! When an item was last asked for, and what has become of it.

/// Bits of the second of the last access.
const ACCESS_MASK: u32 = (1 << 28) - 1;
const BASE64_KEY: u32 = 1 << 28;
const FETCHED: u32 = 1 << 29;
const STALE: u32 = 1 << 30;
const CLAIMED: u32 = 1 << 31;

/// When an item was last asked for, and what has become of it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(pub(super) u32);

impl Access {
    /// Of an item that is none (yet, or any more): claimed, but not stale nor read, in second 0, in
    /// which no item is made.
    pub(super) const DEAD: Self = Self(CLAIMED);

    /// Of an item that is new.
    pub(crate) fn new(now_s: u32) -> Self {
        Self((now_s & ACCESS_MASK).max(1))
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

    #[inline]
    pub(crate) fn has_base64_key(self) -> bool {
        self.0 & BASE64_KEY != 0
    }

    /// With its key written in base64, or as it is.
    #[must_use]
    pub(crate) fn with_base64_key(self, is_base64: bool) -> Self {
        Self(self.0 & !BASE64_KEY | if is_base64 { BASE64_KEY } else { 0 })
    }

    /// Written just now.
    #[must_use]
    pub(crate) fn at(self, now_s: u32) -> Self {
        Self(self.0 & !ACCESS_MASK | Self::new(now_s).0)
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
