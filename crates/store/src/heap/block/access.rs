//! When an item was last asked for, and what has become of it: a value ([`Access`]), and the word
//! of the block it is kept in ([`AccessWord`]).

use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of the second of the last access: 28 bits of seconds are 8.5 years.
const ACCESS_MASK: u32 = (1 << 28) - 1;
const DEAD: u32 = 1 << 28;
const FETCHED: u32 = 1 << 29;
const STALE: u32 = 1 << 30;
const CLAIMED: u32 = 1 << 31;

/// When an item was last asked for, and what has become of it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

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
    fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The same item without an entry. A reader that found the item before is still shown its
    /// facts.
    #[must_use]
    fn dead(self) -> Self {
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

/// Four bytes of a block that threads share, in plain memory; or what stands for them in a model.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    /// Relaxed, whether it stores `after` or not.
    fn replace(&self, before: u32, after: u32);
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
    fn replace(&self, before: u32, after: u32) {
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

    /// Records a read of an item, which can expire or not. Of several concurrent readers the last
    /// to write has its second recorded.
    #[inline]
    pub(super) fn notice(&self, before: Access, after: Access, is_timed: impl FnOnce() -> bool) {
        if before.is_dead() {
            // Only `mark_dead` writes the mark, with release; a relaxed copy of it would let
            // evacuation skip the block without having acquired its unlinking.
        } else if before.is_stale() || is_timed() {
            // A plain store could overwrite a concurrent claim. Only a stale item, or one that
            // expires, can be claimed.
            self.0.replace(before.0, after.0);
        } else {
            // It may overwrite a concurrent dead mark, which is a hint: better that than a locked
            // instruction for each item that is read, whose line its writer's core still has.
            self.0.store(after.0, Ordering::Relaxed);
        }
    }

    /// Adds the mark of an item that has been unlinked.
    #[inline]
    pub(super) fn mark_dead(&self) {
        let dead = self.access().dead();
        // Release: pairs with `is_marked_dead`: the thread that skips the block has seen its
        // unlinking, and so has every thread that learns of the segment's retirement.
        self.0.store(dead.0, Ordering::Release);
    }

    /// Whether the item is marked.
    #[inline]
    pub(super) fn is_marked_dead(&self) -> bool {
        // Acquire: pairs with `mark_dead`.
        Access(self.0.load(Ordering::Acquire)).is_dead()
    }
}

#[cfg(test)]
#[cfg(loom)]
mod weak_memory;
