//! Changes of the server's clock by clients (`debugtime`), to test behaviour that depends on time.
//!
//! When a stopped clock resumes, it shows the time that it would show without the stop. So no
//! change moves the clock back.
//!
//! A worker may still use an earlier time than another worker has used before, for two reasons.
//! First, a worker reads the clock once for all connections that it answers together. If another
//! worker advances the clock meanwhile, the first worker may find items with a later time. Second,
//! the clock stops at the second that the stopping worker has read, but other workers may have read
//! the next second already. So all ages in the store saturate at 0.

use std::sync::atomic::{AtomicU64, Ordering};

use protocol::DebugTime;

/// Maximum number of seconds by which a clock may be ahead of real time. With this limit, ages and
/// times to live cannot overflow.
const AHEAD_MAX_S: u32 = i32::MAX as u32;

/// The changes of a clock by clients. All clones of the clock share them.
#[derive(Debug, Default)]
pub(super) struct Adjustment {
    /// The fields of an [`Adjusted`], as one word.
    word: AtomicU64,
}

/// The state of a clock that clients may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Adjusted {
    /// Seconds by which the clock is ahead of real time when it runs.
    ahead_s: u32,
    /// The second at which the clock has stopped. 0: the clock runs.
    stopped_s: u32,
}

/// Why a clock does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockRefused {
    /// Clients cannot change this clock.
    Unsupported,
    /// The clock would go back, or be ahead of real time by more than [`i32::MAX`] seconds.
    OnlyForward,
}

impl Adjustment {
    /// The second that the clock shows when a clock without changes shows `real_s`.
    pub(super) fn shown_s(&self, real_s: u32) -> u32 {
        Adjusted::of(self.word.load(Ordering::Relaxed)).shown_s(real_s)
    }

    /// Makes a change when a clock without changes shows `real_s`. Returns the second that the
    /// changed clock then shows.
    pub(super) fn change(&self, change: DebugTime, real_s: u32) -> Result<u32, ClockRefused> {
        let mut after = None;
        let changed = self
            .word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                after = Adjusted::of(word).after(change, real_s);
                after.map(Adjusted::word)
            });
        match (changed, after) {
            (Ok(_), Some(after)) => Ok(after.shown_s(real_s)),
            _ => Err(ClockRefused::OnlyForward),
        }
    }
}

impl Adjusted {
    fn of(word: u64) -> Self {
        Self {
            ahead_s: (word >> 32) as u32,
            stopped_s: word as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.ahead_s) << 32 | u64::from(self.stopped_s)
    }

    fn shown_s(self, real_s: u32) -> u32 {
        match self.stopped_s {
            0 => real_s.saturating_add(self.ahead_s),
            stopped_s => stopped_s,
        }
    }

    /// Returns the state after a change. `None`: the change is refused.
    fn after(mut self, change: DebugTime, real_s: u32) -> Option<Self> {
        match change {
            DebugTime::Pause => self.stopped_s = self.shown_s(real_s),
            DebugTime::Resume => self.stopped_s = 0,
            DebugTime::Advance { seconds } => {
                let seconds = u32::try_from(seconds).ok()?;
                let ahead_s = self.ahead_s.checked_add(seconds)?;
                self.ahead_s = Some(ahead_s).filter(|&ahead_s| ahead_s <= AHEAD_MAX_S)?;
                if self.stopped_s != 0 {
                    self.stopped_s = self.stopped_s.saturating_add(seconds);
                }
            }
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(seconds: i64) -> DebugTime {
        DebugTime::Advance { seconds }
    }

    #[test]
    fn a_resumed_clock_shows_the_time_that_it_would_show_without_the_stop() {
        let clock = Adjustment::default();
        assert_eq!(clock.change(advance(5), 10), Ok(15));
        assert_eq!(clock.change(DebugTime::Pause, 11), Ok(16));
        assert_eq!(clock.shown_s(99), 16);
        assert_eq!(clock.change(advance(3), 20), Ok(19));
        assert_eq!(clock.change(DebugTime::Pause, 21), Ok(19));
        // The clock is ahead by 5 + 3 seconds.
        assert_eq!(clock.change(DebugTime::Resume, 22), Ok(30));
        assert_eq!(clock.shown_s(23), 31);
        assert_eq!(
            clock.change(DebugTime::Resume, 24),
            Ok(32),
            "it runs already"
        );
    }

    #[test]
    fn a_clock_goes_neither_back_nor_ahead_by_more_than_i32_max_seconds() {
        let clock = Adjustment::default();
        let most = i64::from(i32::MAX);
        for refused in [-1, i64::MIN, most + 1, i64::MAX] {
            let refused = clock.change(advance(refused), 1);
            assert_eq!(refused, Err(ClockRefused::OnlyForward));
        }
        assert_eq!(clock.shown_s(7), 7);
        assert_eq!(clock.change(advance(most), 1), Ok(1 << 31));
        let refused = clock.change(advance(1), 1);
        assert_eq!(refused, Err(ClockRefused::OnlyForward));
        assert_eq!(clock.shown_s(u32::MAX), u32::MAX);
    }
}
