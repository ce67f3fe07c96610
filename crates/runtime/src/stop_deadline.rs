//! The time that connections have to finish after the server was told to stop.

use crate::limits::{STOOD_STILL_MAX, STOOD_STILL_NS};

/// The end of this time, to which the times are added in which the process stood still.
#[derive(Debug)]
pub(crate) struct StopDeadline {
    at_ns: u64,
    checked_ns: u64,
    pauses: u32,
}

impl StopDeadline {
    pub(crate) fn new(now_ns: u64, drain_ns: u64) -> Self {
        Self {
            at_ns: now_ns.saturating_add(drain_ns),
            checked_ns: now_ns,
            pauses: 0,
        }
    }

    /// Returns whether the time is over. Called at least every `DRAIN_CHECK_NS`.
    pub(crate) fn is_passed(&mut self, now_ns: u64) -> bool {
        let pause_ns = now_ns.saturating_sub(self.checked_ns);
        if pause_ns > STOOD_STILL_NS && self.pauses < STOOD_STILL_MAX {
            self.pauses += 1;
            self.at_ns = self.at_ns.saturating_add(pause_ns);
        }
        self.checked_ns = now_ns;
        now_ns >= self.at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DRAIN_CHECK_NS;

    #[test]
    fn time_in_which_the_process_stands_still_does_not_count() {
        let drain_ns = 5_000_000_000;
        for pauses_ns in [0, 60_000_000_000] {
            let mut deadline = StopDeadline::new(100, drain_ns);
            let (mut now_ns, mut run_ns) = (100, 0);
            while !deadline.is_passed(now_ns) {
                run_ns += DRAIN_CHECK_NS;
                now_ns += DRAIN_CHECK_NS;
                // After the first check.
                if run_ns == DRAIN_CHECK_NS {
                    now_ns += pauses_ns;
                }
            }
            assert!(run_ns.abs_diff(drain_ns) <= DRAIN_CHECK_NS);
        }
    }

    #[test]
    fn a_worker_that_is_always_late_ends() {
        let mut deadline = StopDeadline::new(0, 5_000_000_000);
        let late = (1..).find(|round| deadline.is_passed(round * 2 * STOOD_STILL_NS));
        assert_eq!(late, Some(u64::from(STOOD_STILL_MAX) + 3));
    }
}
