//! The date of responses.

const NS_PER_S: u64 = 1_000_000_000;

/// Converts times of the monotonic clock to those of the calendar.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    /// A time of the monotonic clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// The same time, in nanoseconds since 1970 in UTC.
    pub unix_ns: u64,
}

impl WallClock {
    /// Seconds since 1970 in UTC, at a time of the monotonic clock.
    fn unix_s(self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.monotonic_ns);
        self.unix_ns.saturating_add(elapsed_ns) / NS_PER_S
    }
}

/// The date of the present second as text.
#[derive(Debug)]
pub(super) struct DateCache {
    clock: WallClock,
    second: u64,
    text: String,
}

impl DateCache {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            second: 0,
            text: http::format_date(0),
        }
    }

    /// The date as text, and as seconds since 1970 in UTC.
    pub(super) fn at(&mut self, now_ns: u64) -> (&str, u64) {
        let second = self.clock.unix_s(now_ns);
        if second != self.second {
            self.second = second;
            self.text = http::format_date(second);
        }
        (&self.text, second)
    }
}
