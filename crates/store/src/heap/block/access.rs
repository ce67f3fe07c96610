//! The access word of a block, with the last access of its item and flags: the value of the word
//! ([`Access`]), and the word in memory ([`AccessWord`]).

use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of the time of the last access, in seconds modulo 2^27: differences below two years are
/// unambiguous.
const ACCESS_BITS: u32 = 27;
const ACCESS_MASK: u32 = (1 << ACCESS_BITS) - 1;
const DEAD: u32 = 1 << 27;
const BASE64_KEY: u32 = 1 << 28;
const FETCHED: u32 = 1 << 29;
const STALE: u32 = 1 << 30;
const CLAIMED: u32 = 1 << 31;

/// The value of an access word: the last access of an item, and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    /// The access word of a block that is not linked yet.
    pub(super) const DEAD: Self = Self(DEAD);

    /// The access word of a new item.
    pub(crate) fn new(now_s: u32) -> Self {
        Self(now_s & ACCESS_MASK)
    }

    /// The second of the access. `now_s` is at most two years before or after it.
    #[inline]
    pub(crate) fn time_s(self, now_s: u32) -> u32 {
        let unused = u32::BITS - ACCESS_BITS;
        let ago_s = (now_s.wrapping_sub(self.0) << unused).cast_signed() >> unused;
        now_s.wrapping_sub(ago_s.cast_unsigned())
    }

    /// Whether the item was read since it was written.
    #[inline]
    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Whether the item was invalidated, and its old value is still returned.
    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// Whether a client has claimed the item, and so is expected to renew it.
    #[inline]
    pub(crate) fn is_claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// Whether no index entry refers to the block: not yet, or not any more.
    #[inline]
    fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The same access and flags, with the dead mark. A reader that found the item before still
    /// gets its metadata.
    #[must_use]
    fn with_dead_mark(self) -> Self {
        Self(self.0 | DEAD)
    }

    /// Whether the last full write named the key in base64.
    #[inline]
    pub(crate) fn has_base64_key(self) -> bool {
        self.0 & BASE64_KEY != 0
    }

    /// The same access, with the flag for keys in base64 set or cleared.
    #[must_use]
    pub(crate) fn with_base64_key(self, is_base64: bool) -> Self {
        Self(self.0 & !BASE64_KEY | if is_base64 { BASE64_KEY } else { 0 })
    }

    /// The same flags, with `now_s` as the time of the last access.
    #[must_use]
    pub(crate) fn accessed_at(self, now_s: u32) -> Self {
        Self(self.0 & !ACCESS_MASK | now_s & ACCESS_MASK)
    }

    /// The same flags and `FETCHED`, with `now_s` as the time of the last access.
    #[inline]
    #[must_use]
    pub(crate) fn fetched_at(self, now_s: u32) -> Self {
        Self(self.0 & !ACCESS_MASK | FETCHED | now_s & ACCESS_MASK)
    }

    /// The same access, with the two flags of the meta protocol set or cleared: stale, and claimed
    /// (a client was sent `W`).
    #[must_use]
    pub(crate) fn with_stale_and_claimed(self, is_stale: bool, is_claimed: bool) -> Self {
        let bits = if is_stale { STALE } else { 0 } | if is_claimed { CLAIMED } else { 0 };
        Self(self.0 & !(STALE | CLAIMED) | bits)
    }
}

/// An atomic word of four bytes in the memory of a block, or its replacement in a model.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    /// Stores `after` if the word is `before`, with relaxed ordering.
    fn replace_if_unchanged(&self, before: u32, after: u32);
}

impl Word for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn replace_if_unchanged(&self, before: u32, after: u32) {
        let _ = self.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The word of a block that holds its [`Access`].
#[derive(Debug)]
pub(super) struct AccessWord<'h, W = AtomicU32>(pub(super) &'h W);

impl<W: Word> AccessWord<'_, W> {
    #[inline]
    pub(super) fn access(&self) -> Access {
        Access(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set(&self, access: Access) {
        self.0.store(access.0, Ordering::Relaxed);
    }

    /// Records a read of an item whose access word was `before`, by the word `after`.
    /// `has_expiry_word` tells whether the item can expire. If several readers record a read
    /// concurrently, the last store determines the recorded time.
    #[inline]
    pub(super) fn record_access(
        &self,
        before: Access,
        after: Access,
        has_expiry_word: impl FnOnce() -> bool,
    ) {
        if before.is_dead() {
            // Once a block is linked, only `mark_dead` sets this mark, with release. If a reader
            // stored the mark again with relaxed ordering, evacuation could see it, and skip the
            // block, without seeing that the block was unlinked.
        } else if before.is_stale() || has_expiry_word() {
            // A plain store could overwrite a concurrent claim. Only a stale item, or one that
            // expires, can be claimed.
            self.0.replace_if_unchanged(before.0, after.0);
        } else {
            // This store may overwrite a concurrent dead mark, which is only a hint. To keep the
            // mark would cost a locked instruction for each read, on a cache line that the writer's
            // core still owns.
            self.0.store(after.0, Ordering::Relaxed);
        }
    }

    /// Adds the dead mark of an unlinked item.
    #[inline]
    pub(super) fn mark_dead(&self) {
        let dead = self.access().with_dead_mark();
        // Release: pairs with `is_marked_dead`: the thread that skips the block has seen that it
        // was unlinked, and so has every thread that learns of the segment's retirement.
        self.0.store(dead.0, Ordering::Release);
    }

    /// Whether the item has the dead mark.
    #[inline]
    pub(super) fn is_marked_dead(&self) -> bool {
        // Acquire: pairs with `mark_dead`.
        Access(self.0.load(Ordering::Acquire)).is_dead()
    }
}

#[cfg(test)]
#[cfg(not(any(shuttle, loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_access_is_exact_at_any_uptime() {
        let year_s = 365 * 86_400;
        for now_s in [0, 1, 100, 3 * year_s, 5 * year_s, 60 * year_s, u32::MAX - 1] {
            let access = Access::new(now_s)
                .with_stale_and_claimed(true, true)
                .with_base64_key(true);
            for later_s in [0, 1, 3_600, 2 * year_s] {
                assert_eq!(access.time_s(now_s.saturating_add(later_s)), now_s);
            }
            // The clock of another thread may be a second earlier.
            assert_eq!(access.time_s(now_s.saturating_sub(1)), now_s);
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod weak_memory;
