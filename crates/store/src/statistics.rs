//! Statistics of the store.

/// Upper bounds, in seconds, of the age classes of evicted items.
pub const EVICTED_AGES_S: [u32; 6] = [1, 10, 60, 600, 3_600, 86_400];

/// Sums over the whole store. Byte counts are in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The limit of segments, index, ghosts and miniatures together.
    pub limit_bytes: u64,
    /// Bytes of live items: key, value, header.
    pub bytes_live: u64,
    /// Bytes of blocks in segments, live and dead.
    pub bytes_occupied: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the ghosts.
    pub ghost_bytes: u64,
    /// Bytes of the miniatures.
    pub miniature_bytes: u64,
    /// The current eviction policy: `frequent`, `returning`, `recent` or `clock`.
    pub eviction_policy: &'static str,
    /// Number of policy changes.
    pub policy_changes: u64,
    /// Bytes of values held by pins.
    pub bytes_pinned: u64,
    /// Bytes of segments that pins and unfinished uploads keep from being reused.
    pub bytes_held: u64,
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Resident segments.
    pub segments: u64,
    /// Segments that may be resident.
    pub segments_allowed: u64,
    /// The second in which the oldest segment was opened. Only open segments and the first segment
    /// of each eviction queue are compared. `None` if nothing has been written.
    pub oldest_segment_s: Option<u32>,
    /// Present items, including expired ones not yet reclaimed.
    pub items: u64,
    /// Items stored since the start.
    pub items_stored: u64,
    /// Evicted items.
    pub evicted: u64,
    /// Evicted items that were never read.
    pub evicted_unfetched: u64,
    /// Items evicted from the main part, which holds most items that were requested again.
    pub evicted_main: u64,
    /// Evicted items by age, the time since their last request. Each class ends below one of
    /// [`EVICTED_AGES_S`]; the last has no upper bound.
    pub evicted_ages: [u64; EVICTED_AGES_S.len() + 1],
    /// Items reclaimed after they expired or were flushed.
    pub expired: u64,
    /// Reclaimed items that were never read.
    pub expired_unfetched: u64,
    /// Items evicted because the index had no free slot.
    pub evicted_index_full: u64,
    /// Blocks copied during evacuation.
    pub copied: u64,
    /// Bytes of copied blocks.
    pub copied_bytes: u64,
    /// New items whose ghost was still remembered.
    pub ghost_hits: u64,
    /// Blocks written into holes.
    pub holes_filled: u64,
    /// Evacuated segments.
    pub evacuated: u64,
    /// Number of times a worker waited for a segment.
    pub waits: u64,
}

impl Statistics {
    /// Resident memory of the store: segments, index, ghosts and miniatures.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.segments * self.segment_bytes
            + self.index_bytes
            + self.ghost_bytes
            + self.miniature_bytes
    }
}
