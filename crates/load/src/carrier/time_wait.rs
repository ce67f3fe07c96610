//! Counts this process's sockets in TIME_WAIT.
//!
//! A socket stays in TIME_WAIT for [`TIME_WAIT_S`] seconds and keeps its local port, even if the
//! run that closed it has ended. The trials of a search, and the runs of an agent, follow each
//! other within seconds. Therefore one count serves all runs and all threads of the process.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{TIME_WAIT_MAX, TIME_WAIT_S};

/// The count of this process.
pub(super) static TIME_WAIT: TimeWaitSockets = TimeWaitSockets::new(TIME_WAIT_MAX);

/// The number of sockets closed in each of the last [`TIME_WAIT_S`] seconds.
///
/// It has no lock, because a generator thread that waits for a lock sends its requests late.
/// Threads that add sockets at the same time may therefore exceed the maximum, by less than one
/// socket for each thread.
#[derive(Debug)]
pub(super) struct TimeWaitSockets {
    /// The entry of second `s` is at index `s % TIME_WAIT_S`. Its high 32 bits are `s`, which shows
    /// whether the entry is out of date. Its low 32 bits are the number of sockets closed in `s`.
    by_second: [AtomicU64; TIME_WAIT_S],
    /// The maximum number of sockets for each local address.
    max: u32,
}

impl TimeWaitSockets {
    pub(super) const fn new(max: u32) -> Self {
        Self {
            by_second: [const { AtomicU64::new(0) }; TIME_WAIT_S],
            max,
        }
    }

    /// Counts one more socket, unless the maximum is reached. Returns whether the socket was
    /// counted. `now_ns` is on the monotonic clock. `addresses` is the number of local addresses
    /// over which the caller distributes its sockets.
    pub(super) fn try_add(&self, now_ns: u64, addresses: u32) -> bool {
        if self.len(now_ns) >= u64::from(self.max) * u64::from(addresses) {
            return false;
        }
        let second = second_of(now_ns);
        let entry = &self.by_second[(second % TIME_WAIT_S as u64) as usize];
        // The new entry if this socket is the first one of this second: a count of 1.
        let first = second << 32 | 1;
        // The update always succeeds, because the function always returns a value.
        let _ = entry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
            Some(if old >> 32 == second { old + 1 } else { first })
        });
        true
    }

    /// Returns the number of sockets in TIME_WAIT at `now_ns`, on the monotonic clock.
    pub(super) fn len(&self, now_ns: u64) -> u64 {
        let second = second_of(now_ns);
        let counts = self.by_second.iter().map(|entry| {
            let entry = entry.load(Ordering::Relaxed);
            let is_recent = (entry >> 32) + TIME_WAIT_S as u64 > second;
            if is_recent {
                entry & u64::from(u32::MAX)
            } else {
                0
            }
        });
        counts.sum()
    }
}

/// Returns the second of a time on the monotonic clock. It fits in 32 bits for 136 years of uptime.
fn second_of(now_ns: u64) -> u64 {
    now_ns / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_closed_within_a_minute_are_bounded() {
        const S: u64 = 1_000_000_000;
        // At most three sockets for each local address, with one local address.
        let sockets = TimeWaitSockets::new(3);
        // `at` adds a socket in a second. A socket of second 1000 is in TIME_WAIT up to second
        // 1059.
        let at = |second: u64| sockets.try_add(second * S, 1);
        assert!(at(1000) && at(1000) && at(1030));
        assert!(!at(1030) && !at(1059));
        assert!(at(1060) && at(1060) && !at(1060));
        assert!(!at(1089) && at(1090));
        assert!(at(9999) && at(9999) && at(9999));
        assert!(!at(9999));
        // The maximum is for each local address, because each address has its own ports.
        assert!(sockets.try_add(9999 * S, 2) && !at(9999));
    }
}
