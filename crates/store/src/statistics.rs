//! What the store says of itself.

/// Sums over the whole store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The bound on `bytes_used` and `bytes_pinned` together.
    pub limit_bytes: u64,
    /// Memory of items, index and uploads.
    pub bytes_used: u64,
    /// Of those, the index.
    pub index_bytes: u64,
    /// Memory held by pins.
    pub bytes_pinned: u64,
    /// Items now, those expired and not yet reclaimed included.
    pub items: u64,
    /// Items stored since the start.
    pub items_stored: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Of those, never read.
    pub evicted_unfetched: u64,
    /// Items reclaimed after they expired or were flushed.
    pub expired: u64,
    /// Of those, never read.
    pub expired_unfetched: u64,
}
