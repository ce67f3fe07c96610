//! The time of a burst, and the clock that computes it from a runtime's monotonic time.

mod adjustment;

use std::sync::Arc;

use protocol::DebugTime;
use store::Expiry;

use adjustment::Adjustment;

pub use adjustment::ClockRefused;

/// Maximum relative time that a client may send, in seconds: thirty days. A larger number is a Unix
/// time (memcached's `protocol.txt`).
const RELATIVE_MAX_S: i32 = 60 * 60 * 24 * 30;
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// The time of a burst (all that a worker answers after one wake-up). The clock is read once per
/// burst, so all requests of a burst share one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Seconds since the server started, counted from 1. Clients may have changed the clock
    /// ([`Clock::adjustable`]).
    pub elapsed_s: u32,
    /// The Unix second at which `elapsed_s` was 0.
    pub epoch_unix_s: u64,
}

/// The server's clock, which converts nanoseconds of a monotonic clock to whole seconds. All clones
/// of a clock show the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    started_ns: u64,
    epoch_unix_s: u64,
    /// The changes that clients have made. `None`: clients cannot change this clock. Reading the
    /// clock then costs only one additional branch.
    adjustment: Option<Arc<Adjustment>>,
}

impl Clock {
    /// A clock that shows second 1 at the monotonic time `monotonic_ns`, which is the Unix time
    /// `unix_s`. The clock never shows second 0, because 0 stands for every time before the start.
    #[must_use]
    pub fn new(monotonic_ns: u64, unix_s: u64) -> Self {
        Self {
            started_ns: monotonic_ns.wrapping_sub(NS_PER_S),
            epoch_unix_s: unix_s.saturating_sub(1),
            adjustment: None,
        }
    }

    /// Lets clients change this clock and its later clones.
    #[must_use]
    pub fn adjustable(mut self) -> Self {
        self.adjustment = Some(Arc::default());
        self
    }

    /// The time at `monotonic_ns`.
    #[inline]
    #[must_use]
    pub fn at(&self, monotonic_ns: u64) -> Now {
        let elapsed_s = self.real_s(monotonic_ns);
        let elapsed_s = match &self.adjustment {
            None => elapsed_s,
            Some(adjustment) => adjustment.shown_s(elapsed_s),
        };
        self.now(elapsed_s)
    }

    /// Changes the clock at the monotonic time `monotonic_ns`. Returns the time that the clock then
    /// shows. Other threads use the changed time from their next burst on.
    ///
    /// # Errors
    /// The clock does not change. The error is the reason.
    pub fn change(&self, change: DebugTime, monotonic_ns: u64) -> Result<Now, ClockRefused> {
        let adjustment = self.adjustment.as_ref().ok_or(ClockRefused::Unsupported)?;
        let elapsed_s = adjustment.change(change, self.real_s(monotonic_ns))?;
        Ok(self.now(elapsed_s))
    }

    /// The second that the clock would show without the changes of clients.
    #[inline]
    fn real_s(&self, monotonic_ns: u64) -> u32 {
        let elapsed_s = monotonic_ns.wrapping_sub(self.started_ns) / NS_PER_S;
        u32::try_from(elapsed_s).unwrap_or(u32::MAX)
    }

    fn now(&self, elapsed_s: u32) -> Now {
        Now {
            elapsed_s,
            epoch_unix_s: self.epoch_unix_s,
        }
    }
}

impl Now {
    /// Returns the expiry of an item whose client sent `exptime`. Zero means never, and a negative
    /// number means immediately. A number up to thirty days is relative to now, in seconds. A
    /// larger number is a Unix time in seconds.
    #[must_use]
    pub fn expiry(&self, exptime: i32) -> Expiry {
        match exptime {
            0 => Expiry::NEVER,
            ..0 => Expiry::at(0),
            1..=RELATIVE_MAX_S => Expiry::at(self.elapsed_s.saturating_add(exptime.unsigned_abs())),
            _ => Expiry::at(self.since_epoch(exptime.unsigned_abs())),
        }
    }

    /// Returns the second of the server's clock at which a `flush_all` with the time `exptime`
    /// takes effect. Without a time, or with a time of at most zero, the flush takes effect now.
    /// Returns `None` for a Unix time before the server's start: no item is that old, so the flush
    /// has no effect.
    #[must_use]
    pub fn flush_second(&self, exptime: Option<i32>) -> Option<u32> {
        match exptime {
            None | Some(..=0) => Some(self.elapsed_s),
            Some(seconds @ 1..=RELATIVE_MAX_S) => {
                Some(self.elapsed_s.saturating_add(seconds.unsigned_abs()))
            }
            Some(unix) => {
                let second = self.since_epoch(unix.unsigned_abs());
                (second > 0).then_some(second)
            }
        }
    }

    /// Converts a Unix time to a second of the server's clock. A time before the server's start
    /// becomes 0.
    pub(crate) fn since_epoch(&self, unix_s: u32) -> u32 {
        let since = u64::from(unix_s).saturating_sub(self.epoch_unix_s);
        u32::try_from(since).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now {
        elapsed_s: 100,
        epoch_unix_s: 1_700_000_000,
    };

    #[test]
    fn clock_shows_second_one_at_the_start_of_the_server() {
        let clock = Clock::new(5 * NS_PER_S, 1_700_000_001);
        let now = Now {
            elapsed_s: 1,
            epoch_unix_s: 1_700_000_000,
        };
        assert_eq!(clock.at(5 * NS_PER_S), now);
        assert_eq!(clock.at(8 * NS_PER_S - 1).elapsed_s, 3);
        assert_eq!(
            Clock::new(0, 0).at(0).elapsed_s,
            1,
            "a clock that starts at zero"
        );
    }

    #[test]
    fn exptime_is_relative_up_to_thirty_days_and_then_a_unix_time() {
        assert_eq!(NOW.expiry(0), Expiry::NEVER);
        assert!(NOW.expiry(-1).is_past(1));
        assert_eq!(NOW.expiry(5), Expiry::at(105));
        // Thirty days.
        assert_eq!(NOW.expiry(2_592_000), Expiry::at(2_592_100));
        assert_eq!(NOW.expiry(1_700_000_150), Expiry::at(150));
        // A Unix time in the year 1970.
        assert!(NOW.expiry(2_592_001).is_past(100));
    }

    #[test]
    fn flush_without_a_positive_time_takes_effect_now() {
        assert_eq!(NOW.flush_second(None), Some(100));
        assert_eq!(NOW.flush_second(Some(-1)), Some(100));
        assert_eq!(NOW.flush_second(Some(2)), Some(102));
        assert_eq!(NOW.flush_second(Some(1_700_000_160)), Some(160));
    }

    #[test]
    fn flush_at_a_time_before_the_server_start_flushes_nothing() {
        assert_eq!(NOW.flush_second(Some(1_700_000_001)), Some(1));
        assert_eq!(NOW.flush_second(Some(1_700_000_000)), None);
        assert_eq!(NOW.flush_second(Some(1_600_000_000)), None);
    }
}
