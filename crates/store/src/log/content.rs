//! Computes for the statistics how full the segments are, and how old the oldest is. A worker does
//! this between two requests, so the cost must not grow with the number of segments.

use super::segment_list::SegmentList;
use super::{Log, NONE};
use crate::heap::segment::{FIRST_BLOCK, Phase};
use crate::sync::atomic::Ordering;

/// The amount and the age of what all segments contain.
#[derive(Debug)]
pub(crate) struct Content {
    /// Total length of all blocks, dead and live, in bytes.
    pub(crate) bytes_occupied: u64,
    /// The second in which the oldest segment was opened. Only open segments and the first segment
    /// of each eviction queue are compared. `None` if nothing has been written.
    pub(crate) oldest_s: Option<u32>,
}

impl Log {
    /// Returns the content of all segments. Visits only the open segments and the oldest sealed
    /// segment of each part. For the other sealed segments, `SegmentLists` has a running sum.
    pub(crate) fn content(&self) -> Content {
        let size = self.heap.segment_size();
        let lists = self.lists();
        let mut content = Content {
            bytes_occupied: lists.bytes_occupied,
            oldest_s: None,
        };
        let oldest = lists.sealed.iter().filter_map(SegmentList::first);
        let open = self
            .open_segments
            .iter()
            .map(|open_segment| open_segment.0.load(Ordering::Relaxed));
        let open = open
            .filter(|&number| number != NONE && self.heap.segment(number).phase() == Phase::Open);
        for number in open.chain(oldest) {
            let segment = self.heap.segment(number);
            if segment.phase() == Phase::Open {
                content.bytes_occupied += u64::from(segment.tail().min(size) - FIRST_BLOCK);
            }
            let oldest_s = content.oldest_s.unwrap_or(u32::MAX);
            content.oldest_s = Some(oldest_s.min(segment.opened_s()));
        }
        content
    }
}
