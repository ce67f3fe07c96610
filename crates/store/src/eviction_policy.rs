//! How eviction weighs what is new against what has been asked for again.
//!
//! Draining is S3-FIFO with two parts (`evacuate.rs`). How large the small part is, what becomes of
//! counts, and how long names are remembered, decides what it is good at: a small part of a
//! hundredth keeps what is asked for often through scans and loops, one of half of the memory
//! follows a popularity that moves; long memory for names finds what is popular anew in a memory
//! that is small beside it, and lets in too much where popularity stays. No one choice is within a
//! point of the best everywhere, so there are four, and which of them would have had most hits of
//! late is found out in miniature (`miniature.rs`).

/// One way to weigh.
#[derive(Debug)]
pub(crate) struct EvictionPolicy {
    /// What the statistics call it.
    pub(crate) name: &'static str,
    /// New items fill so many thousandths of all segments before the oldest of them goes first.
    pub(crate) small_thousandths: u64,
    /// New items are on trial in the small part, rather than in the main part at once.
    pub(crate) probation: bool,
    /// What stays in the main part loses one of its count, rather than all of it.
    pub(crate) decay: bool,
    /// All names of what left count, rather than the younger half of them.
    pub(crate) long_ghost_window: bool,
}

/// All ways; the first is that of an empty store.
pub(crate) const POLICIES: [EvictionPolicy; POLICY_COUNT] = [
    EvictionPolicy {
        name: "frequent",
        small_thousandths: 10,
        probation: true,
        decay: true,
        long_ghost_window: false,
    },
    EvictionPolicy {
        name: "returning",
        small_thousandths: 10,
        probation: true,
        decay: true,
        long_ghost_window: true,
    },
    EvictionPolicy {
        name: "recent",
        small_thousandths: 500,
        probation: true,
        decay: false,
        long_ghost_window: true,
    },
    // The clock of old: one queue, second chances.
    EvictionPolicy {
        name: "clock",
        small_thousandths: 0,
        probation: false,
        decay: false,
        long_ghost_window: true,
    },
];

/// How many there are.
pub(crate) const POLICY_COUNT: usize = 4;
