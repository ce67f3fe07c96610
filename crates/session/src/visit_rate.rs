//! The rate at which a walk of the store visits entries of the index.
//!
//! A walk makes steps, and between them pauses of a fixed length ([`PREFIX_PAUSE`]). After each
//! pause, the rate allows the walk to visit a number of further entries. A step visits all entries
//! of [`WALK_BUCKETS`] buckets, so this number is seldom a whole number of steps. The difference is
//! carried over to the next pause, so the rate is exact over time. At a low rate, several pauses
//! follow one step.

use store::limits::BUCKET_ENTRIES;

use crate::limits::{PREFIX_PAUSE, WALK_BUCKETS};

/// Entries that a step visits.
const STEP_ENTRIES: i64 = (WALK_BUCKETS * BUCKET_ENTRIES) as i64;
/// Pauses in a second.
const PAUSES_PER_S: i64 = (1_000 / PREFIX_PAUSE.as_millis()) as i64;

/// The rate of a walk, and the number of entries that the walk may visit before its next pause.
#[derive(Debug)]
pub(crate) struct VisitRate {
    entries_per_s: u32,
    /// The number of entries that may be visited before the next pause, multiplied by
    /// [`PAUSES_PER_S`]. Negative if the walk has visited more entries than the rate allows so far.
    balance: i64,
}

impl VisitRate {
    /// The rate of a walk that begins.
    pub(crate) fn new(entries_per_s: u32) -> Self {
        Self {
            entries_per_s,
            balance: entries_per_s.into(),
        }
    }

    /// Whether the walk may make a step now. If so, the entries of the step count as visited.
    pub(crate) fn may_step(&mut self) -> bool {
        let may_step = self.balance > 0;
        if may_step {
            self.balance -= STEP_ENTRIES * PAUSES_PER_S;
        }
        may_step
    }

    /// Begins a pause, and adds the number of entries that the rate allows after it. Called when
    /// [`may_step`](Self::may_step) has returned false.
    pub(crate) fn pause(&mut self) {
        self.balance += i64::from(self.entries_per_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of steps before each of the first `pauses` pauses.
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
    fn a_walk_visits_as_many_entries_as_its_rate_allows_and_less_than_a_step_more() {
        for (entries_per_s, pauses) in [
            (1, 6_400),
            (100, 6_400),
            (6_399, 1_000),
            (6_400, 1_000),
            (12_799, 1_000),
            (200_000, 1_000),
            (u32::MAX, 2),
        ] {
            // A step visits 64 entries, and a second has 100 pauses. Multiplied by 100, a step is
            // 6400 entries.
            let visited: u64 = steps(entries_per_s, pauses).iter().sum::<u64>() * 64;
            let allowed = u64::from(entries_per_s) * pauses as u64;
            assert!(
                (allowed..allowed + 6_400).contains(&(visited * 100)),
                "{entries_per_s}: {visited} in {pauses} pauses"
            );
        }
    }

    #[test]
    fn the_rest_of_an_allowance_is_carried_over_to_the_next_pause() {
        // 6400 entries a second are one step for each pause.
        assert_eq!(steps(6_400, 3), [1, 1, 1]);
        assert_eq!(steps(9_600, 4), [2, 1, 2, 1]);
        assert_eq!(steps(1_600, 8), [1, 0, 0, 0, 1, 0, 0, 0]);
    }
}
