//! Which holes a block may fill: those in segments of a suitable expiry that are not evicted soon.

use super::Log;
use crate::heap::segment::Segment;
use crate::log::AllocTarget;
use crate::sync::atomic::Ordering;

impl Log {
    /// Whether a block for this target may be placed in a hole of this segment instead.
    #[inline]
    pub(crate) fn accepts(&self, segment: &Segment, target: &AllocTarget) -> bool {
        let is_evicting = self.is_evicting.load(Ordering::Relaxed);
        self.accepts_expiry(segment, target) && !(is_evicting && self.is_old(segment))
    }

    /// Whether the segment is neither flushed nor held by a peer.
    #[inline]
    pub(crate) fn is_reusable(&self, segment: &Segment) -> bool {
        segment.flush_generation() == self.flush_count() && !segment.is_held()
    }

    #[inline]
    fn accepts_expiry(&self, segment: &Segment, target: &AllocTarget) -> bool {
        segment.expiry() == target.expiry || self.accepts_other_expiry(segment, target)
    }

    /// As [`Log::accepts_expiry`], for a segment with an expiry other than the block's. Not
    /// inlined: if it were, the compiler would compute its arithmetic before the comparison that
    /// makes it unnecessary.
    #[inline(never)]
    fn accepts_other_expiry(&self, segment: &Segment, target: &AllocTarget) -> bool {
        let (current, wanted) = (segment.expiry(), target.expiry);
        // A hole is reused only while the segment's age is at most the block's TTL. Otherwise a
        // block that is written repeatedly would keep the expired blocks around it.
        let may_raise = || {
            let open_for_s = target.now_s.saturating_sub(segment.opened_s());
            let left_s = wanted.seconds_left(target.now_s);
            left_s.is_none_or(|left_s| open_for_s <= left_s)
        };
        self.class(current, target.now_s) == self.class(wanted, target.now_s)
            && (current >= wanted || may_raise())
    }

    /// Whether the segment belongs to the oldest quarter of its part. While items are being
    /// evicted, a block written there would probably be evicted before its first request.
    fn is_old(&self, segment: &Segment) -> bool {
        let part = segment.part();
        let share = self.part_shares()[part as usize];
        // Openings of one part differ by two (`part_of_opening`).
        let openings = self.openings[part as usize].load(Ordering::Relaxed);
        let age = openings.wrapping_sub(segment.opening()) / 2;
        // Segments as young as the open ones are never old.
        let young = (share / 4 * 3).max((self.stripes * self.classes) as u32);
        age > young
    }
}
