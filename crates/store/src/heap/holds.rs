//! Segments that are held for peers. A peer is the client at the other end of a connection, and may
//! receive or send a value slowly. While a value is being sent, a pin holds the segments that
//! contain the blocks of the value. While a value is arriving, an upload holds the segments in
//! which the value is stored. The memory of a held segment is not reused. The number of held
//! segments is bounded: a pin or an upload first requests a [`Credit`] for as many segments as it
//! may need. An upload gets it only while at most half of them are held, so that uploads leave the
//! other half to pins.
//!
//! A value for which there is no credit need not wait for one: it is sent from a copy, or received
//! into memory outside the segments. This memory, the *spool*, is charged by its bytes, and bounded
//! too.

use crate::heap::segment::Segment;
use crate::heap::{Heap, SegmentNumber};
use crate::limits::{HELD_PART, SPOOL_MIN};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The numbers of segments and bytes that are held for peers. A segment with several holds is
/// counted once.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Number of held segments, plus the unused credit.
    segments: AtomicU32,
    /// Bytes of pinned values.
    pinned_bytes: AtomicU64,
    /// Bytes of the spool.
    spooled_bytes: AtomicU64,
}

/// For what a segment is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Pin,
    Upload,
}

/// The right to hold a number of further segments. They are counted as held from the time at which
/// the credit is granted.
#[derive(Debug)]
#[must_use]
pub(crate) struct Credit(u32);

impl Credit {
    /// A credit of no segments. A holder with this credit ignores the bound, and each segment is
    /// counted when it is held.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Returns the unused credit, and leaves none.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::none())
    }
}

impl Holds {
    /// The number of bytes of pinned values.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// The number of held segments, plus the unused credit.
    pub(crate) fn segments(&self) -> u32 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Counts the bytes of a value that is pinned now.
    pub(crate) fn pin_bytes(&self, bytes: u64) {
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the bytes of a value whose pin is dropped.
    pub(crate) fn unpin_bytes(&self, bytes: u64) {
        self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Requests the right to hold `count` segments of a store that has `segment_limit` segments.
    /// The bound is 1/[`HELD_PART`] of these for a pin, and half of that for an upload, at least
    /// one segment. Returns `None` if `count` and the number of held segments together exceed the
    /// bound. A request while no segment is held is granted even above the bound, so that a store
    /// with little memory can serve its largest item. So is one of an upload that is longer than
    /// its bound, while what is held is within it.
    pub(crate) fn request(&self, count: u32, holder: Holder, segment_limit: u32) -> Option<Credit> {
        let bound = match holder {
            Holder::Pin => segment_limit / HELD_PART,
            Holder::Upload => segment_limit / HELD_PART / 2,
        };
        let held_max = bound.max(1);
        let is_oversized = holder == Holder::Upload && count > held_max;
        let grant = |held: u32| {
            let is_granted =
                held == 0 || held + count <= held_max || is_oversized && held <= held_max;
            is_granted.then_some(held + count)
        };
        self.segments
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant)
            .is_ok()
            .then_some(Credit(count))
    }

    /// Charges `bytes` to the spool. Returns false if they do not fit into the bound: an eighth of
    /// `memory_bytes`, at least [`SPOOL_MIN`].
    pub(crate) fn spool(&self, bytes: usize, memory_bytes: u64) -> bool {
        let spooled_max = (memory_bytes / u64::from(HELD_PART)).max(SPOOL_MIN);
        let charge = |sum: u64| Some(sum + bytes as u64).filter(|&sum| sum <= spooled_max);
        self.spooled_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge)
            .is_ok()
    }

    pub(crate) fn unspool(&self, bytes: usize) {
        self.spooled_bytes
            .fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn spooled_bytes(&self) -> u64 {
        self.spooled_bytes.load(Ordering::Relaxed)
    }

    /// Holds a segment. The first hold of a segment uses up one unit of credit: the segment was
    /// counted when the credit was granted. If no credit is left, the segment is counted now.
    pub(crate) fn hold(&self, segment: &Segment, credit: &mut Credit) {
        if segment.hold() {
            if credit.0 > 0 {
                credit.0 -= 1;
            } else {
                self.segments.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Releases one hold of a segment. If it was the last hold, the segment is not counted any
    /// more.
    pub(crate) fn release(&self, heap: &Heap, number: SegmentNumber) {
        if heap.segment(number).release() {
            self.segments.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Gives unused credit back, so that its segments are not counted any more.
    pub(crate) fn return_credit(&self, Credit(unused): Credit) {
        self.segments.fetch_sub(unused, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_segment_with_several_holds_counts_once() {
        let holds = Holds::default();
        let (segments, size_bits, workers) = (4, 13, 1);
        let heap = Heap::new(segments, size_bits, workers).unwrap();
        let hold = |number| {
            let (count, segment_limit) = (1, 16);
            let mut credit = holds.request(count, Holder::Pin, segment_limit)?;
            holds.hold(heap.segment(number), &mut credit);
            holds.return_credit(credit);
            Some(())
        };
        assert_eq!([0, 0, 1].map(hold), [Some(()); 3]);
        assert_eq!(hold(2), None, "two of sixteen segments are the bound");
        holds.release(&heap, 0);
        assert_eq!(hold(2), None, "segment 0 still has one hold");
        holds.release(&heap, 0);
        assert_eq!(hold(2), Some(()));
    }

    #[test]
    fn uploads_leave_half_of_the_bound_to_pins() {
        let holds = Holds::default();
        let request = |holder| holds.request(1, holder, 64).is_some();
        let uploads = (0..64).take_while(|_| request(Holder::Upload)).count();
        let pins = (0..64).take_while(|_| request(Holder::Pin)).count();
        assert_eq!((uploads, pins), (4, 4));
    }

    #[test]
    fn a_request_above_the_bound_is_granted_to_one_holder_at_a_time() {
        let holds = Holds::default();
        let holders = AtomicU32::new(0);
        let request_and_return = || {
            for _ in 0..200_000 {
                // Nine of 64 segments are above the bound of eight, so the request is granted only
                // if no other thread has credit.
                if let Some(credit) = holds.request(9, Holder::Pin, 64) {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    holds.return_credit(credit);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(request_and_return);
            }
        });
    }
}
