//! How many requests are outstanding, counted, and what Little's law says the count should be.

use serde::{Deserialize, Serialize};

/// The relative difference that a check may have unless the caller says otherwise.
pub const LITTLES_LAW_TOLERANCE: f64 = 0.05;

/// The outstanding requests of a window of time, integrated.
///
/// The integral is kept as the sum of the times at which requests were answered less those at
/// which they were sent, so stamps need not come in order, and windows of several threads (of
/// the same beginning) add up exactly. Requests outstanding when the window begins count from its
/// beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outstanding {
    start_ns: u64,
    now: i64,
    answered_less_sent_ns: i128,
}

impl Outstanding {
    /// A window that begins at `start_ns`, with nothing outstanding.
    #[must_use]
    pub fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            now: 0,
            answered_less_sent_ns: 0,
        }
    }

    /// A request left at `now_ns`.
    #[inline]
    pub fn sent(&mut self, now_ns: u64) {
        self.now += 1;
        self.answered_less_sent_ns -= self.since_start(now_ns);
    }

    /// A request was answered, or given up, at `now_ns`.
    #[inline]
    pub fn answered(&mut self, now_ns: u64) {
        self.now -= 1;
        self.answered_less_sent_ns += self.since_start(now_ns);
    }

    /// Begins a new window at `start_ns` with what is outstanding now.
    pub fn restart(&mut self, start_ns: u64) {
        *self = Self {
            start_ns,
            now: self.now,
            answered_less_sent_ns: 0,
        };
    }

    /// Adds the requests of another window of the same beginning.
    pub fn merge(&mut self, other: &Self) {
        self.now += other.now;
        self.answered_less_sent_ns += other.answered_less_sent_ns;
    }

    /// Requests sent and not yet answered.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now.max(0) as u64
    }

    /// Mean outstanding from the window's beginning to `end_ns`, which must not lie before any
    /// stamp given; 0 for an empty window.
    #[must_use]
    pub fn mean(&self, end_ns: u64) -> f64 {
        let length = self.since_start(end_ns);
        if length == 0 {
            return 0.0;
        }
        let area = i128::from(self.now) * length + self.answered_less_sent_ns;
        area as f64 / length as f64
    }

    /// Nanoseconds from the window's beginning; what came before counts as the beginning.
    fn since_start(&self, now_ns: u64) -> i128 {
        i128::from(now_ns.saturating_sub(self.start_ns))
    }
}

/// Little's law, checked: mean outstanding = achieved rate × mean service time.
///
/// It holds of any window at whose ends few requests are outstanding beside those it saw. Where it
/// fails, requests were lost, counted twice or stamped wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Mean outstanding as counted.
    pub counted: f64,
    /// Achieved rate × mean service time.
    pub expected: f64,
    /// (counted − expected) ÷ the greater of the two; 0 where both are 0.
    pub relative_difference: f64,
    /// The relative difference that was allowed.
    pub tolerance: f64,
    /// Whether the difference is within it.
    pub holds: bool,
}

impl LittlesLaw {
    /// Checks a count of outstanding requests against rate and mean service time.
    #[must_use]
    pub fn check(counted: f64, achieved_rps: f64, mean_service_ns: f64, tolerance: f64) -> Self {
        let expected = achieved_rps * mean_service_ns / 1e9;
        let greater = counted.max(expected);
        let relative_difference = if greater > 0.0 {
            (counted - expected) / greater
        } else {
            0.0
        };
        let holds = relative_difference.abs() <= tolerance;
        Self {
            counted,
            expected,
            relative_difference,
            tolerance,
            holds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_half_the_time_is_half_a_request() {
        let mut window = Outstanding::new(1_000);
        window.sent(1_250);
        window.answered(1_750);
        assert_eq!(window.mean(2_000), 0.5);
        assert_eq!(window.now(), 0);
    }

    #[test]
    fn what_is_outstanding_at_the_beginning_and_the_end_counts_inside_only() {
        let mut window = Outstanding::new(0);
        window.sent(100);
        window.sent(200);
        window.restart(1_000);
        assert_eq!(window.mean(1_000), 0.0);
        assert_eq!(window.mean(2_000), 2.0);
        window.answered(1_500);
        assert_eq!(window.mean(2_000), 1.5);
        assert_eq!(window.now(), 1);
    }

    #[test]
    fn stamps_may_come_late_and_windows_add_up() {
        let mut one = Outstanding::new(0);
        one.answered(600);
        one.sent(100);
        let mut other = Outstanding::new(0);
        other.sent(0);
        one.merge(&other);
        assert_eq!(one.mean(1_000), 1.5);
    }

    #[test]
    fn a_queue_of_fixed_service_keeps_the_law_and_a_lost_answer_breaks_it() {
        let mut window = Outstanding::new(0);
        for i in 0..1_000_u64 {
            window.sent(i * 1_000);
            window.answered(i * 1_000 + 2_500);
        }
        let end_ns = 1_002_500;
        let rate = 1_000.0 * 1e9 / end_ns as f64;
        let check = LittlesLaw::check(window.mean(end_ns), rate, 2_500.0, 0.001);
        assert!(check.holds, "{check:?}");
        let wrong = LittlesLaw::check(window.mean(end_ns), rate * 0.9, 2_500.0, 0.05);
        assert!(
            !wrong.holds && (wrong.relative_difference - 0.1).abs() < 1e-3,
            "{wrong:?}"
        );
    }

    #[test]
    fn nothing_at_all_keeps_the_law() {
        assert!(LittlesLaw::check(0.0, 0.0, 0.0, LITTLES_LAW_TOLERANCE).holds);
        assert_eq!(Outstanding::new(5).mean(5), 0.0);
        assert!(!LittlesLaw::check(f64::NAN, 1.0, 1.0, 0.05).holds);
    }
}
