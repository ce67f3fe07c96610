//! Computes for the statistics how full the segments are, and how old the oldest segment is. A
//! worker computes this between two requests, so the cost must not grow with the number of
//! segments.

use super::segment_list::SegmentList;
use super::{Log, NONE};
use crate::heap::segment::{FIRST_BLOCK, Phase, Segment};
use crate::sync::atomic::Ordering;

/// The amount and the age of what all segments contain.
#[derive(Debug)]
pub(crate) struct Content {
    /// Total length, in bytes, of all blocks, whether an item uses them (live) or not (dead).
    pub(crate) bytes_occupied: u64,
    /// The time at which the oldest segment was opened, in seconds. Only the open segments and the
    /// oldest sealed segment of each part are compared. `None` if nothing has been written.
    pub(crate) oldest_s: Option<u32>,
}

impl Log {
    /// Returns the content of all segments. Visits only the open segments and the oldest sealed
    /// segment of each part. The bytes in the other segments are a running sum,
    /// `SegmentLists::bytes_occupied`.
    pub(crate) fn content(&self) -> Content {
        let size = self.heap.segment_size();
        let lists = self.lists();
        let mut content = Content {
            bytes_occupied: lists.bytes_occupied,
            oldest_s: None,
        };
        let mut compare_age = |segment: &Segment| {
            let oldest_s = content.oldest_s.unwrap_or(u32::MAX);
            content.oldest_s = Some(oldest_s.min(segment.opened_s()));
        };
        for open_segment in &self.open_segments {
            let number = open_segment.0.load(Ordering::Relaxed);
            if number == NONE {
                continue;
            }
            let segment = self.heap.segment(number);
            if segment.phase() == Phase::Open {
                // A failed allocation advances the tail beyond the end.
                content.bytes_occupied += u64::from(segment.tail().min(size) - FIRST_BLOCK);
                compare_age(segment);
            }
        }
        for oldest_sealed in lists.sealed.iter().filter_map(SegmentList::first) {
            compare_age(self.heap.segment(oldest_sealed));
        }
        content
    }
}
