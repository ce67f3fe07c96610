//! The measurements of one thread: windows, totals and recorded requests.

use measure::{Histogram, Outstanding, OutstandingCount};

/// The latencies and counts of one window of a run, which is at most a second long. A thread sends
/// each window to the main thread when it ends. The main thread merges the windows of the measured
/// interval into the result of the run.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) latencies: Latencies,
    pub(crate) counts: Counts,
}

/// The counts of one window.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Answers received, whatever their intended time.
    pub(crate) answered: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) errors: u64,
    pub(crate) lost_connections: u64,
    /// Requests outstanding at the end of the window.
    pub(crate) outstanding: u64,
    /// Requests due but not sent at the end of the window.
    pub(crate) waiting: u64,
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.gets += other.gets;
        self.hits += other.hits;
        self.errors += other.errors;
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

    /// An empty window whose pages are already mapped: recording in it or merging into it causes no
    /// page fault.
    pub(crate) fn preallocated() -> Self {
        let mut window = Self::default();
        for histogram in window.latencies.each() {
            // `clear` writes only to a histogram that is not empty.
            histogram.record(1);
        }
        window.clear();
        window
    }

    /// Removes all measurements and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.latencies.clear();
        self.counts = Counts::default();
    }
}

/// The latencies of answered requests, and the lower bounds of the censored ones.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) response: Histogram,
    pub(crate) service: Histogram,
    pub(crate) slip: Histogram,
    pub(crate) lateness: Histogram,
    /// Lower bounds of the response times of requests given up. No other histogram contains these
    /// requests.
    pub(crate) censored: Histogram,
}

impl Latencies {
    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, added) in self.each().into_iter().zip([
            &other.response,
            &other.service,
            &other.slip,
            &other.lateness,
            &other.censored,
        ]) {
            // Merging an empty histogram costs as much as merging a full one.
            if !added.is_empty() {
                own.merge(added);
            }
        }
    }

    fn clear(&mut self) {
        for histogram in self.each() {
            if !histogram.is_empty() {
                histogram.clear();
            }
        }
    }

    fn each(&mut self) -> [&mut Histogram; 5] {
        [
            &mut self.response,
            &mut self.service,
            &mut self.slip,
            &mut self.lateness,
            &mut self.censored,
        ]
    }
}

/// The counts of one thread over a whole run. Unless stated otherwise they cover the requests whose
/// intended time (closed loop: send time) lies in the measured interval.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) intended: u64,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) sets: u64,
    /// Answers received in the interval, whatever their intended time.
    pub(crate) achieved: u64,
    /// Answers without a time stamp of the kernel.
    pub(crate) unstamped: u64,
    /// Answers received on saturating connections in the interval.
    pub(crate) saturating: u64,
    /// Bytes sent in the interval.
    pub(crate) bytes_sent: u64,
    /// Bytes received in the interval.
    pub(crate) bytes_received: u64,
    pub(crate) lost_connections: u64,
    /// Time in the interval in which the thread had no work: it slept, or polled without result.
    pub(crate) idle_ns: u64,
    /// Processor time in the interval.
    pub(crate) cpu_ns: u64,
    /// Requests outstanding in the interval, by their time stamps and by count.
    pub(crate) outstanding: Outstanding,
    pub(crate) outstanding_count: OutstandingCount,
}

impl Totals {
    /// Zero counts, for an interval from `start_ns` to `end_ns`.
    pub(crate) fn new(start_ns: u64, end_ns: u64) -> Self {
        Self {
            intended: 0,
            sent: 0,
            answered: 0,
            errors: 0,
            gets: 0,
            hits: 0,
            sets: 0,
            achieved: 0,
            unstamped: 0,
            saturating: 0,
            bytes_sent: 0,
            bytes_received: 0,
            lost_connections: 0,
            idle_ns: 0,
            cpu_ns: 0,
            outstanding: Outstanding::new(start_ns),
            outstanding_count: OutstandingCount::new(start_ns, end_ns),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.answered += other.answered;
        self.errors += other.errors;
        self.gets += other.gets;
        self.hits += other.hits;
        self.sets += other.sets;
        self.achieved += other.achieved;
        self.unstamped += other.unstamped;
        self.saturating += other.saturating;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.lost_connections += other.lost_connections;
        self.idle_ns += other.idle_ns;
        self.cpu_ns += other.cpu_ns;
        self.outstanding.merge(&other.outstanding);
        self.outstanding_count.merge(&other.outstanding_count);
    }
}

/// The times of one request, for comparison with a server's own log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The opaque token of the request under [`crate::Protocol::Meta`].
    pub opaque: u64,
    /// Intended send time, `CLOCK_MONOTONIC` (closed loop: the actual one).
    pub intended_ns: u64,
    /// The time just before the send call.
    pub sent_ns: u64,
    /// Arrival of the answer: the kernel's time stamp, or, where there is none, the time just after
    /// the receive.
    pub answered_ns: u64,
    /// The machine delayed the request: the thread was interrupted
    /// ([`crate::limits::INTERRUPTED_NS`]) during the poll in which the request became due, or
    /// during the send.
    pub interrupted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_or_preallocated_window_is_empty() {
        let mut window = Window::preallocated();
        assert!(window.latencies.each().iter().all(|it| it.is_empty()));
        for histogram in window.latencies.each() {
            histogram.record(1_000);
        }
        (
            window.counts.answered,
            window.counts.gets,
            window.counts.hits,
        ) = (4, 3, 2);
        (window.counts.errors, window.counts.lost_connections) = (1, 1);
        (window.counts.outstanding, window.counts.waiting) = (5, 6);
        window.clear();
        assert!(window.latencies.each().iter().all(|it| it.is_empty()));
        assert_eq!(
            (
                window.counts.answered,
                window.counts.gets,
                window.counts.hits
            ),
            (0, 0, 0)
        );
        assert_eq!(
            (window.counts.errors, window.counts.lost_connections),
            (0, 0)
        );
        assert_eq!((window.counts.outstanding, window.counts.waiting), (0, 0));
    }
}
