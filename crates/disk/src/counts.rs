//! What a disk has done since its counts were last reset.

use measure::Histogram;
use serde::{Deserialize, Serialize};

use crate::queue::Admitted;

/// The counts, as the control socket prints them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Time over which they are.
    pub elapsed_ns: u64,
    /// Reads answered.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes answered.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that were answered with EIO on purpose.
    pub errors: u64,
    /// Sum of service times. Divided by the elapsed time and the channels, it is the utilisation.
    pub busy_ns: u64,
    /// Sum of the times from arrival to due. Divided by the elapsed time, it is the mean number of
    /// requests at the disk (Little's law).
    pub response_ns: u64,
    /// Most requests at the disk.
    pub most_waiting: u64,
    /// How late after it was due a request was answered: the server's part, not the law's.
    pub late_p50_ns: u64,
    /// The same, 99th percentile.
    pub late_p99_ns: u64,
}

/// Counts that go on.
#[derive(Debug)]
pub(crate) struct Tally {
    since_ns: u64,
    counts: Counts,
    late: Histogram,
}

impl Tally {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            since_ns: now_ns,
            counts: Counts::default(),
            late: Histogram::new(),
        }
    }

    pub(crate) fn admitted(&mut self, now_ns: u64, times: Admitted, waiting: usize) {
        self.counts.busy_ns += times.service_ns();
        self.counts.response_ns += times.due_ns - now_ns;
        self.counts.most_waiting = self.counts.most_waiting.max(waiting as u64);
    }

    pub(crate) fn answered(&mut self, is_read: bool, len: u32, late_ns: u64) {
        let counts = &mut self.counts;
        let (number, bytes) = match is_read {
            true => (&mut counts.reads, &mut counts.read_bytes),
            false => (&mut counts.writes, &mut counts.written_bytes),
        };
        *number += 1;
        *bytes += u64::from(len);
        self.late.record(late_ns);
    }

    pub(crate) fn refused(&mut self) {
        self.counts.errors += 1;
    }

    pub(crate) fn counts(&self, now_ns: u64) -> Counts {
        Counts {
            elapsed_ns: now_ns.saturating_sub(self.since_ns),
            late_p50_ns: self.late.percentile(50.0),
            late_p99_ns: self.late.percentile(99.0),
            ..self.counts.clone()
        }
    }
}
