//! The limit of written bytes a second, which protects flash memory from wear.

use std::sync::{Mutex, PoisonError};

/// A budget of bytes that is filled every second. A record is taken while the budget is positive,
/// and may make it negative, so that no record is too long for a small rate.
#[derive(Debug)]
pub(crate) struct WriteRate {
    bytes_per_s: i64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    second: u32,
    left: i64,
}

impl WriteRate {
    pub(crate) fn new(bytes_per_s: u64) -> Self {
        let bytes_per_s = i64::try_from(bytes_per_s).unwrap_or(i64::MAX);
        Self {
            bytes_per_s,
            state: Mutex::new(State { second: 0, left: 0 }),
        }
    }

    /// Takes `bytes` from the budget. Returns false if it is used up.
    pub(crate) fn take(&self, bytes: usize, now_s: u32) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now_s > state.second {
            let elapsed_s = i64::from(now_s - state.second);
            let gained = self.bytes_per_s.saturating_mul(elapsed_s);
            state.left = state.left.saturating_add(gained).min(self.bytes_per_s);
            state.second = now_s;
        }
        if state.left <= 0 {
            return false;
        }
        state.left -= bytes as i64;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_rate_is_written_over_a_minute() {
        let rate = WriteRate::new(1000);
        let mut written = 0;
        for second in 1..=60 {
            for _ in 0..100 {
                written += if rate.take(300, second) { 300 } else { 0 };
            }
        }
        assert!((59_000..=60_300).contains(&written), "{written}");
    }

    #[test]
    fn a_record_above_the_rate_is_written_and_paid_for() {
        let rate = WriteRate::new(10);
        assert!(rate.take(95, 1));
        let next = (2..).find(|&second| rate.take(1, second));
        assert_eq!(next, Some(10), "eight and a half seconds are paid for");
    }

    #[test]
    fn a_pause_saves_one_second_at_most() {
        let rate = WriteRate::new(100);
        assert!(rate.take(100, 1));
        assert!(rate.take(100, 1000));
        assert!(!rate.take(1, 1000));
    }
}
