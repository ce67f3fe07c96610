//! Decides whether a block may fill a *hole*, the space of an overwritten or deleted item
//! (`worker/holes.rs`). The hole's segment must have a similar expiry, and must not be evicted
//! soon.

use super::Log;
use crate::heap::segment::Segment;
use crate::log::AllocTarget;
use crate::sync::atomic::Ordering;

impl Log {
    /// Returns true if a block with the properties in `target` may fill a hole in this segment.
    #[inline]
    pub(crate) fn accepts(&self, segment: &Segment, target: &AllocTarget) -> bool {
        let is_evicting = self.is_evicting.load(Ordering::Relaxed);
        self.accepts_expiry(segment, target) && !(is_evicting && self.is_old(segment))
    }

    /// Returns true if no flush (`flush_all`) has invalidated the items of the segment, and no pin
    /// or unfinished upload holds the segment.
    #[inline]
    pub(crate) fn is_reusable(&self, segment: &Segment) -> bool {
        segment.flush_generation() == self.flush_count() && !segment.is_held()
    }

    /// Returns true if a block with the expiry in `target` may be added to this segment.
    #[inline]
    fn accepts_expiry(&self, segment: &Segment, target: &AllocTarget) -> bool {
        segment.expiry() == target.expiry || self.accepts_other_expiry(segment, target)
    }

    /// As [`Log::accepts_expiry`], for a segment whose expiry differs from the block's. If this
    /// function were inlined, the compiler would compute the result even for equal expiries.
    #[inline(never)]
    fn accepts_other_expiry(&self, segment: &Segment, target: &AllocTarget) -> bool {
        let (current, new) = (segment.expiry(), target.expiry);
        // A segment can be reclaimed without copies once its latest expiry has passed. So a block
        // may raise this expiry only while the segment's age is at most the block's time to live.
        // Otherwise an item that is written again and again could raise it each time, and the
        // expired blocks around the item would not be reclaimed.
        let may_raise = || {
            let open_for_s = target.now_s.saturating_sub(segment.opened_s());
            let left_s = new.seconds_left(target.now_s);
            left_s.is_none_or(|left_s| open_for_s <= left_s)
        };
        self.class(current, target.now_s) == self.class(new, target.now_s)
            && (current >= new || may_raise())
    }

    /// Returns true if the segment is in the oldest quarter of its part of the log, which is the
    /// small or the main part ([`Part`](crate::eviction_policy::Part)). While the store evicts
    /// items, a block written there would probably be evicted before its first request.
    fn is_old(&self, segment: &Segment) -> bool {
        let part = segment.part();
        let share = self.part_shares()[part as usize];
        // Each segment of a part gets a number when it is opened, which is 2 above the number of
        // the segment opened before it (`part_of_opening`). So the age is the number of segments of
        // this part that were opened later.
        let openings = self.openings[part as usize].load(Ordering::Relaxed);
        let age = openings.wrapping_sub(segment.opening()) / 2;
        // At most `stripes * classes` segments of a part are open at a time. A segment whose age is
        // not above this number may still be open, so it is not old. This matters in a part with
        // few segments.
        let young = (share / 4 * 3).max((self.stripes * self.classes) as u32);
        age > young
    }
}
