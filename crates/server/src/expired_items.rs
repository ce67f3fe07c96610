//! Reclaims the memory of expired items on the main thread, although no request arrives.
//!
//! Workers reclaim it in passing, but an idle worker sleeps until the next request. The main thread
//! therefore wakes up when all items of a segment have expired. It never wakes up if no item
//! expires. It works in short steps, because a worker may wait for a lock that it holds.
//! `lru_crawler disable` turns this off, as it stops memcached's thread that does the same.

use std::sync::Arc;

use session::Clock;
use store::{Store, Worker};
use sys::clock::monotonic_ns;

use crate::limits::STEP_PAUSE_NS;

/// Maximum number of steps of the store ([`Worker::reclaim_expired`]) that are made together.
const STEPS: usize = 8;
const NS_PER_S: u64 = 1_000_000_000;

/// The reclamation of expired items.
pub(crate) struct ExpiredItems {
    store: Arc<Store>,
    worker: Worker,
    clock: Clock,
    has_more: bool,
}

impl ExpiredItems {
    pub(crate) fn new(store: &Arc<Store>, clock: Clock) -> Self {
        let mut worker = store.worker();
        worker.offline();
        Self {
            store: Arc::clone(store),
            worker,
            clock,
            has_more: false,
        }
    }

    /// Nanoseconds until the next step; none if no item expires.
    pub(crate) fn next_step_in_ns(&self) -> Option<u64> {
        if self.has_more {
            return Some(STEP_PAUSE_NS);
        }
        let now_s = self.clock.at(monotonic_ns()).elapsed_s;
        let left_s = self.store.reclaim_time().seconds_left(now_s)?;
        Some(u64::from(left_s) * NS_PER_S)
    }

    /// Makes a step if items have expired.
    pub(crate) fn step(&mut self) {
        let now_s = self.clock.at(monotonic_ns()).elapsed_s;
        if self.has_more || self.store.reclaim_time().is_past(now_s) {
            self.has_more = self.worker.reclaim_expired(now_s, STEPS);
            self.worker.offline();
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{Config, Expiry, Mode, Write};

    use super::*;

    #[test]
    fn the_thread_wakes_up_when_items_expire_and_not_if_none_does() {
        let store = Arc::new(Store::new(Config::DEFAULT).unwrap());
        let clock = Clock::new(monotonic_ns(), 1_700_000_000).adjustable();
        let mut expired = ExpiredItems::new(&store, clock.clone());
        assert_eq!(expired.next_step_in_ns(), None);
        let mut worker = store.worker();
        let mut put = |key: &[u8], expiry| {
            let hash = worker.hash(key);
            let write = Write::plain(Mode::Set, expiry);
            worker.put(key, hash, b"value", &write, 1).unwrap();
            worker.offline();
        };
        put(b"stays", Expiry::NEVER);
        assert_eq!(expired.next_step_in_ns(), None);
        put(b"expires", Expiry::at(1_000));
        let in_ns = expired.next_step_in_ns().unwrap();
        assert!(
            (900 * NS_PER_S..=1_000 * NS_PER_S).contains(&in_ns),
            "{in_ns}"
        );
        expired.step();
        assert_eq!(store.statistics().items, 2);
        let advance = protocol::DebugTime::Advance { seconds: 1_000 };
        clock.change(advance, monotonic_ns()).unwrap();
        // It makes steps until it has nothing to do now.
        let mut steps = 0;
        while expired
            .next_step_in_ns()
            .is_some_and(|ns| ns <= STEP_PAUSE_NS)
        {
            expired.step();
            steps += 1;
            assert!(steps < 1_000);
        }
        assert_eq!(store.statistics().items, 1);
        assert_eq!(expired.next_step_in_ns(), None);
    }
}
