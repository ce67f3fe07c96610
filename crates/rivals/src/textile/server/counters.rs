//! What the workers count: requests, and where their time goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::textile::LockWaits;
use crate::textile::locks::WaitCounter;

/// The counters of one worker thread. Only that thread adds to them.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) sets: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) cache_ns: AtomicU64,
    pub(crate) spin_ns: AtomicU64,
    /// Waits for the lock of the queue.
    pub(in crate::textile) queue: WaitCounter,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// The counters of all workers since the start or the last reset. Printed as one line of JSON when
/// the server stops. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Answered `GET`s.
    pub gets: u64,
    /// Those that found their key.
    pub hits: u64,
    /// Answered `PUT`s.
    pub sets: u64,
    /// Answered `DELETE`s.
    pub deletes: u64,
    /// Other answered requests.
    pub others: u64,
    /// `PUT`s of a value that is larger than the cache. They are among `sets`.
    pub rejected: u64,
    /// Requests that were none.
    pub malformed: u64,
    /// Connections without a complete request, or whose peer did not take the answer in time.
    pub lost: u64,
    /// Requests dropped because the queue was full.
    pub dropped: u64,
    /// Processor time of the process in user mode.
    pub user_ns: u64,
    /// Processor time of the process in the kernel.
    pub system_ns: u64,
    /// Processor time of the cache's operations.
    pub cache_ns: u64,
    /// Processor time of workers that poll an empty queue.
    pub spin_ns: u64,
    /// The rest of `user_ns` and `system_ns`: sockets, the protocol, and hand-overs among threads.
    pub other_ns: u64,
    /// How often a worker found the queue locked, and the time it waited.
    pub queue_waits: u64,
    /// See `queue_waits`.
    pub queue_waited_ns: u64,
    /// How often an operation found a lock of the cache taken.
    pub lock_waits: u64,
    /// The time that operations waited for the cache's locks. The sum of the times by lock, below.
    pub lock_waited_ns: u64,
    /// The lock that the table takes to double.
    pub capacity_waited_ns: u64,
    /// The lock of the number of items.
    pub length_waited_ns: u64,
    /// The lock of the memory in use.
    pub memory_waited_ns: u64,
    /// The lock of the list of least recent use.
    pub recency_waited_ns: u64,
    /// The locks of the entries, of the stripes, or of the whole table.
    pub entry_waited_ns: u64,
}

impl Counters {
    /// Sums the counters of workers. The times of the process and the waits of the cache are set by
    /// the caller.
    pub(crate) fn sum(workers: &[Arc<WorkerCounters>]) -> Self {
        let sum = |counter: fn(&WorkerCounters) -> &AtomicU64| {
            let each = workers.iter().map(|it| counter(it).load(Ordering::Relaxed));
            each.sum()
        };
        let queue = || workers.iter().map(|it| it.queue.waits());
        Self {
            gets: sum(|it| &it.gets),
            hits: sum(|it| &it.hits),
            sets: sum(|it| &it.sets),
            deletes: sum(|it| &it.deletes),
            others: sum(|it| &it.others),
            rejected: sum(|it| &it.rejected),
            malformed: sum(|it| &it.malformed),
            lost: sum(|it| &it.lost),
            dropped: sum(|it| &it.dropped),
            cache_ns: sum(|it| &it.cache_ns),
            spin_ns: sum(|it| &it.spin_ns),
            queue_waits: queue().map(|it| it.count).sum(),
            queue_waited_ns: queue().map(|it| it.waited_ns).sum(),
            ..Self::default()
        }
    }

    /// Sets the processor time of the process.
    pub(crate) fn set_times(&mut self, (user_ns, system_ns): (u64, u64)) {
        let counted_ns = self.cache_ns + self.spin_ns;
        self.other_ns = (user_ns + system_ns).saturating_sub(counted_ns);
        (self.user_ns, self.system_ns) = (user_ns, system_ns);
    }

    /// Adds the waits of a cache.
    pub(crate) fn add_waits(&mut self, waits: &LockWaits) {
        let all = [
            (&mut self.capacity_waited_ns, waits.capacity),
            (&mut self.length_waited_ns, waits.length),
            (&mut self.memory_waited_ns, waits.memory),
            (&mut self.recency_waited_ns, waits.recency),
            (&mut self.entry_waited_ns, waits.entry),
        ];
        for (by_lock, waits) in all {
            *by_lock += waits.waited_ns;
            self.lock_waits += waits.count;
            self.lock_waited_ns += waits.waited_ns;
        }
    }

    /// The difference to earlier counters.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            gets: self.gets - earlier.gets,
            hits: self.hits - earlier.hits,
            sets: self.sets - earlier.sets,
            deletes: self.deletes - earlier.deletes,
            others: self.others - earlier.others,
            rejected: self.rejected - earlier.rejected,
            malformed: self.malformed - earlier.malformed,
            lost: self.lost - earlier.lost,
            dropped: self.dropped - earlier.dropped,
            user_ns: self.user_ns - earlier.user_ns,
            system_ns: self.system_ns - earlier.system_ns,
            cache_ns: self.cache_ns - earlier.cache_ns,
            spin_ns: self.spin_ns - earlier.spin_ns,
            other_ns: self.other_ns.saturating_sub(earlier.other_ns),
            queue_waits: self.queue_waits - earlier.queue_waits,
            queue_waited_ns: self.queue_waited_ns - earlier.queue_waited_ns,
            lock_waits: self.lock_waits - earlier.lock_waits,
            lock_waited_ns: self.lock_waited_ns - earlier.lock_waited_ns,
            capacity_waited_ns: self.capacity_waited_ns - earlier.capacity_waited_ns,
            length_waited_ns: self.length_waited_ns - earlier.length_waited_ns,
            memory_waited_ns: self.memory_waited_ns - earlier.memory_waited_ns,
            recency_waited_ns: self.recency_waited_ns - earlier.recency_waited_ns,
            entry_waited_ns: self.entry_waited_ns - earlier.entry_waited_ns,
        }
    }
}
