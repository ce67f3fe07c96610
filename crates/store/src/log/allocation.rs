//! What an allocation needs, and what it returns.

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::{Location, SegmentNumber};

/// The properties of a new block from which the log selects an open segment for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocTarget {
    /// The stripe of the worker that writes the block: its group of workers that share open
    /// segments.
    pub(crate) stripe: usize,
    /// The small or the main part of the log.
    pub(crate) part: Part,
    pub(crate) expiry: Expiry,
    /// The current second.
    pub(crate) now_s: u32,
    /// Whether the block is a copy made by evacuation. Only copies may use the last free segments.
    pub(crate) is_copy: bool,
}

/// Memory allocated for a block. The segment is held for the writer, so that it is not evacuated,
/// until [`release_writer`](crate::heap::segment::Segment::release_writer).
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) location: Location,
    /// The number of the segment.
    pub(crate) number: SegmentNumber,
}
