//! How fast a connection exchanges bytes with its peer, to find those that hold the service's
//! memory for longer than they need.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limits::{HOLDER_RATE_MIN, HOLDER_WATCH_S};

/// The bytes that a connection has received and sent. Only its worker or task adds to them. All
/// accesses are relaxed: the thread that reads them does so every second.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    bytes: AtomicU64,
    /// When the watch began ([`is_too_slow`](Self::is_too_slow)), and the bytes until then. 0: the
    /// connection is not watched.
    watched_from_s: AtomicU32,
    bytes_before: AtomicU64,
    /// When the watched connection was looked at last.
    seen_s: AtomicU32,
}

impl Transfer {
    #[inline]
    pub(crate) fn add(&self, len: usize) {
        let bytes = self.bytes.load(Ordering::Relaxed) + len as u64;
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether a connection that holds memory has been watched for more than [`HOLDER_WATCH_S`]
    /// seconds and has transferred less than [`HOLDER_RATE_MIN`] per second. Called at least every
    /// second while others wait for memory; the first call begins the watch.
    pub(crate) fn is_too_slow(&self, now_s: u32) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let from_s = self.watched_from_s.load(Ordering::Relaxed);
        let is_watched = from_s > 0 && now_s - self.seen_s.swap(now_s, Ordering::Relaxed) <= 2;
        let watched_s = now_s.saturating_sub(from_s);
        if is_watched && watched_s <= HOLDER_WATCH_S {
            return false;
        }
        let transferred = bytes - self.bytes_before.load(Ordering::Relaxed);
        if is_watched && transferred < u64::from(watched_s) * HOLDER_RATE_MIN {
            return true;
        }
        self.seen_s.store(now_s, Ordering::Relaxed);
        self.watched_from_s.store(now_s, Ordering::Relaxed);
        self.bytes_before.store(bytes, Ordering::Relaxed);
        false
    }

    /// Ends the watch: the connection holds no memory, or does not wait for its peer.
    pub(crate) fn end_watch(&self) {
        self.watched_from_s.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_slow_for_as_long_as_others_wait_is_too_slow() {
        let transfer = Transfer::default();
        transfer.add(1 << 20);
        let first_slow = |from_s: u32, bytes_per_s: usize| {
            (from_s..from_s + 4 * HOLDER_WATCH_S).find(|&now_s| {
                transfer.add(bytes_per_s);
                transfer.is_too_slow(now_s)
            })
        };
        let slow_s = 100 + HOLDER_WATCH_S + 1;
        assert_eq!(first_slow(100, 1), Some(slow_s));
        // Nobody has waited for some seconds, so the watch begins again.
        assert_eq!(first_slow(200, 1), Some(slow_s + 100));
        assert_eq!(first_slow(300, HOLDER_RATE_MIN as usize * 2), None);
        transfer.end_watch();
        assert!(!transfer.is_too_slow(320));
    }
}
