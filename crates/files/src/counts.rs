//! Counts of the operations that workers leave to others, of heads that were too slow, and of bytes
//! sent without a copy.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FileCount {
    /// Files opened, or names brought into memory.
    Opened,
    /// Parts of files read, or brought into memory.
    Read,
    /// Operations refused because too many waited already.
    Refused,
    /// Openers that have ended. Threads do the operations in their place.
    OpenersLost,
    /// Whether the io_uring has ended, by an error of the kernel or a panic: 1. Threads read in its
    /// place.
    RingLost,
    /// Requests answered with 408, because their heads took too long to arrive.
    SlowHeads,
    /// Bytes of documents sent from the page cache without a copy. Those of a part whose connection
    /// is lost right behind it are not counted.
    SendfileBytes,
}

impl FileCount {
    /// All counts.
    pub const ALL: [Self; 7] = [
        Self::Opened,
        Self::Read,
        Self::Refused,
        Self::OpenersLost,
        Self::RingLost,
        Self::SlowHeads,
        Self::SendfileBytes,
    ];

    /// The name in `stats`, behind the prefix of the service.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened_elsewhere",
            Self::Read => "read_elsewhere",
            Self::Refused => "refused_elsewhere",
            Self::OpenersLost => "openers_lost",
            Self::RingLost => "ring_lost",
            Self::SlowHeads => "slow_heads",
            Self::SendfileBytes => "sendfile_bytes",
        }
    }
}

/// The counts.
#[derive(Debug, Default)]
pub struct FileCounts([AtomicU64; FileCount::ALL.len()]);

impl FileCounts {
    /// The value of a count.
    #[must_use]
    pub fn of(&self, count: FileCount) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, count: FileCount) {
        self.add(count, 1);
    }

    pub(crate) fn add(&self, count: FileCount, by: u64) {
        self.0[count as usize].fetch_add(by, Ordering::Relaxed);
    }
}
