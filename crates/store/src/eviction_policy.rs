//! The eviction policies.
//!
//! Evacuation follows S3-FIFO with two parts (`evacuate.rs`). Three parameters decide what a policy
//! is good at: the size of the small part, what happens to frequency counters, and how long ghosts
//! are remembered. A small part of one percent keeps frequent items through scans and loops. A
//! small part of half the memory follows a changing popularity. A long ghost window recognises
//! returning items if memory is small compared with the popular items, but admits too many items if
//! popularity is stable. No single policy is within one percentage point of the best for all
//! workloads. So there are four, and a miniature simulation selects the one with the highest recent
//! hit ratio (`miniature.rs`).

/// An eviction policy.
#[derive(Debug)]
pub(crate) struct EvictionPolicy {
    /// The name in the statistics.
    pub(crate) name: &'static str,
    /// Share of the small part in thousandths of all segments. While the small part exceeds this
    /// share, its oldest segment is evicted first.
    pub(crate) small_thousandths: u64,
    /// New items start in the small part (probation), not in the main part.
    pub(crate) probation: bool,
    /// An item kept in the main part has its frequency counter decremented, not reset.
    pub(crate) decay: bool,
    /// All remembered ghosts count, not only the younger half of them.
    pub(crate) long_ghost_window: bool,
}

/// All policies. A new store uses the first.
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
    // The classic clock: one queue with second chances.
    EvictionPolicy {
        name: "clock",
        small_thousandths: 0,
        probation: false,
        decay: false,
        long_ghost_window: true,
    },
];

/// Number of policies.
pub(crate) const POLICY_COUNT: usize = 4;
