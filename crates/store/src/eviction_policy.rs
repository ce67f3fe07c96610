//! The eviction policies. Each is a variant of S3-FIFO (Yang et al., SOSP 2023), whose two queues
//! are the *small part* and the *main part* of the store's segments. An evicted item may leave a
//! *ghost*, which is its remembered hash. A policy decides:
//!
//! - to which part a new item is written;
//! - which part is evicted from next, so that its oldest segment is evacuated;
//! - which items of that segment are copied to the main part, which are evicted, and which of the
//!   evicted items leave a ghost.
//!
//! This file only computes these decisions. It accesses neither the memory of the store nor
//! atomics. The store (`operations/placement.rs`, `log/victims.rs`, `evacuation.rs`,
//! `evacuation/evict.rs`), the miniature caches (`miniature/queues.rs`) and the simulated segments
//! of `studies/peers` carry out the decisions.
//!
//! There are four policies ([`POLICIES`]). They differ in four parameters:
//!
//! - *Probation*: whether new items are written to the small part at all.
//! - *Size of the small part.* With a small part of one percent of the memory, popular items stay
//!   in memory when a scan or a loop writes many other items. On real traces a small part of five
//!   percent is better, because many items are requested again soon or not at all. A small part of
//!   half the memory adapts faster when popularity changes.
//! - *Decay*: whether each evacuation decrements the frequency counter of an item that is kept in
//!   the main part, or resets it to 0. So decay determines how many evacuations a popular item
//!   survives after its last request.
//! - *Ghost window*: the number of evictions after which a ghost is ignored. If the popular items
//!   need more space than the memory has, a long window recognises an item that is requested again
//!   after a long time. If popularity is stable, a long window admits too many unpopular items to
//!   the main part.
//!
//! For each policy there are workloads for which its hit ratio is more than one percentage point
//! below that of the best policy. Therefore miniature simulations of all four policies run on a
//! sample of the keys, and the store uses the policy with the highest recent hit ratio
//! (`miniature.rs`).

use crate::limits::{
    EARLY_REQUEST_PART, LIFETIME_MAX_S, LIFETIME_MIN_S, LIFETIME_UNIT, LIFETIME_WEIGHT, PROMOTE_AT,
    SMALL_FLOOR_PART,
};

/// The part of the log to which a segment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Part {
    /// The small part: new items, which are on probation, because they are evicted unless they are
    /// requested again.
    Small = 0,
    /// The main part: items that were requested again, and items whose key had a ghost when they
    /// were written. Under a policy without probation, also all new items.
    Main = 1,
}

/// What eviction does with an item of the evacuated segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionDecision {
    /// Evict the item. If it was in the small part, it leaves a ghost ([`leaves_ghost`]).
    Evict,
    /// Copy the item.
    Keep {
        /// The part to which the item is copied.
        part: Part,
        /// The new value of the item's frequency counter.
        frequency: u8,
    },
}

/// An eviction policy.
#[derive(Debug)]
pub struct EvictionPolicy {
    /// The policy's name in the statistics.
    pub name: &'static str,
    /// The share of the small part, in thousandths of all segments. The store uses a larger share
    /// if it has to store large items (`log/eviction.rs`). If the small part has more segments than
    /// its share, its oldest segment is evacuated next; otherwise the oldest segment of the main
    /// part is ([`next_part`]).
    pub small_thousandths: u64,
    /// Whether new items are on probation, which means that they are written to the small part. If
    /// false, new items are written to the main part.
    pub probation: bool,
    /// Whether the frequency counter of an item kept in the main part is decremented. If false, the
    /// counter is reset to 0.
    pub decay: bool,
    /// Whether a key with a ghost of any age has a ghost for this policy. If false, the older half
    /// of the remembered ghosts is ignored.
    pub long_ghost_window: bool,
}

impl EvictionPolicy {
    /// Returns the part for a new item, whose key has no item in the store. `has_ghost` returns
    /// true if the key has a ghost. It is called only if the policy has probation.
    pub fn part_of_new(&self, has_ghost: impl FnOnce() -> bool) -> Part {
        match self.probation && !has_ghost() {
            true => Part::Small,
            false => Part::Main,
        }
    }

    /// Returns the share of the small part in a memory of size `all`. The result has the unit of
    /// `all`, such as segments or bytes.
    pub fn small_share(&self, all: u64) -> u64 {
        all * self.small_thousandths / 1000
    }

    /// Returns the shares of the small and the main part, in segments. The small part has space for
    /// two of the largest items, of `largest_item` segments each, but is not enlarged for them
    /// beyond an eighth of the memory. If the small part were smaller than an item, the item would
    /// be evicted as soon as it was complete, before a client could read it. If the policy has no
    /// small part, it gets none for large items either.
    pub(crate) fn shares(&self, segment_limit: u32, largest_item: u32) -> [u32; 2] {
        let small = self.small_share(u64::from(segment_limit)) as u32;
        let two_items = largest_item.saturating_mul(2);
        let small = match self.small_thousandths {
            0 => 0,
            _ => small.max(two_items.min(segment_limit / SMALL_FLOOR_PART)),
        };
        [small, segment_limit - small]
    }

    /// Decides what happens to an item of `part` when its segment is evacuated for eviction.
    /// `frequency` is the item's frequency counter. `requested_late` returns true if the item's
    /// last request was late enough ([`Lifetime::requested_after_first_quarter`]). It is called
    /// only for items of the main part, and only if the policy has no decay.
    pub fn decide(
        &self,
        part: Part,
        frequency: u8,
        requested_late: impl FnOnce() -> bool,
    ) -> EvictionDecision {
        let new_frequency = match part {
            Part::Small => frequency.checked_sub(PROMOTE_AT),
            Part::Main if self.decay => frequency.checked_sub(1),
            Part::Main => (frequency > 0 && requested_late()).then_some(0),
        };
        new_frequency.map_or(EvictionDecision::Evict, |frequency| {
            let part = Part::Main;
            EvictionDecision::Keep { part, frequency }
        })
    }

    /// Returns the number of evictions after which a ghost is ignored, in a cache that remembers
    /// `ghosts` ghosts.
    pub fn ghost_window(&self, ghosts: u32) -> u32 {
        match self.long_ghost_window {
            true => ghosts,
            false => ghosts / 2,
        }
    }
}

/// Returns the part whose oldest items are the next to be evicted. `small` is the present size of
/// the small part. `small_share` is the size that the part should not exceed, in the same unit.
pub fn next_part(small: u64, small_share: u64, main_is_empty: bool) -> Part {
    match main_is_empty || small > small_share {
        true => Part::Small,
        false => Part::Main,
    }
}

/// Returns true if an item that is evicted from this part leaves a ghost.
pub fn leaves_ghost(part: Part) -> bool {
    part == Part::Small
}

/// All policies. A new store starts with the first one.
pub const POLICIES: [EvictionPolicy; POLICY_COUNT] = [
    // For items that are requested again, possibly after a long time.
    EvictionPolicy {
        name: "returning",
        small_thousandths: 50,
        probation: true,
        decay: true,
        long_ghost_window: true,
    },
    // For frequently requested items that scans and loops should not displace.
    EvictionPolicy {
        name: "frequent",
        small_thousandths: 10,
        probation: true,
        decay: true,
        long_ghost_window: false,
    },
    // For changing popularity: recently requested items are kept.
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
pub const POLICY_COUNT: usize = 4;

/// The lifetime of a main-part segment: from its opening to its evacuation.
#[derive(Debug)]
pub struct Lifetime {
    /// The second in which the segment was opened.
    pub opened_s: u32,
    /// The second of the evacuation.
    pub now_s: u32,
    /// Recent mean lifetime of main-part segments, in seconds ([`MeanLifetime::seconds`]).
    pub mean_s: u32,
}

impl Lifetime {
    /// Returns true if second `accessed_s`, in which an item was last requested, is after the first
    /// quarter of its segment's lifetime. Also returns true if the lifetime is below
    /// [`LIFETIME_MIN_S`], or if the mean is 0 because it is not known yet. If the result is false,
    /// the item is evicted. If requests in the first quarter counted too, an item that is requested
    /// only shortly after it is written would be kept for the lifetime of a second segment.
    ///
    /// If the lifetime is longer than the mean, the quarter is that of the mean. Otherwise a pause
    /// with few writes would lengthen the lifetime. All requests before the pause would then be in
    /// the first quarter, and all items that were not requested after the pause would be evicted.
    pub fn requested_after_first_quarter(&self, accessed_s: u32) -> bool {
        let lifetime_s = self.now_s.saturating_sub(self.opened_s);
        let opened_to_accessed_s = u64::from(accessed_s.saturating_sub(self.opened_s));
        lifetime_s < LIFETIME_MIN_S
            || opened_to_accessed_s * EARLY_REQUEST_PART >= u64::from(lifetime_s.min(self.mean_s))
    }
}

/// The moving average of the lifetimes of main-part segments, in units of 1/[`LIFETIME_UNIT`] s. In
/// whole seconds, an average of 3 s or less could never rise. A new lifetime counts as at most
/// twice the average, here as 6 s or less. An eighth (1/[`LIFETIME_WEIGHT`]) of it is added to the
/// average, and would be rounded down to 0 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeanLifetime(pub(crate) u32);

impl MeanLifetime {
    /// Returns the average that results when a lifetime of `lifetime_s` seconds is added.
    #[must_use]
    pub fn after(self, lifetime_s: u32) -> Self {
        let Self(mean) = self;
        let lifetime = lifetime_s.min(LIFETIME_MAX_S) * LIFETIME_UNIT;
        // A lifetime of more than twice the mean counts as twice the mean, so that a single outlier
        // has little effect.
        Self(match mean {
            0 => lifetime,
            _ => mean - mean / LIFETIME_WEIGHT + lifetime.min(2 * mean) / LIFETIME_WEIGHT,
        })
    }

    /// Returns the average, rounded down to whole seconds. Also 0 if no lifetime was added yet.
    #[must_use]
    pub fn seconds(self) -> u32 {
        self.0 / LIFETIME_UNIT
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// Returns the policy with this name.
    fn policy(name: &str) -> &'static EvictionPolicy {
        POLICIES.iter().find(|policy| policy.name == name).unwrap()
    }

    /// Returns the decision to copy an item to the main part, with this frequency counter.
    fn keep(frequency: u8) -> EvictionDecision {
        let part = Part::Main;
        EvictionDecision::Keep { part, frequency }
    }

    #[test]
    fn a_new_item_is_on_probation_unless_its_key_has_a_ghost_or_the_policy_has_no_probation() {
        for name in ["returning", "frequent", "recent"] {
            assert_eq!(policy(name).part_of_new(|| false), Part::Small);
            assert_eq!(policy(name).part_of_new(|| true), Part::Main);
        }
        let not_called = || -> bool { panic!("policies without probation do not need the ghost") };
        assert_eq!(policy("clock").part_of_new(not_called), Part::Main);
    }

    #[test]
    fn the_small_part_is_evicted_first_while_it_exceeds_its_share_or_the_main_part_is_empty() {
        // `small` of 1000 segments are in the small part.
        let next = |name, small| next_part(small, policy(name).small_share(1000), false);
        assert_eq!(next("returning", 51), Part::Small);
        assert_eq!(next("returning", 50), Part::Main);
        assert_eq!(next("frequent", 11), Part::Small);
        assert_eq!(next("recent", 500), Part::Main);
        assert_eq!(next_part(1, 500, true), Part::Small);
    }

    #[test]
    fn decisions_depend_on_part_and_frequency_or_late_requests_and_ghosts_on_part_and_window() {
        let not_called = || -> bool { panic!("policies with decay do not need the time") };
        for name in ["returning", "frequent"] {
            assert_eq!(policy(name).decide(Part::Small, 2, not_called), keep(1));
            assert_eq!(policy(name).decide(Part::Main, 2, not_called), keep(1));
            let evicted = policy(name).decide(Part::Main, 0, not_called);
            assert_eq!(evicted, EvictionDecision::Evict);
        }
        for name in ["recent", "clock"] {
            assert_eq!(policy(name).decide(Part::Main, 2, || true), keep(0));
            let early = policy(name).decide(Part::Main, 2, || false);
            assert_eq!(early, EvictionDecision::Evict);
        }
        let unrequested = policy("recent").decide(Part::Small, 0, || true);
        assert_eq!(unrequested, EvictionDecision::Evict);
        assert!(leaves_ghost(Part::Small) && !leaves_ghost(Part::Main));
        assert_eq!(policy("recent").ghost_window(100), 100);
        assert_eq!(policy("frequent").ghost_window(100), 50);
    }

    #[test]
    fn an_item_last_requested_in_the_first_quarter_of_the_lifetime_does_not_count_as_requested() {
        let lifetime = |now_s, mean_s| Lifetime {
            opened_s: 100,
            now_s,
            mean_s,
        };
        let usual = lifetime(160, 60);
        assert!(
            [115, 130, 160]
                .into_iter()
                .all(|accessed_s| usual.requested_after_first_quarter(accessed_s))
        );
        // The segment was opened in second 100 and has lived for 60 seconds, so the first quarter
        // ends at second 115. Second 90 is before the opening: the item was requested then, was
        // later copied into the segment, and has not been requested since.
        assert!(
            [90, 100, 114]
                .into_iter()
                .all(|accessed_s| !usual.requested_after_first_quarter(accessed_s))
        );
        // If the evacuation comes 300 seconds later, the results are the same, because the mean
        // lifetime of segments is still 60 seconds.
        let after_pause = lifetime(460, 60);
        assert!(
            [115, 130, 160]
                .into_iter()
                .all(|accessed_s| after_pause.requested_after_first_quarter(accessed_s))
        );
        assert!(!after_pause.requested_after_first_quarter(114));
        // If the mean lifetime is 360 seconds, the first quarter ends at second 190.
        assert!(!lifetime(460, 360).requested_after_first_quarter(160));
        // A request in the first quarter counts only if the lifetime is below `LIFETIME_MIN_S`
        // (eight seconds), or if no mean is known yet.
        assert!(lifetime(107, 60).requested_after_first_quarter(100));
        assert!(!lifetime(108, 60).requested_after_first_quarter(100));
        assert!(lifetime(160, 0).requested_after_first_quarter(100));
        // The segment was opened by a thread whose clock is ahead, so `now_s` is before `opened_s`.
        // The lifetime is then 0 seconds, below `LIFETIME_MIN_S`, and every request counts.
        assert!(lifetime(90, 60).requested_after_first_quarter(120));
    }

    /// Regression test. A mean in whole seconds did not rise from 3 s at all, and rose from 20 s to
    /// 53 s only.
    #[test]
    fn the_mean_lifetime_rises_from_a_few_seconds_to_a_minute() {
        for start_s in [1, 3, 7, 20] {
            let mut mean = MeanLifetime::default().after(start_s);
            assert_eq!(mean.seconds(), start_s);
            for _ in 0..100 {
                mean = mean.after(60);
            }
            assert_eq!(mean.seconds(), 60, "from {start_s} s");
        }
    }

    #[test]
    fn the_small_part_has_space_for_two_of_the_largest_items_if_there_is_one() {
        let with = |small_thousandths| EvictionPolicy {
            name: "test",
            small_thousandths,
            probation: true,
            decay: true,
            long_ghost_window: true,
        };
        assert_eq!(with(10).shares(1000, 0), [10, 990]);
        assert_eq!(with(10).shares(1000, 20), [40, 960]);
        assert_eq!(with(10).shares(1000, 400), [125, 875]);
        assert_eq!(with(0).shares(1000, 20), [0, 1000]);
    }
}
