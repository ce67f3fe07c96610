//! The eviction policy: which part a new item is written to, which part loses its oldest segment
//! next, and which items of that segment are kept, promoted or remembered. It is a pure unit,
//! without memory and atomics. The store (`operations/placement.rs`, `log/victims.rs`,
//! `evacuation.rs`, `evacuation/evict.rs`), the miniature caches (`miniature/queues.rs`) and the
//! simulated segments of the crate `rivals` act on its decisions.
//!
//! There are four policies, which are parameter sets of S3-FIFO (Yang et al., SOSP 2023):
//!
//! - *Size of the small part.* A small part of one percent of the memory keeps popular items when a
//!   scan or a loop writes many other items. On real traces a small part of five percent is better,
//!   because many items are requested again soon or not at all. A small part of half the memory
//!   adapts faster when popularity changes.
//! - *Decay of frequency counters.* It decides how many evacuations a popular item survives after
//!   its last request.
//! - *Ghost window*, the number of evictions for which a ghost counts. If the popular items need
//!   more space than the memory has, a long window recognises an item that returns late. If
//!   popularity is stable, a long window admits too many unpopular items to the main part.
//!
//! No single policy is within one percentage point of the best hit ratio for all workloads.
//! Therefore miniature simulations of all four run on a sample of the keys, and the store uses the
//! policy with the highest recent hit ratio (`miniature.rs`).

use crate::limits::{
    EARLY_REQUEST_PART, LIFETIME_MAX_S, LIFETIME_MIN_S, LIFETIME_UNIT, LIFETIME_WEIGHT, PROMOTE_AT,
};

/// The part of the log to which a segment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Part {
    /// The small part: new items, on probation.
    Small = 0,
    /// The main part: items that were requested again, or were written while they had a ghost.
    Main = 1,
}

/// What eviction does with an item of the segment that it evacuates.
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
    /// The share of the small part, in thousandths of all segments. Large items may enlarge it
    /// (`log/eviction.rs`). If the small part has more segments than its share, the next segment to
    /// be evicted is the oldest of the small part; otherwise it is the oldest of the main part.
    pub small_thousandths: u64,
    /// Whether new items are written to the small part (on probation). If false, they are written
    /// to the main part.
    pub probation: bool,
    /// Whether the frequency counter of an item kept in the main part is decremented. If false, the
    /// counter is reset to 0.
    pub decay: bool,
    /// Whether all remembered ghosts count. If false, only the younger half of the ghosts counts.
    pub long_ghost_window: bool,
}

impl EvictionPolicy {
    /// Returns the part for a key that has no item. Only policies with probation look for a ghost.
    pub fn part_of_new(&self, has_ghost: impl FnOnce() -> bool) -> Part {
        match self.probation && !has_ghost() {
            true => Part::Small,
            false => Part::Main,
        }
    }

    /// Returns the share of the small part in a memory of size `all`, in the same unit.
    pub fn small_share(&self, all: u64) -> u64 {
        all * self.small_thousandths / 1000
    }

    /// Decides what happens to an item of `part`, whose frequency counter is `frequency`, when its
    /// segment is evacuated. `requested_late` returns true if the item's last request was late
    /// enough in the life of the segment ([`Lifetime`]). Only policies without decay call it.
    pub fn decide(
        &self,
        part: Part,
        frequency: u8,
        requested_late: impl FnOnce() -> bool,
    ) -> EvictionDecision {
        let kept = match part {
            Part::Small => frequency.checked_sub(PROMOTE_AT),
            Part::Main if self.decay => frequency.checked_sub(1),
            Part::Main => (frequency > 0 && requested_late()).then_some(0),
        };
        kept.map_or(EvictionDecision::Evict, |frequency| {
            let part = Part::Main;
            EvictionDecision::Keep { part, frequency }
        })
    }

    /// Returns for how many evictions a ghost counts, if `ghosts` are remembered.
    pub fn ghost_window(&self, ghosts: u32) -> u32 {
        match self.long_ghost_window {
            true => ghosts,
            false => ghosts / 2,
        }
    }
}

/// Returns the part whose oldest items are the next to be evicted. `small` is the size of the small
/// part, `small_share` its share, in the same unit.
pub fn next_part(small: u64, small_share: u64, main_is_empty: bool) -> Part {
    match main_is_empty || small > small_share {
        true => Part::Small,
        false => Part::Main,
    }
}

/// Whether an item evicted from this part leaves a ghost.
pub fn leaves_ghost(part: Part) -> bool {
    part == Part::Small
}

/// All policies. A new store starts with the first one.
pub const POLICIES: [EvictionPolicy; POLICY_COUNT] = [
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
pub const POLICY_COUNT: usize = 4;

/// The lifetime of a main-part segment: from its opening to its evacuation.
#[derive(Debug)]
pub struct Lifetime {
    /// The second in which the segment was opened.
    pub opened_s: u32,
    /// The second of the evacuation.
    pub now_s: u32,
    /// Recent mean lifetime of main-part segments, in seconds.
    pub mean_s: u32,
}

impl Lifetime {
    /// Returns true if an item, last requested in second `accessed_s`, was last requested after the
    /// first quarter of its segment's lifetime, or if this lifetime is below [`LIFETIME_MIN_S`].
    /// Otherwise the item is evicted. If requests in the first quarter counted too, an item
    /// requested only just after it was written would be kept for the lifetime of a second segment.
    ///
    /// A lifetime longer than the mean is replaced by the mean. Otherwise a pause with few writes
    /// would lengthen the lifetime, all requests before the pause would fall into its first
    /// quarter, and all items not requested since would be evicted.
    pub fn requested_after_first_quarter(&self, accessed_s: u32) -> bool {
        let lifetime_s = self.now_s.saturating_sub(self.opened_s);
        let accessed_after_s = u64::from(accessed_s.saturating_sub(self.opened_s));
        lifetime_s < LIFETIME_MIN_S
            || accessed_after_s * EARLY_REQUEST_PART >= u64::from(lifetime_s.min(self.mean_s))
    }
}

/// The moving average of the lifetimes of main-part segments, in units of 1/[`LIFETIME_UNIT`] s. In
/// units of 1 s, an average of 3 s or less could never rise: a new value counts as at most twice
/// the average, an eighth of it is added, and that would be rounded to 0 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeanLifetime(pub(crate) u32);

impl MeanLifetime {
    /// Returns the average after a segment with this lifetime, in seconds.
    #[must_use]
    pub fn after(self, lifetime_s: u32) -> Self {
        let Self(mean) = self;
        let lifetime = lifetime_s.min(LIFETIME_MAX_S) * LIFETIME_UNIT;
        // A longer lifetime counts as twice the mean, so that a single outlier has little effect.
        Self(match mean {
            0 => lifetime,
            _ => mean - mean / LIFETIME_WEIGHT + lifetime.min(2 * mean) / LIFETIME_WEIGHT,
        })
    }

    /// Returns the average in whole seconds. 0 if it is not known yet.
    #[must_use]
    pub fn seconds(self) -> u32 {
        self.0 / LIFETIME_UNIT
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn policy(name: &str) -> &'static EvictionPolicy {
        POLICIES.iter().find(|policy| policy.name == name).unwrap()
    }

    fn keep(frequency: u8) -> EvictionDecision {
        let part = Part::Main;
        EvictionDecision::Keep { part, frequency }
    }

    #[test]
    fn a_new_item_is_on_probation_unless_it_has_a_ghost() {
        for name in ["returning", "frequent", "recent"] {
            assert_eq!(policy(name).part_of_new(|| false), Part::Small);
            assert_eq!(policy(name).part_of_new(|| true), Part::Main);
        }
        let unasked = || -> bool { panic!("policies without probation do not need the ghost") };
        assert_eq!(policy("clock").part_of_new(unasked), Part::Main);
    }

    #[test]
    fn the_small_part_is_evicted_first_while_it_exceeds_its_share() {
        let next = |name, small| next_part(small, policy(name).small_share(1000), false);
        assert_eq!(next("returning", 51), Part::Small);
        assert_eq!(next("returning", 50), Part::Main);
        assert_eq!(next("frequent", 11), Part::Small);
        assert_eq!(next("recent", 500), Part::Main);
        assert_eq!(next_part(1, 500, true), Part::Small);
    }

    #[test]
    fn an_item_is_kept_as_often_as_it_was_requested_or_if_it_was_requested_late() {
        let unasked = || -> bool { panic!("policies with decay do not need the time") };
        for name in ["returning", "frequent"] {
            assert_eq!(policy(name).decide(Part::Small, 2, unasked), keep(1));
            assert_eq!(policy(name).decide(Part::Main, 2, unasked), keep(1));
            let evicted = policy(name).decide(Part::Main, 0, unasked);
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
    fn an_item_last_requested_in_the_first_quarter_of_the_lifetime_is_not_kept() {
        let lifetime = |now_s, mean_s| Lifetime {
            opened_s: 100,
            now_s,
            mean_s,
        };
        let usual = lifetime(160, 60);
        assert!(
            [115, 130, 160]
                .into_iter()
                .all(|at| usual.requested_after_first_quarter(at))
        );
        // The first quarter of the 60 seconds since second 100 ends at second 115. An item whose
        // last request (90) is before the opening of the segment was copied into it and not
        // requested since.
        assert!(
            [90, 100, 114]
                .into_iter()
                .all(|at| !usual.requested_after_first_quarter(at))
        );
        // The results are the same 300 seconds later, if segments usually live for 60 seconds.
        let after_pause = lifetime(460, 60);
        assert!(
            [115, 130, 160]
                .into_iter()
                .all(|at| after_pause.requested_after_first_quarter(at))
        );
        assert!(!after_pause.requested_after_first_quarter(114));
        // If segments usually live for 360 seconds, the first quarter ends at second 190.
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

    /// Regression test for a mean in units of 1 s: it stayed at 3 s for ever, and rose from 20 s to
    /// only 53 s.
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
}
