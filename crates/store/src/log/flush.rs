//! The flushes of a store: how many there were, and when the next one is due.
//!
//! The number of flushes is the store's *flush generation*. A segment records the generation in
//! which it was opened, and its items are flushed as soon as the store's generation differs from
//! it.
//!
//! Once the second of a delayed flush has come, the first worker that accesses an item, does
//! maintenance or requests another flush performs the delayed flush. The generation and the time of
//! the delayed flush are in one atomic word, so that performing the flush is one step for all
//! workers. With two words, a worker could clear the due time and be preempted before it counts the
//! flush. Other workers would meanwhile see neither the delayed flush nor the new generation. They
//! would return flushed items, and store items that the late flush then invalidates.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The value of [`last_s`] if no flush is delayed. No second is later, so that such a flush never
/// becomes due.
const NO_FLUSH: u32 = u32::MAX;

/// The number of flushes of a store in bits 0 to 31, and the last second before a delayed flush is
/// due in bits 32 to 63.
///
/// The word guards no other memory, so all accesses are `Relaxed`. A load may return an old word.
/// If a flush is due according to an old word, the compare-exchange in [`Flushes::perform`] fails
/// and returns the newest word, so no flush is counted twice. No flush is missed either. A worker
/// that knows of a request for a flush loads the word that the request has stored, or a later one.
/// Each of these words contains the second of the flush, until one of them counts the flush.
#[derive(Debug)]
pub(super) struct Flushes(AtomicU64);

impl Flushes {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(word(NO_FLUSH, 0)))
    }

    /// Returns the number of flushes so far. A delayed flush is counted when it is performed, not
    /// when it is requested.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        count(self.0.load(Ordering::Relaxed))
    }

    /// Whether a delayed flush has not been performed.
    pub(super) fn is_delayed(&self) -> bool {
        last_s(self.0.load(Ordering::Relaxed)) != NO_FLUSH
    }

    /// Performs the delayed flush if it is due. Returns the number of flushes so far.
    #[inline]
    pub(super) fn perform_due(&self, now_s: u32) -> u32 {
        let current = self.0.load(Ordering::Relaxed);
        if last_s(current) >= now_s {
            return count(current);
        }
        self.perform(now_s)
    }

    /// As [`Flushes::perform_due`], after a load has found a flush due.
    #[cold]
    fn perform(&self, now_s: u32) -> u32 {
        let perform = |current| {
            let is_due = last_s(current) < now_s;
            is_due.then(|| word(NO_FLUSH, count(current).wrapping_add(1)))
        };
        match self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, perform)
        {
            Ok(before) => count(before).wrapping_add(1),
            // Another worker has performed it.
            Err(current) => count(current),
        }
    }

    /// Flushes in second `at_s`, or immediately if `at_s` is not in the future. Replaces a delayed
    /// flush that is still in the future. A delayed flush that is due already is performed. If this
    /// flush is immediate too, the count nevertheless increases only by one.
    pub(super) fn flush(&self, at_s: u32, now_s: u32) {
        let flush = |current| {
            let is_delayed = at_s > now_s;
            // If the flush is delayed, `at_s` is greater than `now_s`, so it is not 0.
            let last_s_after = if is_delayed { at_s - 1 } else { NO_FLUSH };
            let is_performed = !is_delayed || last_s(current) < now_s;
            let count_after = count(current).wrapping_add(u32::from(is_performed));
            Some(word(last_s_after, count_after))
        };
        // The closure never returns `None`, so the update does not fail.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, flush);
    }
}

impl super::Log {
    /// Returns the number of flushes so far. `None` if a delayed flush has not been performed, so
    /// that the present items will be flushed later.
    pub(crate) fn final_flush_count(&self) -> Option<u32> {
        (!self.flushes.is_delayed()).then(|| self.flushes.count())
    }
}

/// Combines the two numbers of [`Flushes`] into its word.
fn word(last_s: u32, count: u32) -> u64 {
    u64::from(last_s) << 32 | u64::from(count)
}

/// Returns the last second before the delayed flush is due.
fn last_s(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Returns the number of flushes.
fn count(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_delayed_flush_is_performed_once_and_in_its_second() {
        let flushes = Flushes::new();
        // In second 1, a flush in second 10 is requested.
        flushes.flush(10, 1);
        assert_eq!(
            [9, 10, 10, 11].map(|now_s| flushes.perform_due(now_s)),
            [0, 1, 1, 1]
        );
    }

    /// A clock whose seconds exceed 32 bits shows the greatest second.
    #[test]
    fn in_the_greatest_second_only_a_requested_flush_is_performed() {
        let flushes = Flushes::new();
        assert_eq!(flushes.perform_due(u32::MAX), 0);
        flushes.flush(u32::MAX, 1);
        assert_eq!(
            [u32::MAX - 1, u32::MAX, u32::MAX].map(|now_s| flushes.perform_due(now_s)),
            [0, 1, 1]
        );
    }

    #[test]
    fn a_new_flush_replaces_one_in_the_future_but_not_one_that_is_due() {
        let flushes = Flushes::new();
        flushes.flush(10, 1);
        flushes.flush(20, 2);
        assert_eq!(flushes.perform_due(19), 0);
        flushes.flush(30, 20);
        assert_eq!(flushes.count(), 1, "the flush in second 20 was due");
        flushes.flush(0, 21);
        assert_eq!(flushes.count(), 2);
        assert_eq!(
            flushes.perform_due(40),
            2,
            "the flush in second 30 was replaced"
        );
    }
}
