//! Why a read finds no item.

/// Why a read misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// The key has no item.
    Absent,
    /// The item has expired, and this read has unlinked it. Later reads return [`Miss::Absent`].
    Expired,
    /// The item was flushed, and this read has unlinked it. Later reads return [`Miss::Absent`].
    Flushed,
}
