//! A rate at which a walk visits entries of the index.
//!
//! A step visits all entries of some buckets, so a share of a rate is seldom a whole number of
//! steps. The difference is carried over to the next share. So the rate is exact over time, and a
//! rate below a step a pause makes several pauses after a step.

use store::limits::BUCKET_ENTRIES;

use crate::limits::{PREFIX_PAUSE, WALK_BUCKETS};

/// Entries that a step visits.
const STEP_ENTRIES: i64 = (WALK_BUCKETS * BUCKET_ENTRIES) as i64;
/// Pauses in a second.
const PAUSES_PER_S: i64 = (1_000 / PREFIX_PAUSE.as_millis()) as i64;

/// What a walk may visit before its next pause.
#[derive(Debug)]
pub(crate) struct VisitRate {
    entries_per_s: u32,
    /// Entries, times [`PAUSES_PER_S`]. Negative: more were visited than the rate allows so far.
    balance: i64,
}

impl VisitRate {
    /// A rate with which a walk begins.
    pub(crate) fn new(entries_per_s: u32) -> Self {
        Self {
            entries_per_s,
            balance: entries_per_s.into(),
        }
    }

    /// Whether a step may be made now. If so, it counts as made.
    pub(crate) fn may_step(&mut self) -> bool {
        let may_step = self.balance > 0;
        if may_step {
            self.balance -= STEP_ENTRIES * PAUSES_PER_S;
        }
        may_step
    }

    /// Begins a pause, after which the walk has its next share. Called if no step may be made.
    pub(crate) fn pause(&mut self) {
        self.balance += i64::from(self.entries_per_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of steps before each of the first pauses.
    fn steps(entries_per_s: u32, pauses: usize) -> Vec<u64> {
        let mut rate = VisitRate::new(entries_per_s);
        let before_pause = |_| {
            let mut steps = 0;
            while rate.may_step() {
                steps += 1;
            }
            rate.pause();
            steps
        };
        (0..pauses).map(before_pause).collect()
    }

    #[test]
    fn a_walk_visits_what_its_rate_says_and_less_than_a_step_more() {
        for (entries_per_s, pauses) in [
            (1, 6_400),
            (100, 6_400),
            (6_399, 1_000),
            (6_400, 1_000),
            (12_799, 1_000),
            (200_000, 1_000),
            (u32::MAX, 2),
        ] {
            let visited: u64 = steps(entries_per_s, pauses).iter().sum::<u64>() * 64;
            let allowed = u64::from(entries_per_s) * pauses as u64;
            assert!(
                (allowed..allowed + 6_400).contains(&(visited * 100)),
                "{entries_per_s}: {visited} in {pauses} pauses"
            );
        }
    }

    #[test]
    fn what_is_left_of_a_share_is_in_the_next_one() {
        assert_eq!(steps(6_400, 3), [1, 1, 1]);
        assert_eq!(steps(9_600, 4), [2, 1, 2, 1]);
        assert_eq!(steps(1_600, 8), [1, 0, 0, 0, 1, 0, 0, 0]);
    }
}
