//! The lists of segments that are not open, by state.

use std::collections::VecDeque;

use super::segment_list::{Links, SegmentList};
use crate::epochs::Stamp;
use crate::heap::Number;

/// The segments that are not open. A part of [`Log`](super::Log), under its lock.
#[derive(Debug, Default)]
pub(super) struct SegmentLists {
    /// Resident and empty.
    pub(super) free: Vec<Number>,
    /// Empty once their epoch stamp has passed, oldest first.
    pub(super) retired: VecDeque<(Number, Stamp)>,
    /// Empty once no pin or upload holds them.
    pub(super) held: Vec<Number>,
    /// To be returned to the kernel.
    pub(super) to_discard: Vec<Number>,
    /// Returned to the kernel.
    pub(super) absent: Vec<Number>,
    /// The first segment never used.
    pub(super) fresh: Number,
    /// The first segment whose pages were never populated.
    pub(super) populated: Number,
    /// Discarded segments that are being populated. They count as resident.
    pub(super) populating: u32,
    /// Sealed segments of each part, oldest first.
    pub(super) sealed: [SegmentList; 2],
    pub(super) links: Vec<Links>,
    /// Bytes of blocks, dead or live, in segments that are sealed or being evacuated.
    pub(super) bytes_occupied: u64,
    /// Segments that may have pages.
    pub(super) resident: u32,
    /// Position of the search for segments that are cheap to evacuate.
    pub(super) hand: Number,
}

impl SegmentLists {
    /// Lists with capacity for this many segments, since growing one would copy it under the lock.
    pub(super) fn for_segments(most: usize) -> Self {
        Self {
            free: Vec::with_capacity(most),
            retired: VecDeque::with_capacity(most),
            held: Vec::with_capacity(most),
            to_discard: Vec::with_capacity(most),
            absent: Vec::with_capacity(most),
            links: Vec::with_capacity(most),
            ..Self::default()
        }
    }
}
