//! The lists of segments that are not open, one list for each state.

use std::collections::VecDeque;

use super::segment_list::{Links, SegmentList};
use crate::epochs::Stamp;
use crate::heap::SegmentNumber;

/// The segments that are not open, by state. [`Log`](super::Log) has a lock for them.
#[derive(Debug, Default)]
pub(super) struct SegmentLists {
    /// Empty segments that count as *resident*: they may have pages of memory.
    pub(super) free: Vec<SegmentNumber>,
    /// Evacuated segments that readers may still use, oldest first. Each becomes free once its
    /// epoch stamp has passed, because every worker has then been quiescent.
    pub(super) retired: VecDeque<(SegmentNumber, Stamp)>,
    /// Evacuated segments whose stamp has passed. Each becomes free once no pin or upload holds it.
    pub(super) held: Vec<SegmentNumber>,
    /// Empty segments whose pages are to be returned to the kernel.
    pub(super) to_discard: Vec<SegmentNumber>,
    /// Empty segments whose pages were returned to the kernel.
    pub(super) absent: Vec<SegmentNumber>,
    /// The lowest number of a segment that was never opened. Segments are first used in the order
    /// of their numbers.
    pub(super) first_unused: SegmentNumber,
    /// The lowest number of a segment whose pages were never populated in advance.
    pub(super) first_unpopulated: SegmentNumber,
    /// Number of discarded segments that are being populated. They count as resident.
    pub(super) populating: u32,
    /// Sealed segments of each part, oldest first.
    pub(super) sealed: [SegmentList; 2],
    /// The links of the lists in `sealed`, indexed by segment number.
    pub(super) links: Vec<Links>,
    /// Total length of the blocks, dead and live, in segments that are sealed or being evacuated.
    pub(super) bytes_occupied: u64,
    /// Number of segments that may have pages, without those in `to_discard`.
    pub(super) resident: u32,
    /// The segment that the search for victims (segments to evacuate) with few or no live bytes has
    /// examined last. The search advances through all segment numbers cyclically.
    pub(super) clock_hand: SegmentNumber,
    /// Number of segments that this search has examined without success while a tenth of the memory
    /// is dead.
    pub(super) fruitless: u32,
    /// No memory was left for the copies of the last compaction.
    pub(super) must_evict: bool,
}

impl SegmentLists {
    /// Creates empty lists with capacity for `count` segments, because growing a list later would
    /// copy it under the lock.
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
