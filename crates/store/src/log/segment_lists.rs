//! Segments that are not open, by what they are.

use std::collections::VecDeque;

use super::segment_list::{Links, SegmentList};
use crate::epochs::Stamp;
use crate::heap::Number;

/// Where segments are that no lane has. A part of [`Log`](super::Log), under its lock.
#[derive(Debug, Default)]
pub(super) struct SegmentLists {
    /// Resident and empty.
    pub(super) free: Vec<Number>,
    /// Empty once their stamp is over, oldest first.
    pub(super) retired: VecDeque<(Number, Stamp)>,
    /// Empty once nobody holds them.
    pub(super) held: Vec<Number>,
    /// To be given back to the kernel.
    pub(super) next_to_discard: Vec<Number>,
    /// Given back.
    pub(super) absent: Vec<Number>,
    /// The first never used.
    pub(super) fresh: Number,
    /// The first whose pages nobody has begun to find in advance.
    pub(super) populated: Number,
    /// Segments that were given back and whose pages are being found; they count as resident.
    pub(super) next_to_populate: u32,
    /// Full ones of each part, oldest first.
    pub(super) sealed: [SegmentList; 2],
    pub(super) links: Vec<Links>,
    /// Bytes of blocks, dead or alive, in segments that are full or being drained.
    pub(super) written: u64,
    /// Segments that may hold pages.
    pub(super) resident: u32,
    /// Where looking for what can be had cheaply goes on.
    pub(super) hand: Number,
}

impl SegmentLists {
    /// With room for so many in each list: to grow one would be to copy it, under the lock.
    pub(super) fn for_segments(most: usize) -> Self {
        Self {
            free: Vec::with_capacity(most),
            retired: VecDeque::with_capacity(most),
            held: Vec::with_capacity(most),
            next_to_discard: Vec::with_capacity(most),
            absent: Vec::with_capacity(most),
            links: Vec::with_capacity(most),
            ..Self::default()
        }
    }
}
