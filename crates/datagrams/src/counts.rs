//! Counters of datagrams. Only the thread that serves them counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counted event or quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Datagrams received.
    Received,
    /// Bytes of these.
    BytesRead,
    /// Datagrams sent.
    Sent,
    /// Bytes of these.
    BytesWritten,
    /// Datagrams without a valid header, or of a request that has several.
    Malformed,
    /// Datagrams with a request that is not complete.
    Incomplete,
    /// Datagrams whose requests were not all answered in time, mostly because they found no memory
    /// or no completion.
    TimedOut,
    /// Replies that were replaced by an error or dropped because they were too long.
    Limited,
    /// Replies that begin with an `ERROR` line, which are not sent.
    Unanswered,
    /// Datagrams of replies that were dropped because the socket had no space for them.
    Unsent,
    /// Bursts that a panic ended.
    Panics,
}

impl Count {
    /// All, in the order of `stats`.
    pub const ALL: [Self; 11] = [
        Self::Received,
        Self::BytesRead,
        Self::Sent,
        Self::BytesWritten,
        Self::Malformed,
        Self::Incomplete,
        Self::TimedOut,
        Self::Limited,
        Self::Unanswered,
        Self::Unsent,
        Self::Panics,
    ];

    /// The name in `stats`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "udp_datagrams_read",
            Self::BytesRead => "udp_bytes_read",
            Self::Sent => "udp_datagrams_written",
            Self::BytesWritten => "udp_bytes_written",
            Self::Malformed => "udp_malformed",
            Self::Incomplete => "udp_incomplete",
            Self::TimedOut => "udp_timed_out",
            Self::Limited => "udp_replies_limited",
            Self::Unanswered => "udp_unanswered",
            Self::Unsent => "udp_unsent",
            Self::Panics => "udp_panics",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct Counts {
    cells: [AtomicU64; Count::ALL.len()],
}

impl Counts {
    /// The present value of a counter.
    #[must_use]
    pub fn of(&self, count: Count) -> u64 {
        self.cells[count as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: Count, by: u64) {
        // Only one thread writes, so no other change can come between.
        let cell = &self.cells[count as usize];
        cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }
}
