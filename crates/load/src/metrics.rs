//! What one thread counts.

use measure::{Histogram, Outstanding, OutstandingCount};

/// The latencies and counts of one stretch of a run, a second long at most. A thread hands each
/// over when it ends; merged, those of the measured interval are the run's.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) latencies: Latencies,
    pub(crate) counts: Counts,
}

/// What is counted in one.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Answers that came, of whatever intended time.
    pub(crate) answered: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) errors: u64,
    pub(crate) lost_connections: u64,
    /// At its end.
    pub(crate) outstanding: u64,
    /// Due but unable to leave, at its end.
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

    /// An empty one whose memory has been found: who records in it, or adds to it, does not wait
    /// for the kernel to find a page at a time.
    pub(crate) fn preallocated() -> Self {
        let mut window = Self::default();
        for histogram in window.latencies.each() {
            // What is empty is not written to by `clear`.
            histogram.record(1);
        }
        window.clear();
        window
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.latencies.clear();
        self.counts = Counts::default();
    }
}

/// The four latencies, each of the requests that were answered, and what is known of the others.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) response: Histogram,
    pub(crate) service: Histogram,
    pub(crate) slip: Histogram,
    pub(crate) lateness: Histogram,
    /// Lower bounds of the response times of requests that were given up: those are in no other.
    pub(crate) censored: Histogram,
}

impl Latencies {
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.each().into_iter().zip([
            &other.response,
            &other.service,
            &other.slip,
            &other.lateness,
            &other.censored,
        ]) {
            // An empty one costs as much to merge as a full one.
            if !theirs.is_empty() {
                mine.merge(theirs);
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

/// The counts of a whole run, of one thread. Unless another thing is said, of the requests whose
/// intended time (closed loop: send) lies in the measured interval.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) intended: u64,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) sets: u64,
    /// Answers that came in the interval, of whatever intended time.
    pub(crate) achieved: u64,
    /// Answers whose arrival the kernel did not note.
    pub(crate) unstamped: u64,
    /// Answers that saturating connections took in the interval.
    pub(crate) saturating: u64,
    /// Bytes that left in the interval.
    pub(crate) bytes_sent: u64,
    /// Bytes that came in the interval.
    pub(crate) bytes_received: u64,
    pub(crate) lost_connections: u64,
    /// Of the interval, spent without work: polling in vain, or asleep.
    pub(crate) idle_ns: u64,
    /// Processor time in the interval.
    pub(crate) cpu_ns: u64,
    /// Requests outstanding in the interval, by their time stamps and by count.
    pub(crate) outstanding: Outstanding,
    pub(crate) outstanding_count: OutstandingCount,
}

impl Totals {
    /// Nothing yet, of an interval from `start_ns` to `end_ns`.
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

/// The times of one request, for comparison with what a server logs of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The token the request bore under [`crate::Protocol::Meta`].
    pub opaque: u64,
    /// When it should leave, `CLOCK_MONOTONIC` (closed loop: when it left).
    pub intended_ns: u64,
    /// Just before it was handed to the kernel.
    pub sent_ns: u64,
    /// When its answer arrived: by the kernel's note, or where there is none, just after it was
    /// taken from the kernel.
    pub answered_ns: u64,
    /// It should have left while the thread, with nothing to do, was interrupted, or its send was
    /// ([`crate::limits::INTERRUPTED_NS`]): what that took is the machine's doing.
    pub interrupted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_cleared_or_at_hand_knows_nothing() {
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
