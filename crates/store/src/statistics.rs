//! What the store says of itself.

/// Bounds in seconds of the ages that evicted items are told apart by.
pub const EVICTED_AGES_S: [u32; 6] = [1, 10, 60, 600, 3_600, 86_400];

/// Sums over the whole store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The bound on segments, index, ghosts and small caches together, in bytes.
    pub limit_bytes: u64,
    /// Of items that may be found: key, value, header.
    pub bytes_live: u64,
    /// Of items in segments, those that are gone included.
    pub bytes_written: u64,
    /// Of the index.
    pub index_bytes: u64,
    /// Of the names of items that have left.
    pub ghost_bytes: u64,
    /// Of the small caches that tell how eviction should lean.
    pub miniature_bytes: u64,
    /// How eviction leans now: `frequent`, `next_to_populate`, `recent` or `clock`.
    pub eviction_policy: &'static str,
    /// How often that has changed.
    pub policy_changes: u64,
    /// Of values held by pins.
    pub bytes_pinned: u64,
    /// Of segments that pins and uploads under way keep from being used again.
    pub bytes_held: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments that are resident.
    pub segments: u64,
    /// Segments that may be resident.
    pub segments_allowed: u64,
    /// The second in which the oldest of all segments was opened that are open or next to be
    /// evacuated; none: nothing has been written.
    pub oldest_segment_s: Option<u32>,
    /// Items now, those expired and not yet reclaimed included.
    pub items: u64,
    /// Items stored since the start.
    pub items_stored: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Of those, never read.
    pub evicted_unfetched: u64,
    /// Of those evicted, from the main part, where most of what was asked for again lies.
    pub evicted_main: u64,
    /// Those evicted by the seconds since their last request: fewer than each of
    /// [`EVICTED_AGES_S`], and the rest.
    pub evicted_ages: [u64; EVICTED_AGES_S.len() + 1],
    /// Items reclaimed after they expired or were flushed.
    pub expired: u64,
    /// Of those, never read.
    pub expired_unfetched: u64,
    /// Of those evicted, for want of a place in the index.
    pub displaced: u64,
    /// Blocks copied so that their segments could be used again.
    pub copied: u64,
    /// Bytes of them.
    pub copied_bytes: u64,
    /// New items that were known from before.
    pub returned: u64,
    /// Blocks written where an item of the same length had been.
    pub refilled: u64,
    /// Segments drained.
    pub evacuated: u64,
    /// How often a worker had to wait for a segment.
    pub waits: u64,
}

impl Statistics {
    /// Memory of items, dead or alive, and of what finds them.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.segments * self.segment_bytes
            + self.index_bytes
            + self.ghost_bytes
            + self.miniature_bytes
    }
}
