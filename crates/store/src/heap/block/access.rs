//! The access word of a block: the time of the last access to its item, and five flags. [`Access`]
//! is a value of the word, and [`AccessWord`] is the atomic word in memory.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of bits for the time of the last access, in seconds modulo 2^27. The time is unambiguous
/// if it is at most two years before or after the current time.
const ACCESS_BITS: u32 = 27;
const ACCESS_MASK: u32 = (1 << ACCESS_BITS) - 1;
/// The dead mark: the index does not refer to the block.
const DEAD: u32 = 1 << 27;
/// The last write of a complete value gave the key in base64 (flag `b` of the meta protocol).
const BASE64_KEY: u32 = 1 << 28;
/// The item was read since it was written.
const FETCHED: u32 = 1 << 29;
/// The item was invalidated (flag `X` of the meta protocol).
const STALE: u32 = 1 << 30;
/// A client was told to renew the item (flag `W` of the meta protocol).
const CLAIMED: u32 = 1 << 31;

/// A value of an access word: the time of the last access to an item, and its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    /// The value for a block that is not linked yet. Only the dead mark is set.
    pub(super) const DEAD: Self = Self(DEAD);

    /// Returns the value for an item written at second `now_s`, without flags.
    pub(crate) fn new(now_s: u32) -> Self {
        Self(now_s & ACCESS_MASK)
    }

    /// Returns the second of the access. `now_s` is at most two years before or after it.
    #[inline]
    pub(crate) fn time_s(self, now_s: u32) -> u32 {
        // The shifts to the left and back replace the bits that are not stored by copies of the
        // highest stored bit of the difference, so that it becomes a signed number of seconds.
        let unused = u32::BITS - ACCESS_BITS;
        let ago_s = (now_s.wrapping_sub(self.0) << unused).cast_signed() >> unused;
        now_s.wrapping_sub(ago_s.cast_unsigned())
    }

    /// Returns true if the item was read since it was written.
    #[inline]
    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Returns true if the item was invalidated. Reads still return its old value.
    #[inline]
    pub(crate) fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// Returns true if a client has claimed the item, and is therefore expected to renew it.
    #[inline]
    pub(crate) fn is_claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// Returns true if the value has the dead mark, because the block is not linked yet or was
    /// unlinked.
    #[inline]
    fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// Returns the same access time and flags with the dead mark. The time and the flags are kept,
    /// because a reader may have found the item before it was unlinked.
    #[must_use]
    fn with_dead_mark(self) -> Self {
        Self(self.0 | DEAD)
    }

    /// Returns true if the last write of a complete value gave the key in base64.
    #[inline]
    pub(crate) fn has_base64_key(self) -> bool {
        self.0 & BASE64_KEY != 0
    }

    /// Returns the same access time and flags, with the flag for a key in base64 set or cleared.
    #[must_use]
    pub(crate) fn with_base64_key(self, is_base64: bool) -> Self {
        Self(self.0 & !BASE64_KEY | if is_base64 { BASE64_KEY } else { 0 })
    }

    /// Returns the same flags with `now_s` as the time of the last access.
    #[must_use]
    pub(crate) fn accessed_at(self, now_s: u32) -> Self {
        Self(self.0 & !ACCESS_MASK | now_s & ACCESS_MASK)
    }

    /// Returns the same flags and `FETCHED`, with `now_s` as the time of the last access.
    #[inline]
    #[must_use]
    pub(crate) fn fetched_at(self, now_s: u32) -> Self {
        Self(self.0 & !ACCESS_MASK | FETCHED | now_s & ACCESS_MASK)
    }

    /// Returns the same access time and flags, with the flags `STALE` and `CLAIMED` set or cleared.
    #[must_use]
    pub(crate) fn with_stale_and_claimed(self, is_stale: bool, is_claimed: bool) -> Self {
        let bits = if is_stale { STALE } else { 0 } | if is_claimed { CLAIMED } else { 0 };
        Self(self.0 & !(STALE | CLAIMED) | bits)
    }
}

/// An atomic word of four bytes: in the memory of a block, or loom's atomic in a model.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    /// Stores `after` if the word still is `before` (a relaxed compare-exchange).
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

/// The access word in the memory of a block.
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

    /// Records an access to the item: changes the word from `before`, which the caller has loaded,
    /// to `after`. `has_expiry_word` returns true if the block has an expiry word, so that the item
    /// can expire. If several threads record an access concurrently, the last store determines the
    /// time of the last access.
    #[inline]
    pub(super) fn record_access(
        &self,
        before: Access,
        after: Access,
        has_expiry_word: impl FnOnce() -> bool,
    ) {
        if before.is_dead() {
            // The word must not be stored with the dead mark here. `mark_dead` stores the mark with
            // release. If a reader stored it again with relaxed ordering, evacuation could load the
            // mark and skip the block without seeing that the block was unlinked.
        } else if before.is_stale() || has_expiry_word() {
            // The item can be claimed, because it is stale or can expire. A plain store could
            // overwrite the claim of a concurrent reader, so this store is conditional.
            self.0.replace_if_unchanged(before.0, after.0);
        } else {
            // The item cannot be claimed, so a plain store suffices. It may overwrite the dead mark
            // of a concurrent writer. Then evacuation finds out by a lookup that the block is dead.
            // A compare-exchange would keep the mark, but would make each recorded read slower.
            self.0.store(after.0, Ordering::Relaxed);
        }
    }

    /// Adds the dead mark, after the item was unlinked.
    #[inline]
    pub(super) fn mark_dead(&self) {
        let dead = self.access().with_dead_mark();
        // Release: pairs with `is_marked_dead`. An evacuating thread that loads the mark, and skips
        // the block, also sees that the block was unlinked. The same holds for every thread that
        // later learns through the epochs (`epochs.rs`) that the segment was retired.
        self.0.store(dead.0, Ordering::Release);
    }

    /// Returns true if the word has the dead mark.
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
    fn an_access_time_is_exact_for_two_years() {
        let year_s = 365 * 86_400;
        for now_s in [0, 1, 100, 3 * year_s, 5 * year_s, 60 * year_s, u32::MAX - 1] {
            let access = Access::new(now_s)
                .with_stale_and_claimed(true, true)
                .with_base64_key(true);
            for later_s in [0, 1, 3_600, 2 * year_s] {
                assert_eq!(access.time_s(now_s.saturating_add(later_s)), now_s);
            }
            // A thread whose clock is one second behind also gets the exact time.
            assert_eq!(access.time_s(now_s.saturating_sub(1)), now_s);
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod weak_memory;
