//! When memory can be reclaimed although no request arrives.
//!
//! The memory of a segment can be reclaimed from the second on at which all its items have expired.
//! The log keeps the earliest such second, so that a thread can sleep until then
//! (`Worker::reclaim_expired`). Opening a segment for an item with an expiry may make this second
//! earlier. Further items in the segment may expire later, so the second is only a lower bound. The
//! thread computes it again each time the thread wakes up.

use super::Log;
use crate::expiry::Expiry;
use crate::heap::segment::{FIRST_BLOCK, Phase};
use crate::sync::atomic::Ordering;

impl Log {
    /// Records that a segment was opened for an item with this expiry.
    pub(super) fn note_opened(&self, expiry: Expiry) {
        let second = expiry.word();
        if second < self.reclaim_s.fetch_min(second, Ordering::Relaxed) {
            // The second is earlier than before, so wake the thread that sleeps until then.
            self.needs_page_maintenance.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the earliest second at which a segment may be reclaimable, as an expiry.
    pub(crate) fn reclaim_time(&self) -> Expiry {
        Expiry::from_word(self.reclaim_s.load(Ordering::Relaxed))
    }

    /// Computes the earliest second again. Returns true if it is not after `now_s`, so that a
    /// segment may be reclaimable now. In this case the log keeps the second after `now_s` instead.
    /// Examines all segments.
    pub(crate) fn update_reclaim_time(&self, now_s: u32) -> bool {
        // Reset the second before examining the segments, so that a segment that is opened
        // meanwhile counts.
        self.reclaim_s
            .store(Expiry::NEVER.word(), Ordering::Relaxed);
        let segments = 0..self.lists().first_unused;
        let times = segments.filter_map(|number| self.time_of(number));
        let Some(time) = times.min() else {
            return false;
        };
        let second = time.word().max(now_s.saturating_add(1));
        self.reclaim_s.fetch_min(second, Ordering::Relaxed);
        time.is_past(now_s)
    }

    /// Returns when all items of a segment will have expired. `None` if this will never be, or if
    /// the segment has no items. The expiry of an open segment without a block is not known yet, so
    /// it is 0.
    fn time_of(&self, number: u32) -> Option<Expiry> {
        let segment = self.heap.segment(number);
        let is_unused = match segment.phase() {
            Phase::Open => false,
            Phase::Sealed => segment.tail() <= FIRST_BLOCK,
            Phase::Free | Phase::Evacuating | Phase::Retired => true,
        };
        Some(segment.expiry()).filter(|time| !is_unused && *time != Expiry::NEVER)
    }
}
