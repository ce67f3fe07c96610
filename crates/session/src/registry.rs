//! The registry of all workers' counters. It computes the sums that `stats` shows.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connections::Connections;
use crate::counters::{ClassCounts, CounterSnapshot, Counters};
use crate::latency::LatencySnapshot;
use crate::prefixes::{AllPrefixes, PrefixSums};
use crate::watching::Watchers;

/// The counters of all workers of a cache, for the statistics of the whole process. It also holds
/// the list of the open connections, and the watchers (clients that receive log lines).
#[derive(Debug, Default)]
pub struct CounterRegistry {
    /// Whether counting by key prefix is on (high byte), and the delimiter (low byte).
    prefix_counting: AtomicU16,
    all_prefixes: Arc<AllPrefixes>,
    workers: Mutex<Vec<Arc<Counters>>>,
    connections: Arc<Connections>,
    watchers: Mutex<Watchers>,
}

impl CounterRegistry {
    /// Registers a new worker and returns its counters.
    pub(crate) fn register(&self) -> Arc<Counters> {
        let new = Arc::new(Counters::counted_in(&self.all_prefixes));
        let watchers = self.watchers();
        let mut workers = self.workers();
        let (is_on, delimiter) = self.prefix_counting();
        new.set_prefix_counting(is_on, delimiter);
        // Tells the worker which log lines the present watchers receive.
        watchers.set_up(&new);
        workers.push(Arc::clone(&new));
        new
    }

    /// The sum of all workers' counters.
    #[must_use]
    pub fn counts(&self) -> CounterSnapshot {
        let sum = |sum: CounterSnapshot, counters: &Arc<Counters>| sum.plus(&counters.snapshot());
        self.workers().iter().fold(CounterSnapshot::default(), sum)
    }

    /// The counters of each size class, summed over all workers.
    #[must_use]
    pub fn class_counts(&self) -> ClassCounts {
        let sum = |sum: ClassCounts, counters: &Arc<Counters>| sum.plus(&counters.class_snapshot());
        self.workers().iter().fold(ClassCounts::default(), sum)
    }

    /// The latency histograms, summed over all workers: how long requests are in the server. The
    /// histograms are empty unless the service
    /// [records latency](crate::CacheService::latency).
    #[must_use]
    pub fn latencies(&self) -> LatencySnapshot {
        let sum =
            |sum: LatencySnapshot, counters: &Arc<Counters>| sum.plus(&counters.latency_snapshot());
        self.workers().iter().fold(LatencySnapshot::default(), sum)
    }

    /// Sets the longest times of all workers to zero.
    pub fn clear_latency_max(&self) {
        for counters in &*self.workers() {
            counters.latencies().clear_max();
        }
    }

    /// Turns counting by key prefix on or off in every worker. `delimiter` ends a prefix.
    pub fn set_prefix_counting(&self, is_on: bool, delimiter: u8) {
        let workers = self.workers();
        let packed = u16::from_be_bytes([is_on.into(), delimiter]);
        self.prefix_counting.store(packed, Ordering::Relaxed);
        for counters in &*workers {
            counters.set_prefix_counting(is_on, delimiter);
        }
    }

    /// Whether counting by key prefix is on, and the delimiter.
    #[must_use]
    pub fn prefix_counting(&self) -> (bool, u8) {
        let [is_on, delimiter] = self.prefix_counting.load(Ordering::Relaxed).to_be_bytes();
        (is_on != 0, delimiter)
    }

    /// The counts of the first `max` key prefixes after `after`, summed over all workers.
    #[must_use]
    pub fn prefixes(&self, after: Option<&[u8]>, max: usize) -> PrefixSums {
        let mut sums = PrefixSums::new();
        for counters in &*self.workers() {
            counters.add_prefixes_to(after, max, &mut sums);
        }
        // Each worker has added as many.
        if let Some(next) = sums.keys().nth(max).cloned() {
            sums.split_off(&next);
        }
        sums
    }

    /// Removes the counts by key prefix of all workers and returns them. It takes milliseconds to
    /// drop many.
    #[must_use]
    pub fn clear_prefixes(&self) -> Vec<PrefixSums> {
        self.workers()
            .iter()
            .map(|it| it.clear_prefixes())
            .collect()
    }

    /// The number of accesses under key prefixes for which `stats detail` has no space.
    #[must_use]
    pub fn accesses_without_prefix(&self) -> u64 {
        self.all_prefixes.uncounted.load(Ordering::Relaxed)
    }

    /// The open connections.
    #[must_use]
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Locks the watchers. A thread that needs both this lock and the lock of `workers` must take
    /// this lock first.
    pub(crate) fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the counters of all workers.
    pub(crate) fn workers(&self) -> MutexGuard<'_, Vec<Arc<Counters>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
