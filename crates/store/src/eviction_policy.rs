//! The four eviction policies. They are parameter sets of S3-FIFO, which `evacuate.rs` implements.
//!
//! - *Size of the small part.* A small part of one percent of the memory keeps popular items when a
//!   scan or a loop writes many other items. On real traces one of five percent is better, because
//!   many items return soon or not at all. A small part of half the memory adapts faster when
//!   popularity changes.
//! - *Decay of frequency counters.* Decides how many evacuations a popular item survives after its
//!   last request.
//! - *Ghost window*, the number of evictions for which a ghost counts. If the popular items need
//!   more space than the memory has, a long window recognises an item that returns late. If
//!   popularity is stable, a long window admits too many unpopular items to the main part.
//!
//! No single policy is within one percentage point of the best hit ratio for all workloads.
//! Therefore miniature simulations of all four run on a sample of the keys, and the store uses the
//! policy with the highest recent hit ratio (`miniature.rs`).

/// An eviction policy.
#[derive(Debug)]
pub(crate) struct EvictionPolicy {
    /// The policy's name in the statistics.
    pub(crate) name: &'static str,
    /// The share of the small part, in thousandths of all segments, or more if large items need
    /// more (`log/eviction.rs`). If the small part has more segments than its share, the next
    /// segment to be evicted is the oldest of the small part; otherwise it is the oldest of the
    /// main part.
    pub(crate) small_thousandths: u64,
    /// Whether new items are written to the small part (on probation). If false, they are written
    /// to the main part.
    pub(crate) probation: bool,
    /// Whether the frequency counter of an item kept in the main part is decremented. If false, the
    /// counter is reset to 0.
    pub(crate) decay: bool,
    /// Whether all remembered ghosts count. If false, only the younger half of the ghosts counts.
    pub(crate) long_ghost_window: bool,
}

/// All policies. A new store starts with the first one.
pub(crate) const POLICIES: [EvictionPolicy; POLICY_COUNT] = [
    EvictionPolicy {
        name: "returning",
        small_thousandths: 50,
        probation: true,
        decay: true,
        long_ghost_window: true,
    },
    EvictionPolicy {
        name: "frequent",
        small_thousandths: 10,
        probation: true,
        decay: true,
        long_ghost_window: false,
    },
    EvictionPolicy {
        name: "recent",
        small_thousandths: 500,
        probation: true,
        decay: false,
        long_ghost_window: true,
    },
    // The CLOCK algorithm: one queue, in which a requested item gets a second chance.
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
