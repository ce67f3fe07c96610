//! Segments held for slow peers: pins, and uploads that wait for their bytes, keep whole segments
//! from being reused. The number of held segments is bounded.

use crate::heap::segment::Segment;
use crate::heap::{Heap, SegmentNumber};
use crate::limits::HELD_PART;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts the segments held for peers. A segment with several holds is counted once.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    segments: AtomicU32,
    /// Bytes of pinned values.
    pinned_bytes: AtomicU64,
}

/// The right to hold a number of additional segments, which are counted as held already.
#[derive(Debug)]
#[must_use]
pub(crate) struct Credit(u32);

impl Credit {
    /// No credit: every segment is counted when it is held.
    pub(crate) fn none() -> Self {
        Self(0)
    }

    /// Takes the unused credit out.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::none())
    }
}

impl Holds {
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// Number of held segments, plus the unused credit of unfinished uploads.
    pub(crate) fn segments(&self) -> u32 {
        self.segments.load(Ordering::Relaxed)
    }

    pub(crate) fn pin_bytes(&self, bytes: u64) {
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn unpin_bytes(&self, bytes: u64) {
        self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Requests the right to hold `count` segments, of `segment_limit` in all. `None` if the bound
    /// is reached. While no segment is held, every request is granted, so that a small memory can
    /// serve its largest item.
    pub(crate) fn request(&self, count: u32, segment_limit: u32) -> Option<Credit> {
        let held_max = (segment_limit / HELD_PART).max(1);
        let grant = |held: u32| Some(held + count).filter(|&sum| held == 0 || sum <= held_max);
        self.segments
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant)
            .is_ok()
            .then_some(Credit(count))
    }

    /// Holds a segment. If it was not held before, this uses one unit of credit; without credit it
    /// is counted now.
    pub(crate) fn hold(&self, segment: &Segment, credit: &mut Credit) {
        if segment.hold() {
            if credit.0 > 0 {
                credit.0 -= 1;
            } else {
                self.segments.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn release(&self, heap: &Heap, number: SegmentNumber) {
        if heap.segment(number).release() {
            self.segments.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the unused credit.
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
        let heap = Heap::new(4, 13, 1).unwrap();
        let hold = |number| {
            let mut credit = holds.request(1, 16)?;
            holds.hold(heap.segment(number), &mut credit);
            holds.return_credit(credit);
            Some(())
        };
        assert_eq!([0, 0, 1].map(hold), [Some(()); 3]);
        assert_eq!(hold(2), None, "an eighth of sixteen");
        holds.release(&heap, 0);
        assert_eq!(hold(2), None, "it is held once more");
        holds.release(&heap, 0);
        assert_eq!(hold(2), Some(()));
    }

    #[test]
    fn a_request_above_the_limit_is_granted_to_one_holder_at_a_time() {
        let holds = Holds::default();
        let holders = AtomicU32::new(0);
        let hold_now_and_then = || {
            for _ in 0..200_000 {
                // More than the limit is granted only to the first holder.
                if let Some(credit) = holds.request(9, 64) {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    holds.return_credit(credit);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(hold_now_and_then);
            }
        });
    }
}
