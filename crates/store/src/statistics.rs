//! Statistics of the store.

pub(crate) mod counters;
pub(crate) mod hot;
pub(crate) mod size_class;

/// The upper bounds, in seconds, of the age ranges by which evicted items are counted.
pub const EVICTED_AGES_S: [u32; 6] = [1, 10, 60, 600, 3_600, 86_400];

/// The statistics of a store. Counts of events are totals since the store was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The memory limit, in bytes, of segments, index, ghosts (the remembered hashes of evicted
    /// items) and miniatures (simulations of eviction policies) together.
    pub limit_bytes: u64,
    /// Bytes of the blocks of all present items: headers, keys and values.
    pub bytes_live: u64,
    /// Bytes of all blocks in segments, including blocks that no item uses any more.
    pub bytes_occupied: u64,
    /// Size of the index in bytes.
    pub index_bytes: u64,
    /// Size of the ghosts in bytes.
    pub ghost_bytes: u64,
    /// Size of the miniatures in bytes.
    pub miniature_bytes: u64,
    /// The current eviction policy: `frequent`, `returning`, `recent` or `clock`.
    pub eviction_policy: &'static str,
    /// Number of changes of the eviction policy.
    pub policy_changes: u64,
    /// Bytes of the values that pins refer to.
    pub bytes_pinned: u64,
    /// Bytes of the segments that pins and unfinished uploads hold, or have reserved the right to
    /// hold. A held segment is not reused.
    pub bytes_held: u64,
    /// Bytes outside the segments of values that are being sent or received slowly.
    pub bytes_spooled: u64,
    /// Size of a segment in bytes.
    pub segment_bytes: u64,
    /// Number of segments that may have memory: the resident ones, and those whose memory is about
    /// to be returned to the kernel.
    pub segments: u64,
    /// Maximum number of resident segments.
    pub segments_allowed: u64,
    /// The time at which the oldest segment was opened, in seconds. Only the open segments and the
    /// oldest sealed segment of each part are compared. `None` if nothing has been written.
    pub oldest_segment_s: Option<u32>,
    /// Number of items in the index. Includes expired and flushed items that were not unlinked yet.
    pub items: u64,
    /// Number of times an item was stored. Not counted are changes that memcached makes in place:
    /// arithmetic whose result is not longer, and marks.
    pub items_stored: u64,
    /// Number of evicted items.
    pub evicted: u64,
    /// Number of evicted items that were never read.
    pub evicted_unfetched: u64,
    /// Number of items evicted from the main part of the log. Most items that were requested again
    /// are in that part.
    pub evicted_main: u64,
    /// Number of evicted items by age, which is the time since the item's last request. The first
    /// element counts the ages below the first bound in [`EVICTED_AGES_S`], each further element
    /// those from one bound to below the next, and the last element those from the last bound on.
    pub evicted_ages: [u64; EVICTED_AGES_S.len() + 1],
    /// Number of items unlinked, or replaced by a write, after they expired or were flushed.
    pub expired: u64,
    /// Number of items counted in `expired` that were never read.
    pub expired_unfetched: u64,
    /// Number of items evicted because the index had no free slot.
    pub evicted_index_full: u64,
    /// Number of blocks copied during evacuation.
    pub copied: u64,
    /// Bytes of blocks copied during evacuation.
    pub copied_bytes: u64,
    /// Number of new items whose key had a ghost.
    pub ghost_hits: u64,
    /// Number of blocks written into holes, the spaces of overwritten or deleted items.
    pub holes_filled: u64,
    /// Number of evacuated segments. Evacuation copies the blocks to be kept out of a segment.
    pub evacuated: u64,
    /// Number of times a worker waited for a segment.
    pub waits: u64,
}

impl Statistics {
    /// The memory that the store uses, in bytes: resident segments, index, ghosts and miniatures.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.segments * self.segment_bytes
            + self.index_bytes
            + self.ghost_bytes
            + self.miniature_bytes
    }
}
