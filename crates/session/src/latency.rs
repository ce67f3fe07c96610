//! How long requests are in the server, by class of command.
//!
//! The unit of measurement is the burst. Every request of a burst is given the burst's time: from
//! the wake-up of the worker (or of the connection's thread or fibre) until the replies were
//! written. With `events` that includes the system calls that send them; the other runtimes send
//! them afterwards. For a request that was answered early in a large burst this is an upper bound.
//! It does not contain the time that a request waited in the kernel before the wake-up.
//!
//! The histograms need no count per request: after each burst, [`LatencyRecorder`] compares the
//! worker's [`Counters`] with their values after the previous burst. So recording costs nothing per
//! request, and per burst eleven loads, a second reading of the clock (by the runtime), and two
//! additions for each class that occurred.
//!
//! Consequences:
//! - A `get` of several keys counts once for each key, as in `cmd_get`.
//! - A request that took several bursts (a large value on its way in) counts in the burst that
//!   completes it, with the time of that burst.
//! - Requests without a counter (`mn`, `version`, `stats`, rejected lines) are not in the
//!   histograms.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{Counter, Counters};

/// A class of commands. There are few, so that the histograms stay small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum CommandClass {
    /// Reads: `get`, `gets`, `mg`; by key.
    Get,
    /// Stores: `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`.
    Set,
    /// `delete` and `md`.
    Delete,
    /// `incr`, `decr` and `ma`.
    Arith,
    /// `touch`, `gat`, `gats`, and `mg` with `T`.
    Touch,
    /// `flush_all` and `me`.
    Other,
}

/// Number of classes.
const CLASSES: usize = CommandClass::ALL.len();

impl CommandClass {
    /// All classes, in declaration order.
    pub const ALL: [Self; 6] = [
        Self::Get,
        Self::Set,
        Self::Delete,
        Self::Arith,
        Self::Touch,
        Self::Other,
    ];

    /// The name of the class, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Delete => "delete",
            Self::Arith => "arith",
            Self::Touch => "touch",
            Self::Other => "other",
        }
    }

    /// The counters whose sum is the number of requests of the class.
    const fn counters(self) -> &'static [Counter] {
        match self {
            Self::Get => &[Counter::CmdGet],
            Self::Set => &[Counter::CmdSet],
            Self::Delete => &[Counter::DeleteHits, Counter::DeleteMisses],
            Self::Arith => &[
                Counter::IncrHits,
                Counter::IncrMisses,
                Counter::DecrHits,
                Counter::DecrMisses,
            ],
            Self::Touch => &[Counter::CmdTouch],
            Self::Other => &[Counter::CmdFlush, Counter::CmdMeta],
        }
    }
}

/// Inclusive upper bounds of the buckets, in nanoseconds. One more bucket has no bound.
pub const LATENCY_BOUNDS_NS: [u64; 16] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// Number of buckets of a class.
pub const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;

/// One worker's histograms. Only that worker writes them, so adding needs no atomic
/// read-modify-write. Any thread may read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LatencyHistograms {
    classes: [ClassHistogram; CLASSES],
}

#[derive(Debug, Default)]
struct ClassHistogram {
    buckets: [AtomicU64; LATENCY_BUCKETS],
    sum_ns: AtomicU64,
}

impl LatencyHistograms {
    fn add(&self, class: CommandClass, count: u64, elapsed_ns: u64) {
        let cells = &self.classes[class as usize];
        let bucket = LATENCY_BOUNDS_NS.partition_point(|&bound_ns| bound_ns < elapsed_ns);
        add(&cells.buckets[bucket], count);
        add(&cells.sum_ns, count.wrapping_mul(elapsed_ns));
    }

    pub(crate) fn snapshot(&self) -> LatencySnapshot {
        let class = |cells: &ClassHistogram| ClassLatency {
            buckets: std::array::from_fn(|at| cells.buckets[at].load(Ordering::Relaxed)),
            sum_ns: cells.sum_ns.load(Ordering::Relaxed),
        };
        LatencySnapshot {
            classes: std::array::from_fn(|at| class(&self.classes[at])),
        }
    }
}

/// Adds to a cell that only the calling thread writes, so that no other thread changes it between
/// load and store.
fn add(cell: &AtomicU64, count: u64) {
    let sum = cell.load(Ordering::Relaxed).wrapping_add(count);
    cell.store(sum, Ordering::Relaxed);
}

/// Finds out, after each burst, how many requests of each class the burst answered.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    /// The number of requests by class after the last recorded burst.
    recorded: [u64; CLASSES],
}

impl LatencyRecorder {
    /// Records the requests counted since the last call as having taken `elapsed_ns`. Only the
    /// worker that owns `counters` may call it.
    pub(crate) fn record(&mut self, counters: &Counters, elapsed_ns: u64) {
        for (class, recorded) in CommandClass::ALL.into_iter().zip(&mut self.recorded) {
            let counts = class.counters().iter().map(|&counter| counters.of(counter));
            let total = counts.fold(0, u64::wrapping_add);
            let new_requests = total.wrapping_sub(*recorded);
            if new_requests > 0 {
                counters.latencies().add(class, new_requests, elapsed_ns);
                *recorded = total;
            }
        }
    }
}

/// The histogram of one class at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassLatency {
    /// Requests by bucket ([`LATENCY_BOUNDS_NS`]); not cumulative.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// Sum of their times, in nanoseconds.
    pub sum_ns: u64,
}

impl ClassLatency {
    /// The number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The histograms at one moment, of one worker or summed over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencySnapshot {
    /// By class, in the order of [`CommandClass::ALL`].
    pub classes: [ClassLatency; CLASSES],
}

impl LatencySnapshot {
    /// The histogram of `class`.
    #[must_use]
    pub fn of(&self, class: CommandClass) -> &ClassLatency {
        &self.classes[class as usize]
    }

    /// The sum of `self` and `other`.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (sum, added) in self.classes.iter_mut().zip(&other.classes) {
            for (sum, added) in sum.buckets.iter_mut().zip(&added.buckets) {
                *sum += added;
            }
            sum.sum_ns = sum.sum_ns.wrapping_add(added.sum_ns);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket_of(elapsed_ns: u64) -> usize {
        let latencies = LatencyHistograms::default();
        latencies.add(CommandClass::Get, 1, elapsed_ns);
        let snapshot = latencies.snapshot();
        let buckets = &snapshot.of(CommandClass::Get).buckets;
        buckets.iter().position(|&count| count == 1).unwrap()
    }

    #[test]
    fn bounds_of_buckets_are_inclusive() {
        assert_eq!(bucket_of(0), 0);
        for (at, bound_ns) in LATENCY_BOUNDS_NS.into_iter().enumerate() {
            assert_eq!(bucket_of(bound_ns), at, "{bound_ns}");
            assert_eq!(bucket_of(bound_ns + 1), at + 1, "{bound_ns}");
        }
        assert_eq!(bucket_of(u64::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn bounds_ascend_by_one_two_five() {
        for pair in LATENCY_BOUNDS_NS.windows(2) {
            assert!(
                pair[1] == 2 * pair[0] || 2 * pair[1] == 5 * pair[0],
                "{pair:?}"
            );
        }
    }

    #[test]
    fn every_request_of_a_burst_is_recorded_once_with_the_time_of_the_burst() {
        let (counters, mut recorder) = (Counters::default(), LatencyRecorder::default());
        counters.add(Counter::CmdGet, 30);
        counters.count(Counter::GetHits);
        counters.count(Counter::DecrMisses);
        counters.count(Counter::IncrHits);
        recorder.record(&counters, 7_000);
        counters.count(Counter::CmdGet);
        counters.count(Counter::DeleteMisses);
        counters.count(Counter::CmdTouch);
        counters.count(Counter::CmdSet);
        counters.count(Counter::CmdMeta);
        recorder.record(&counters, 300_000_000);
        recorder.record(&counters, 1);

        let snapshot = counters.latencies().snapshot();
        let get = snapshot.of(CommandClass::Get);
        assert_eq!((get.buckets[3], get.buckets[LATENCY_BUCKETS - 1]), (30, 1));
        assert_eq!(get.sum_ns, 30 * 7_000 + 300_000_000);
        let counts = CommandClass::ALL.map(|class| snapshot.of(class).count());
        assert_eq!(counts, [31, 1, 1, 2, 1, 1]);
        let twice = snapshot.plus(&snapshot);
        assert_eq!(twice.of(CommandClass::Get).count(), 62);
        assert_eq!(twice.of(CommandClass::Arith).sum_ns, 4 * 7_000);
    }

    #[test]
    fn all_lists_the_classes_in_declaration_order_and_no_counter_twice() {
        let mut counters: Vec<Counter> = Vec::new();
        for (index, class) in CommandClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
            counters.extend(class.counters());
        }
        let unique: std::collections::HashSet<_> = counters.iter().collect();
        assert_eq!(unique.len(), counters.len());
    }
}
