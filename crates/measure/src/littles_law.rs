//! Outstanding requests, computed in two independent ways: from time stamps, and by a count.
//!
//! Over any interval, the mean number outstanding is the sum of the times that requests spent in
//! it, each cut off at its ends, divided by its length: Little's law (*A proof for the queuing
//! formula L = λW*, 1961) for a finite interval, where it is an identity and supposes no steady
//! state (Kim & Whitt, *Statistical analysis with Little's law*, 2013). One side comes from time
//! stamps ([`Outstanding`]), the other from a count ([`OutstandingCount`]). Each is exact, so where
//! they differ ([`LittlesLaw`]), a time stamp is wrong, or a request was lost or counted twice.

use serde::{Deserialize, Serialize};

/// The default tolerance of a check: the greatest relative difference.
pub const LITTLES_LAW_TOLERANCE: f64 = 0.05;

/// The outstanding requests of a window of time, by the requests' time stamps.
///
/// The integral is stored as the sum of answer times − the sum of send times. Stamps therefore need
/// not come in order, and windows of several threads that begin at the same time add up exactly.
/// Requests outstanding when the window begins count from its beginning.
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

    /// Begins a new window at `start_ns` with the requests outstanding now.
    pub fn restart(&mut self, start_ns: u64) {
        *self = Self {
            start_ns,
            now: self.now,
            answered_less_sent_ns: 0,
        };
    }

    /// Adds the requests of another window that begins at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.now += other.now;
        self.answered_less_sent_ns += other.answered_less_sent_ns;
    }

    /// Requests sent and not yet answered.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now.max(0) as u64
    }

    /// Mean outstanding from the window's beginning to `end_ns`, which must not precede any
    /// recorded stamp; 0 for an empty window.
    #[must_use]
    pub fn mean(&self, end_ns: u64) -> f64 {
        let length = self.since_start(end_ns);
        if length == 0 {
            return 0.0;
        }
        let area = i128::from(self.now) * length + self.answered_less_sent_ns;
        area as f64 / length as f64
    }

    /// Nanoseconds from the window's beginning; 0 for earlier times.
    fn since_start(&self, now_ns: u64) -> i128 {
        i128::from(now_ns.saturating_sub(self.start_ns))
    }
}

/// The outstanding requests of an interval, by a count.
///
/// The thread that sends and receives reports the count and its own clock whenever the count
/// changes; the requests' time stamps play no part. An answer counts as outstanding until the
/// thread receives it; by its time stamp, only until it arrived at the socket. The time it can have
/// lain unread there is bounded without stamps too: it begins when the thread last found the socket
/// empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutstandingCount {
    start_ns: u64,
    end_ns: u64,
    last_ns: u64,
    area_ns: u128,
    unread_ns: u128,
}

impl OutstandingCount {
    /// A count for the interval from `start_ns` to `end_ns`.
    #[must_use]
    pub fn new(start_ns: u64, end_ns: u64) -> Self {
        Self {
            start_ns,
            end_ns,
            last_ns: start_ns,
            area_ns: 0,
            unread_ns: 0,
        }
    }

    /// Records that `outstanding` requests were outstanding from the last call (the first time:
    /// from the beginning) to `now_ns`.
    #[inline]
    pub fn advance(&mut self, outstanding: u64, now_ns: u64) {
        let now_ns = now_ns.min(self.end_ns);
        if now_ns > self.last_ns {
            self.area_ns += u128::from(outstanding) * u128::from(now_ns - self.last_ns);
            self.last_ns = now_ns;
        }
    }

    /// Records an answer received at `now_ns` that arrived at `since_ns` at the earliest.
    #[inline]
    pub fn unread(&mut self, since_ns: u64, now_ns: u64) {
        let (since_ns, now_ns) = (since_ns.max(self.start_ns), now_ns.min(self.end_ns));
        self.unread_ns += u128::from(now_ns.saturating_sub(since_ns));
    }

    /// Adds the requests of another thread in the same interval.
    pub fn merge(&mut self, other: &Self) {
        self.area_ns += other.area_ns;
        self.unread_ns += other.unread_ns;
    }

    /// Mean outstanding; 0 for an empty interval.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.per_time(self.area_ns)
    }

    /// Upper bound of the answers among them that lay unread.
    #[must_use]
    pub fn mean_unread(&self) -> f64 {
        self.per_time(self.unread_ns)
    }

    fn per_time(&self, area_ns: u128) -> f64 {
        area_ns as f64 / self.end_ns.saturating_sub(self.start_ns).max(1) as f64
    }
}

/// A check of Little's law: the mean outstanding by the count must equal that by time stamps,
/// except for answers that lay unread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Mean outstanding by the count.
    pub counted: f64,
    /// Upper bound of the answers among them that lay unread: the true mean lies between `counted`
    /// − `unread` and `counted`.
    pub unread: f64,
    /// Mean outstanding by the time stamps.
    pub stamped: f64,
    /// `stamped` − the nearest value of that range, ÷ the greater of both; 0 where `stamped` lies
    /// within the range.
    pub relative_difference: f64,
    /// The greatest relative difference allowed.
    pub tolerance: f64,
    /// Whether the difference is within it.
    pub holds: bool,
}

impl LittlesLaw {
    /// Checks time stamps against a count.
    #[must_use]
    pub fn check(counted: f64, unread: f64, stamped: f64, tolerance: f64) -> Self {
        let nearest = stamped.max(counted - unread).min(counted);
        let greater = nearest.max(stamped);
        let relative_difference = if greater > 0.0 {
            (stamped - nearest) / greater
        } else {
            0.0
        };
        // NaN must fail the check.
        let is_number = counted.is_finite() && unread.is_finite() && stamped.is_finite();
        let holds = is_number && relative_difference.abs() <= tolerance;
        Self {
            counted,
            unread,
            stamped,
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
    fn requests_across_the_ends_count_only_inside_the_window() {
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

    /// Maps the true times (sent, answered) to the stamps.
    type Stamp = fn(u64, u64) -> (u64, u64);

    /// Checks a thousand requests of 2.5 µs, 1 µs apart, with stamps distorted by `stamp`. The
    /// thread receives each answer 100 ns after its arrival.
    fn checked(stamp: Stamp) -> LittlesLaw {
        const END_NS: u64 = 1_000_000;
        const SERVICE_NS: u64 = 2_500;
        const UNREAD_NS: u64 = 100;
        let mut stamped = Outstanding::new(0);
        let mut count = OutstandingCount::new(0, END_NS);
        let mut changes = Vec::new();
        for i in 0..1_000_u64 {
            let (sent_ns, answered_ns) = (i * 1_000, i * 1_000 + SERVICE_NS);
            let (sent, answered) = stamp(sent_ns, answered_ns);
            stamped.sent(sent.min(END_NS));
            stamped.answered(answered.min(END_NS));
            changes.push((sent_ns, 1));
            changes.push((answered_ns + UNREAD_NS, -1));
            count.unread(answered_ns, answered_ns + UNREAD_NS);
        }
        changes.sort_unstable();
        let mut outstanding = 0_i64;
        for (at_ns, change) in changes {
            count.advance(outstanding.cast_unsigned(), at_ns);
            outstanding += change;
        }
        LittlesLaw::check(
            count.mean(),
            count.mean_unread(),
            stamped.mean(END_NS),
            LITTLES_LAW_TOLERANCE,
        )
    }

    #[test]
    fn true_stamps_agree_with_the_count() {
        let check = checked(|sent, answered| (sent, answered));
        assert!(check.holds && check.relative_difference == 0.0, "{check:?}");
        assert!((check.stamped - 2.5).abs() < 0.01, "{check:?}");
        assert!((check.counted - 2.6).abs() < 0.01, "{check:?}");
        assert!((check.unread - 0.1).abs() < 0.01, "{check:?}");
    }

    #[test]
    fn stamps_that_are_shifted_or_scaled_do_not() {
        let wrong: [Stamp; 5] = [
            |sent, answered| (sent + 400, answered),
            |sent, answered| (sent.saturating_sub(400), answered),
            |sent, answered| (sent, answered - 400),
            |sent, answered| (sent, answered + 400),
            |sent, answered| (sent, sent + (answered - sent) * 11 / 10),
        ];
        for (at, stamp) in wrong.into_iter().enumerate() {
            let check = checked(stamp);
            assert!(!check.holds, "{at}: {check:?}");
        }
    }

    #[test]
    fn the_count_is_cut_off_at_the_ends_of_the_interval() {
        let mut count = OutstandingCount::new(1_000, 2_000);
        count.advance(0, 500);
        count.advance(2, 1_500);
        count.unread(900, 1_100);
        count.unread(1_900, 2_100);
        count.advance(1, 9_000);
        assert_eq!((count.mean(), count.mean_unread()), (1.5, 0.2));
        let mut both = count;
        both.merge(&count);
        assert_eq!((both.mean(), both.mean_unread()), (3.0, 0.4));
    }

    #[test]
    fn empty_and_invalid_values_are_handled() {
        let holds = |counted, unread, stamped| {
            LittlesLaw::check(counted, unread, stamped, LITTLES_LAW_TOLERANCE).holds
        };
        assert!(holds(0.0, 0.0, 0.0));
        assert_eq!(Outstanding::new(5).mean(5), 0.0);
        assert_eq!(OutstandingCount::new(5, 5).mean(), 0.0);
        assert!(!holds(f64::NAN, 0.0, 1.0) && !holds(1.0, f64::NAN, 1.0));
        assert!(holds(1.0, 0.0, 0.96) && holds(1.0, 0.5, 0.48) && holds(1.0, 0.5, 1.04));
        assert!(!holds(1.0, 0.0, 0.94) && !holds(1.0, 0.5, 0.47) && !holds(1.0, 0.5, 1.06));
    }
}
