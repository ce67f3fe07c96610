//! The lists of segments that are not open, by state.

use std::collections::VecDeque;

use super::segment_list::{Links, SegmentList};
use crate::epochs::Stamp;
use crate::heap::SegmentNumber;

/// The segments that are not open. A part of [`Log`](super::Log), under its lock.
#[derive(Debug, Default)]
pub(super) struct SegmentLists {
    /// Resident, empty segments.
    pub(super) free: Vec<SegmentNumber>,
    /// Evacuated segments that readers may still use, oldest first. Each becomes free once its
    /// epoch stamp has passed.
    pub(super) retired: VecDeque<(SegmentNumber, Stamp)>,
    /// Segments whose stamp has passed. Each becomes free once no pin or upload holds it.
    pub(super) held: Vec<SegmentNumber>,
    /// Empty segments whose pages are to be returned to the kernel.
    pub(super) to_discard: Vec<SegmentNumber>,
    /// Segments whose pages were returned to the kernel.
    pub(super) absent: Vec<SegmentNumber>,
    /// Number of the first segment that was never used.
    pub(super) first_unused: SegmentNumber,
    /// Number of the first segment whose pages were never populated.
    pub(super) first_unpopulated: SegmentNumber,
    /// Number of discarded segments that are being populated, which count as resident.
    pub(super) populating: u32,
    /// Sealed segments of each part, oldest first.
    pub(super) sealed: [SegmentList; 2],
    /// The links of `sealed`, by segment.
    pub(super) links: Vec<Links>,
    /// Bytes of blocks, dead or live, in segments that are sealed or being evacuated.
    pub(super) bytes_occupied: u64,
    /// Number of segments that may have pages.
    pub(super) resident: u32,
    /// The segment examined last by the search for segments that are cheap to evacuate.
    pub(super) clock_hand: SegmentNumber,
}

impl SegmentLists {
    /// Lists with capacity for `count` segments, because growing a list would copy it under the
    /// lock.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            free: Vec::with_capacity(count),
            retired: VecDeque::with_capacity(count),
            held: Vec::with_capacity(count),
            to_discard: Vec::with_capacity(count),
            absent: Vec::with_capacity(count),
            links: Vec::with_capacity(count),
            ..Self::default()
        }
    }
}
