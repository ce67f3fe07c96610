//! Histograms of the times of requests, by class of command.
//!
//! Times are recorded in narrow buckets, for percentiles: between 1 µs and 10 s, the width of a
//! bucket is at most 12.5 % of its upper bound. The latency metric that the server exports shows
//! fewer, wider buckets ([`LATENCY_BOUNDS_NS`]). Each of these is the union of whole narrow
//! buckets, so its count is exact.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CLASSES, CommandClass};
use crate::counters::add_to;

/// Inclusive upper bounds of the buckets of the metric, in nanoseconds. The list omits the last
/// bucket, which has no bound.
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

/// The number of buckets of the metric, including the last, which has no bound.
pub const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;

/// The three parts of a decade (the times from a power of ten to the next). Each pair contains the
/// end of a part, and the width of the narrow buckets in this part. Both are in hundredths of the
/// lower bound of the decade. For example, the decade from 1 µs to 10 µs has buckets of 0.1 µs up
/// to 2 µs, then of 0.25 µs up to 5 µs, and then of 0.5 µs up to 10 µs.
const STEPS: [(u64, u64); 3] = [(200, 10), (500, 25), (1000, 50)];
/// Number of narrow buckets of a decade.
const PER_DECADE: usize = 32;
/// Number of decades from 1 µs to 10 s.
const DECADES: usize = 7;
/// Number of narrow buckets up to 1 µs. Each is 100 ns wide.
const FIRST: usize = 10;
/// Number of narrow buckets that have an upper bound: all except the last.
const BOUNDS: usize = FIRST + DECADES * PER_DECADE;
/// Number of narrow buckets.
const NARROW: usize = BOUNDS + 1;

/// Inclusive upper bounds of the narrow buckets, in nanoseconds.
const BOUNDS_NS: [u64; BOUNDS] = {
    let mut bounds = [0; BOUNDS];
    let mut at = 0;
    while at < FIRST {
        bounds[at] = (at as u64 + 1) * 100;
        at += 1;
    }
    let mut decade_ns = 1_000;
    while at < BOUNDS {
        let (mut step, mut hundredths) = (0, 100);
        while step < STEPS.len() {
            let (end, width) = STEPS[step];
            while hundredths < end {
                hundredths += width;
                bounds[at] = decade_ns * hundredths / 100;
                at += 1;
            }
            step += 1;
        }
        decade_ns *= 10;
    }
    bounds
};

/// The histograms of one worker, one for each class. Only that worker adds to them, so an addition
/// needs no atomic read-modify-write. Any thread may read them. The only other write is
/// [`clear_max`](Self::clear_max), which any thread may call.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LatencyHistograms {
    classes: [ClassHistogram; CLASSES],
}

/// The histogram of one class: the number of requests in each narrow bucket, the sum of the
/// requests' times, and the longest time.
#[derive(Debug)]
struct ClassHistogram {
    buckets: [AtomicU64; NARROW],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for ClassHistogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl LatencyHistograms {
    /// Records `count` requests of `class` that took `elapsed_ns` each.
    pub(super) fn add(&self, class: CommandClass, count: u64, elapsed_ns: u64) {
        let cells = &self.classes[class as usize];
        add_to(&cells.buckets[bucket_of(elapsed_ns)], count);
        add_to(&cells.sum_ns, count.wrapping_mul(elapsed_ns));
        if elapsed_ns > cells.max_ns.load(Ordering::Relaxed) {
            cells.max_ns.store(elapsed_ns, Ordering::Relaxed);
        }
    }

    /// Returns the present histograms.
    pub(crate) fn snapshot(&self) -> LatencySnapshot {
        let class = |cells: &ClassHistogram| ClassLatency {
            narrow: cells
                .buckets
                .iter()
                .map(|cell| cell.load(Ordering::Relaxed))
                .collect(),
            sum_ns: cells.sum_ns.load(Ordering::Relaxed),
            max_ns: cells.max_ns.load(Ordering::Relaxed),
        };
        LatencySnapshot {
            classes: std::array::from_fn(|at| class(&self.classes[at])),
        }
    }

    /// Sets the longest times to zero, for `stats reset`. The caller then takes a snapshot of the
    /// counts, which is subtracted from all later ones.
    ///
    /// If the worker records a request during the reset, the longest time may be wrong in one of
    /// two ways, until a request takes longer. No count is wrong.
    ///
    /// - The longest time omits a request that counts: the snapshot does not contain the request,
    ///   but this call overwrites the request's time with zero.
    /// - The longest time includes a request that does not count: the snapshot contains the
    ///   request, but the worker stores the request's time after this call.
    pub(crate) fn clear_max(&self) {
        for cells in &self.classes {
            cells.max_ns.store(0, Ordering::Relaxed);
        }
    }
}

/// The index of the narrow bucket of a time.
fn bucket_of(elapsed_ns: u64) -> usize {
    BOUNDS_NS.partition_point(|&bound_ns| bound_ns < elapsed_ns)
}

/// The histogram of one class at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassLatency {
    /// [`NARROW`] counts. They are on the heap, because the stack of a connection's thread or fibre
    /// is small.
    narrow: Box<[u64]>,
    /// The sum of the requests' times, in nanoseconds.
    pub sum_ns: u64,
    /// The longest time since the last `stats reset`, in nanoseconds. If a request ended during the
    /// reset, its time may be included although the request is not counted.
    pub max_ns: u64,
}

impl Default for ClassLatency {
    fn default() -> Self {
        Self {
            narrow: vec![0; NARROW].into(),
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl ClassLatency {
    /// Adds `count` requests that took `elapsed_ns` each.
    pub fn add(&mut self, count: u64, elapsed_ns: u64) {
        self.narrow[bucket_of(elapsed_ns)] += count;
        self.sum_ns = self.sum_ns.wrapping_add(count.wrapping_mul(elapsed_ns));
        self.max_ns = self.max_ns.max(elapsed_ns);
    }

    /// The number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.narrow.iter().sum()
    }

    /// The number of requests in each bucket of the metric ([`LATENCY_BOUNDS_NS`]). Not cumulative.
    #[must_use]
    pub fn buckets(&self) -> [u64; LATENCY_BUCKETS] {
        let mut buckets = [0; LATENCY_BUCKETS];
        for (at, count) in self.narrow.iter().enumerate() {
            let bound_ns = BOUNDS_NS.get(at).copied().unwrap_or(u64::MAX);
            buckets[LATENCY_BOUNDS_NS.partition_point(|&coarse| coarse < bound_ns)] += count;
        }
        buckets
    }

    /// The time that `per_mille` thousandths of the requests did not exceed, in nanoseconds. It is
    /// rounded up to the upper bound of its narrow bucket, but is at most the longest time. 0 if
    /// there are no requests.
    #[must_use]
    pub fn percentile_ns(&self, per_mille: u64) -> u64 {
        let rank = (u128::from(self.count()) * u128::from(per_mille)).div_ceil(1000);
        let mut below = 0;
        for (at, count) in self.narrow.iter().enumerate() {
            below += u128::from(*count);
            // The rank is 0 if `per_mille` is 0. The second condition then skips empty buckets.
            if below >= rank && below > 0 {
                let bound_ns = BOUNDS_NS.get(at).copied().unwrap_or(u64::MAX);
                return bound_ns.min(self.max_ns);
            }
        }
        0
    }

    /// Combines the counts and the sum of the times with those of `other`.
    fn combine(&mut self, other: &Self, combine: fn(u64, u64) -> u64) {
        for (count, other) in self.narrow.iter_mut().zip(&other.narrow) {
            *count = combine(*count, *other);
        }
        self.sum_ns = combine(self.sum_ns, other.sum_ns);
    }
}

/// The histograms at one moment, of one worker or summed over several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
            sum.combine(added, u64::wrapping_add);
            sum.max_ns = sum.max_ns.max(added.max_ns);
        }
        self
    }

    /// The requests that were recorded after the snapshot `before`. The longest times are those of
    /// all requests in `self`, because two snapshots do not determine the longest time of only the
    /// later requests.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (now, before) in self.classes.iter_mut().zip(&before.classes) {
            now.combine(before, u64::wrapping_sub);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram_of(times_ns: impl IntoIterator<Item = u64>) -> ClassLatency {
        let mut latency = ClassLatency::default();
        times_ns.into_iter().for_each(|it| latency.add(1, it));
        latency
    }

    fn metric_bucket_of(elapsed_ns: u64) -> usize {
        let buckets = histogram_of([elapsed_ns]).buckets();
        buckets.iter().position(|&count| count == 1).unwrap()
    }

    #[test]
    fn time_equal_to_a_bound_is_in_the_bucket_of_that_bound() {
        assert_eq!(metric_bucket_of(0), 0);
        for (at, bound_ns) in LATENCY_BOUNDS_NS.into_iter().enumerate() {
            assert_eq!(metric_bucket_of(bound_ns), at, "{bound_ns}");
            assert_eq!(metric_bucket_of(bound_ns + 1), at + 1, "{bound_ns}");
        }
        assert_eq!(metric_bucket_of(u64::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn metric_bounds_are_narrow_bounds_and_narrow_widths_are_at_most_an_eighth() {
        assert!(BOUNDS_NS.is_sorted_by(|low, high| low < high));
        assert_eq!(BOUNDS_NS.last(), Some(&10_000_000_000));
        for bound_ns in LATENCY_BOUNDS_NS {
            assert!(BOUNDS_NS.contains(&bound_ns), "{bound_ns}");
        }
        for pair in BOUNDS_NS.windows(2).filter(|pair| pair[0] >= 1_000) {
            assert!((pair[1] - pair[0]) * 8 <= pair[1], "{pair:?}");
        }
    }

    #[test]
    fn percentiles_are_at_most_an_eighth_above_the_true_ones() {
        // 1000 requests that took 3 µs, 6 µs, … 3 ms, and one request that took 30 s.
        let times_ns = (1..=1000).map(|at| at * 3_000);
        let latency = histogram_of(times_ns.chain([30_000_000_000]));
        assert_eq!(latency.count(), 1001);
        for (per_mille, true_ns) in [(500, 1_503_000), (990, 2_973_000), (999, 3_000_000)] {
            let found_ns = latency.percentile_ns(per_mille);
            assert!(
                (true_ns..=true_ns * 9 / 8).contains(&found_ns),
                "{per_mille}: {found_ns}"
            );
        }
        assert_eq!(latency.percentile_ns(1000), 30_000_000_000);
        assert_eq!(latency.max_ns, 30_000_000_000);
        assert_eq!(
            histogram_of([7]).percentile_ns(500),
            7,
            "at most the longest time"
        );
        assert_eq!(histogram_of([]).percentile_ns(999), 0);
    }

    #[test]
    fn since_subtracts_an_earlier_snapshot_and_plus_adds_another() {
        let latencies = LatencyHistograms::default();
        latencies.add(CommandClass::Set, 3, 5_000);
        let before = latencies.snapshot();
        latencies.clear_max();
        latencies.add(CommandClass::Set, 2, 2_000);
        let since = latencies.snapshot().since(&before);
        let set = since.of(CommandClass::Set);
        assert_eq!((set.count(), set.sum_ns, set.max_ns), (2, 4_000, 2_000));
        let sum = since.plus(&before);
        let set = sum.of(CommandClass::Set);
        assert_eq!((set.count(), set.max_ns), (5, 5_000));
    }
}
