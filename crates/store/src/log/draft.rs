//! A block between its allocation and its link to the index.

use super::allocation::Allocation;
use crate::heap::{BlockRef, Heap};

/// A block that a writer is filling or has filled, and that the index does not refer to yet. It
/// holds its segment, so that the segment is not evacuated. Dropping the draft releases the
/// segment.
#[derive(Debug)]
pub(crate) struct Draft<'s> {
    pub(crate) block_ref: BlockRef<'s>,
}

impl<'s> Draft<'s> {
    /// Creates a draft in allocated memory. The draft takes over the allocation's hold on the
    /// segment.
    #[inline]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the allocation's hold on its segment passes to the draft"
    )]
    pub(crate) fn new(heap: &'s Heap, allocation: Allocation) -> Self {
        let Allocation { location, number } = allocation;
        let block_ref = BlockRef {
            location,
            // SAFETY: the memory was allocated for this block. The draft holds the block's segment,
            // so the memory is not reused until the draft is dropped.
            block: unsafe { heap.block(location) },
            segment: heap.segment(number),
        };
        Self { block_ref }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.block_ref.segment.release_writer();
    }
}
