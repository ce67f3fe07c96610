//! The measurements of one generator thread: windows (measurements of about a second), totals over
//! the run, and requests that are recorded one by one.

use measure::{Histogram, Outstanding, OutstandingCount};
use serde::{Deserialize, Serialize};
use workload::{Op, SizeClass};

use crate::carrier::{CarrierCounts, Failure};

/// The latencies and counts of one window. A window is a section of a run. It is at most a second
/// long, except for the last window: the grace period, in which late answers are awaited. When a
/// window ends, the thread sends it to the main thread. The main thread merges the windows of the
/// measured interval and of the grace period into the result of the run.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) latencies: Latencies,
    pub(crate) counts: Counts,
}

/// The counts of one window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    /// Answers received in the window, even if their requests were intended before it.
    pub(crate) answered: u64,
    /// The number of keys of the answered requests that read items.
    pub(crate) gets: u64,
    /// The number of the keys in `gets` for which an item was found.
    pub(crate) hits: u64,
    /// Answers that are errors.
    pub(crate) errors: u64,
    /// Requests that failed in the window, even if they were intended before it.
    pub(crate) failed: u64,
    /// Connections lost in the window.
    pub(crate) lost_connections: u64,
    /// Requests outstanding at the end of the window.
    pub(crate) outstanding: u64,
    /// Requests that are due but not sent at the end of the window.
    pub(crate) waiting: u64,
}

impl Counts {
    /// Adds the counts of another window. For the windows of several threads or agents over the
    /// same section of the run, each sum is the count of all of them. For successive windows, the
    /// sums of `outstanding` and `waiting` mean nothing, and are not used.
    fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.gets += other.gets;
        self.hits += other.hits;
        self.errors += other.errors;
        self.failed += other.failed;
        self.lost_connections += other.lost_connections;
        self.outstanding += other.outstanding;
        self.waiting += other.waiting;
    }
}

impl Window {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.counts.merge(&other.counts);
    }

    /// Returns an empty window that has the histograms of `operations` and, if `files` is set,
    /// those of the file size classes. The memory pages of these histograms are already mapped, so
    /// recording to them or merging them causes no page fault. The histograms of any other
    /// operation are allocated when that operation first occurs.
    pub(crate) fn preallocated(operations: &[Op], files: bool) -> Self {
        let mut window = Self::default();
        for &op in operations {
            window.latencies.of(op);
        }
        for class in SizeClass::ALL.into_iter().filter(|_| files) {
            window.latencies.of_class(class);
        }
        window.latencies.for_each_histogram(|histogram| {
            // The allocator returns zeroed pages that are not mapped yet. `clear` writes every
            // bucket, which maps them. The recorded value makes sure that `clear` has something to
            // write, even if it skips empty histograms.
            histogram.record(1);
            histogram.clear();
        });
        window
    }

    /// Removes all measurements, but keeps the memory for reuse.
    pub(crate) fn clear(&mut self) {
        self.latencies.clear();
        self.counts = Counts::default();
    }
}

/// The latencies of answered requests, and lower bounds of the latencies of censored ones.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// The latencies of each operation. The index is an [`Op`]. None: the operation has not
    /// occurred.
    operations: [Option<Box<OperationLatencies>>; Op::COUNT],
    /// The same latencies, grouped by the size class of the requested file. The index is a
    /// [`SizeClass`]. None: no file of the class was requested.
    classes: [Option<Box<OperationLatencies>>; SizeClass::COUNT],
    /// The time from the intended send time of a request to its actual send time (open loop). It
    /// includes the time in which the connection cannot send, because it has its maximum of
    /// outstanding requests or its socket has no space.
    pub(crate) slip: Histogram,
    /// The delay that the generator's thread itself adds to a request (open loop): a send later
    /// than the connection could send, and a late receive of the answer ([`crate::engine`]).
    pub(crate) lateness: Histogram,
}

/// The latencies of the requests with one operation, or of the requests for the files of one size
/// class.
#[derive(Debug, Default)]
pub(crate) struct OperationLatencies {
    pub(crate) response: Histogram,
    pub(crate) service: Histogram,
    /// Lower bounds of the response times (closed loop: service times) of requests that failed or
    /// were given up. The other histograms do not contain these requests.
    pub(crate) censored: Histogram,
}

impl OperationLatencies {
    fn histograms(&mut self) -> [&mut Histogram; 3] {
        [&mut self.response, &mut self.service, &mut self.censored]
    }

    fn merge(&mut self, other: &Self) {
        let added = [&other.response, &other.service, &other.censored];
        self.histograms().into_iter().zip(added).for_each(merge);
    }
}

/// Adds the values of `added` to `sum`. An empty histogram is skipped, because most histograms of a
/// window are empty.
fn merge((sum, added): (&mut Histogram, &Histogram)) {
    if !added.is_empty() {
        sum.merge(added);
    }
}

impl Latencies {
    /// Returns the latencies of an operation. Allocates their memory if the operation has none yet.
    #[inline]
    pub(crate) fn of(&mut self, op: Op) -> &mut OperationLatencies {
        match &mut self.operations[op as usize] {
            Some(latencies) => latencies,
            empty => empty.insert(Box::default()),
        }
    }

    /// Returns the latencies of a size class. Allocates their memory if the class has none yet.
    pub(crate) fn of_class(&mut self, class: SizeClass) -> &mut OperationLatencies {
        self.classes[class as usize].get_or_insert_default()
    }

    /// Returns the size classes that have occurred, with their latencies.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (SizeClass, &OperationLatencies)> {
        let named = SizeClass::ALL.into_iter().zip(&self.classes);
        named.filter_map(|(class, latencies)| Some((class, latencies.as_deref()?)))
    }

    /// Returns the operations that have occurred, with their latencies.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (Op, &OperationLatencies)> {
        let named = Op::ALL.into_iter().zip(&self.operations);
        named.filter_map(|(op, latencies)| Some((op, latencies.as_deref()?)))
    }

    /// Returns the latencies of all operations, merged.
    pub(crate) fn all(&self) -> OperationLatencies {
        let mut all = OperationLatencies::default();
        self.operations()
            .for_each(|(_, latencies)| all.merge(latencies));
        all
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (op, latencies) in other.operations() {
            self.of(op).merge(latencies);
        }
        for (class, latencies) in other.classes() {
            self.of_class(class).merge(latencies);
        }
        merge((&mut self.slip, &other.slip));
        merge((&mut self.lateness, &other.lateness));
    }

    fn clear(&mut self) {
        self.for_each_histogram(|histogram| {
            if !histogram.is_empty() {
                histogram.clear();
            }
        });
    }

    fn for_each_histogram(&mut self, mut visit: impl FnMut(&mut Histogram)) {
        let by_class = self.classes.iter_mut().flatten();
        for latencies in self.operations.iter_mut().flatten().chain(by_class) {
            latencies.histograms().into_iter().for_each(&mut visit);
        }
        visit(&mut self.slip);
        visit(&mut self.lateness);
    }
}

/// The counts of one operation. They cover the *measured requests*, which are those whose intended
/// time (closed loop: send time) lies in the measured interval.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OperationCounts {
    /// Requests answered.
    pub(crate) answered: u64,
    /// The keys of the answered requests, except for the first key of each request.
    pub(crate) further_keys: u64,
    /// Items found, or values stored.
    pub(crate) hits: u64,
    /// Items not found.
    pub(crate) misses: u64,
    /// An `add` whose item already existed, or a `cas` whose item had changed.
    pub(crate) conflicts: u64,
    /// Error replies, and sets that were not stored.
    pub(crate) errors: u64,
    /// Requests that failed without an answer. The index is a [`Failure`].
    pub(crate) failures: [u64; Failure::COUNT],
    /// Bytes of the answered requests.
    pub(crate) bytes_sent: u64,
    /// Bytes of the answers to these requests.
    pub(crate) bytes_received: u64,
}

impl OperationCounts {
    /// Returns the number of keys of the answered requests.
    pub(crate) fn keys(&self) -> u64 {
        self.answered + self.further_keys
    }

    /// Returns the number of requests that failed without an answer.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.further_keys += other.further_keys;
        self.hits += other.hits;
        self.misses += other.misses;
        self.conflicts += other.conflicts;
        self.errors += other.errors;
        for (sum, added) in self.failures.iter_mut().zip(other.failures) {
            *sum += added;
        }
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }
}

/// The counts of one thread over a run. *The interval* is the measured interval. *Measured
/// requests* are those whose intended time (closed loop: send time) lies in it.
#[derive(Debug)]
pub(crate) struct Totals {
    /// The number of measured requests, including the follow-ups.
    pub(crate) intended: u64,
    /// Measured requests that were sent.
    pub(crate) sent: u64,
    /// Measured requests that an answer caused, such as the set after a miss. They are not in the
    /// schedule, but `intended` counts them as well (in a closed loop, once they are sent).
    pub(crate) follow_ups: u64,
    /// The counts of each operation, over its measured requests. The index is an [`Op`].
    pub(crate) operations: [OperationCounts; Op::COUNT],
    /// Answers that arrived in the interval, even if their requests were intended before it.
    pub(crate) achieved: u64,
    /// Answers without a time stamp of the kernel, in the whole run.
    pub(crate) unstamped: u64,
    /// Answers received on saturating connections in the interval.
    pub(crate) saturating: u64,
    /// Bytes sent on measured connections in the interval.
    pub(crate) bytes_sent: u64,
    /// Bytes received on measured connections in the interval.
    pub(crate) bytes_received: u64,
    /// Connections lost in the whole run, saturating ones included.
    pub(crate) lost_connections: u64,
    /// Time in the interval in which the thread had no work: it slept, or polled without result.
    pub(crate) idle_ns: u64,
    /// The thread's processor time in the interval.
    pub(crate) cpu_ns: u64,
    /// The counts of the carriers, over the whole run.
    pub(crate) carriers: CarrierCounts,
    /// The greatest slip of a request in the whole run: actual send time − intended time.
    pub(crate) slip_max_ns: u64,
    /// The mean number of outstanding requests in the interval, from the time stamps of requests.
    pub(crate) outstanding: Outstanding,
    /// The same mean, from a counter that is changed at each send and receive.
    pub(crate) outstanding_count: OutstandingCount,
}

impl Totals {
    /// Returns zero counts for a measured interval from `start_ns` to `end_ns`.
    pub(crate) fn new(start_ns: u64, end_ns: u64) -> Self {
        Self {
            intended: 0,
            sent: 0,
            follow_ups: 0,
            operations: [OperationCounts::default(); Op::COUNT],
            achieved: 0,
            unstamped: 0,
            saturating: 0,
            bytes_sent: 0,
            bytes_received: 0,
            lost_connections: 0,
            idle_ns: 0,
            cpu_ns: 0,
            carriers: CarrierCounts::default(),
            slip_max_ns: 0,
            outstanding: Outstanding::new(start_ns),
            outstanding_count: OutstandingCount::new(start_ns, end_ns),
        }
    }

    /// Returns the sum of the counts of all operations that `includes` accepts.
    pub(crate) fn of(&self, includes: impl Fn(Op) -> bool) -> OperationCounts {
        let mut all = OperationCounts::default();
        for op in Op::ALL.into_iter().filter(|&op| includes(op)) {
            all.merge(&self.operations[op as usize]);
        }
        all
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.follow_ups += other.follow_ups;
        for (sum, added) in self.operations.iter_mut().zip(&other.operations) {
            sum.merge(added);
        }
        self.achieved += other.achieved;
        self.unstamped += other.unstamped;
        self.slip_max_ns = self.slip_max_ns.max(other.slip_max_ns);
        self.saturating += other.saturating;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.lost_connections += other.lost_connections;
        self.idle_ns += other.idle_ns;
        self.cpu_ns += other.cpu_ns;
        self.carriers.merge(&other.carriers);
        self.outstanding.merge(&other.outstanding);
        self.outstanding_count.merge(&other.outstanding_count);
    }
}

/// The times of one request, for comparison with a server's own log. Times are in nanoseconds of
/// `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The opaque token of the request. Only [`crate::Protocol::Meta`] sends it to the server.
    pub opaque: u64,
    /// The intended send time. In closed loop, the same as `sent_ns`.
    pub intended_ns: u64,
    /// The time just before the send call.
    pub sent_ns: u64,
    /// The arrival of the answer: the kernel's time stamp or, without one, the time just after the
    /// receive.
    pub answered_ns: u64,
    /// The machine delayed the request: it became due during a poll that took unusually long, or
    /// its send took unusually long ([`crate::limits::UNINTERRUPTED_MAX_NS`]; for a send that opens
    /// a connection, [`crate::limits::UNINTERRUPTED_CONNECT_MAX_NS`]).
    pub interrupted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preallocated_or_cleared_window_is_empty() {
        let count_empty_histograms = |window: &mut Window| {
            let mut count = 0;
            window.latencies.for_each_histogram(|histogram| {
                assert!(histogram.is_empty());
                count += 1;
            });
            count
        };
        let has_files = false;
        let mut window = Window::preallocated(&[Op::Get, Op::Cas], has_files);
        // Three histograms for each of two operations, slip and lateness.
        assert_eq!(count_empty_histograms(&mut window), 2 * 3 + 2);
        let record = |histogram: &mut Histogram| histogram.record(1_000);
        window.latencies.for_each_histogram(record);
        window.counts.answered = 4;
        assert_eq!(window.latencies.all().response.len(), 2);
        window.clear();
        assert_eq!(count_empty_histograms(&mut window), 8);
        assert_eq!(window.counts.answered, 0);
    }

    #[test]
    fn merging_windows_adds_the_latencies_of_each_operation() {
        let has_files = false;
        let mut one = Window::preallocated(&[Op::Get], has_files);
        let mut other = Window::default();
        one.latencies.of(Op::Get).service.record(5);
        other.latencies.of(Op::Get).service.record(5);
        other.latencies.of(Op::Delete).service.record(7);
        one.merge(&other);
        let lens: Vec<(Op, u64)> = one
            .latencies
            .operations()
            .map(|(op, it)| (op, it.service.len()))
            .collect();
        assert_eq!(lens, [(Op::Get, 2), (Op::Delete, 1)]);
    }
}
