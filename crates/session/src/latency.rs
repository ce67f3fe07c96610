//! How long requests are in the server, by class of command.
//!
//! Time is measured per burst, and every request of a burst is recorded with the time of the burst.
//! It begins with the wake-up of the worker (or of the connection's thread or fibre) and ends when
//! all replies have been written to the output. With `events` it also contains the system calls
//! that send the replies; the other runtimes send them afterwards. For a request that was answered
//! early in a large burst, the recorded time is an upper bound. It does not contain the time during
//! which the request waited in the kernel before the wake-up.
//!
//! Recording costs nothing per request. After each burst, [`LatencyRecorder`] subtracts the values
//! that the worker's [`Counters`] had after the previous burst from their present values. The
//! differences are the numbers of requests by class. The cost per burst is eleven loads, a second
//! reading of the clock (by the runtime), and two additions for each class that occurred.
//!
//! Consequences:
//! - A `get` of several keys is recorded once for each key, as in `cmd_get`.
//! - A request that took several bursts, for example because its value arrived in parts, is
//!   recorded in the burst that completes it, with the time of that burst only.
//! - Requests that increment none of these counters are not recorded: `mn`, `version`, `stats`,
//!   rejected lines, values that are too large or for which there is no memory, `md` that marks an
//!   item stale, and arithmetic that creates its counter or fails although the key has an item.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{Counter, Counters, add_to};

/// A class of commands. There are only a few classes, so that the histograms stay small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum CommandClass {
    /// Keys read by `get` and `gets`, and `mg` except hits with `T`.
    Get,
    /// Stores: `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`.
    Set,
    /// `delete` and `md`.
    Delete,
    /// `incr`, `decr` and `ma`.
    Arith,
    /// `touch`, keys read by `gat` and `gats`, and hits of `mg` with `T`.
    Touch,
    /// `flush_all` and `me`.
    Other,
}

/// The number of classes.
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

/// Inclusive upper bounds of the histogram buckets, in nanoseconds. The list omits the last bucket,
/// which has no bound.
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

/// The number of buckets in the histogram of a class, the unbounded one included.
pub const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;

/// The histograms of one worker, one for each class. Only that worker writes them, so an addition
/// needs no atomic read-modify-write. Any thread may read them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LatencyHistograms {
    classes: [ClassHistogram; CLASSES],
}

/// The histogram of one class: the number of requests by bucket, and the sum of their times.
#[derive(Debug, Default)]
struct ClassHistogram {
    buckets: [AtomicU64; LATENCY_BUCKETS],
    sum_ns: AtomicU64,
}

impl LatencyHistograms {
    /// Records `count` requests of `class` that took `elapsed_ns` each.
    fn add(&self, class: CommandClass, count: u64, elapsed_ns: u64) {
        let cells = &self.classes[class as usize];
        let bucket = LATENCY_BOUNDS_NS.partition_point(|&bound_ns| bound_ns < elapsed_ns);
        add_to(&cells.buckets[bucket], count);
        add_to(&cells.sum_ns, count.wrapping_mul(elapsed_ns));
    }

    /// Returns the present histograms.
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

/// Determines after each burst how many requests of each class it answered, and records them.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    /// The total number of requests of each class at the end of the last recorded burst.
    recorded: [u64; CLASSES],
}

impl LatencyRecorder {
    /// Records all requests that were counted since the last call, with the time `elapsed_ns`. Only
    /// the worker that owns `counters` may call this.
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
    /// The number of requests in each bucket ([`LATENCY_BOUNDS_NS`]). Not cumulative.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// The sum of the requests' times, in nanoseconds.
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
    /// The histograms, in the order of [`CommandClass::ALL`].
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
    fn time_equal_to_a_bound_is_in_the_bucket_of_that_bound() {
        assert_eq!(bucket_of(0), 0);
        for (at, bound_ns) in LATENCY_BOUNDS_NS.into_iter().enumerate() {
            assert_eq!(bucket_of(bound_ns), at, "{bound_ns}");
            assert_eq!(bucket_of(bound_ns + 1), at + 1, "{bound_ns}");
        }
        assert_eq!(bucket_of(u64::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn bounds_follow_the_series_one_two_five_ten() {
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
    fn all_is_in_declaration_order_and_no_counter_is_in_two_classes() {
        let mut counters: Vec<Counter> = Vec::new();
        for (index, class) in CommandClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
            counters.extend(class.counters());
        }
        let unique: std::collections::HashSet<_> = counters.iter().collect();
        assert_eq!(unique.len(), counters.len());
    }
}
