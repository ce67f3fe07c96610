//! How long requests are in the server, by class of command.
//!
//! Time is measured per burst (all that a worker answers after one wake-up), and every request of a
//! burst is recorded with the time of the burst. This time begins with the wake-up of the worker
//! (or of the connection's thread or fibre) and ends when all replies have been written to the
//! output. In the runtime `events` (one of those between which a server chooses), the time also
//! contains the system calls that send the replies; the other runtimes send the replies afterwards.
//! For a request that was answered early in a large burst, the recorded time is an upper bound. The
//! time during which a request waited in the kernel before the wake-up is not recorded.
//!
//! Recording costs nothing per request. After a recorded burst, [`LatencyRecorder`] subtracts the
//! values that the worker's [`Counters`] had before the burst from their present values. The
//! differences are the numbers of requests by class. The cost per recorded burst is eleven loads,
//! one for each counter (twice as many if not every burst is recorded), a second reading of the
//! clock (by the runtime), and two additions for each class that occurred. A burst that is not
//! recorded costs a conditional branch. If bursts are sampled, it also costs the decrement of a
//! counter.
//!
//! Consequences of counting requests in this way:
//! - A `get` of several keys is recorded once for each key, as in `cmd_get`.
//! - A request that took several bursts, for example because its value arrived in parts, is
//!   recorded in the burst that completes it, with the time of that burst only.
//! - Requests that increment none of these counters are not recorded: `mn`, `version`, `stats`,
//!   rejected lines, values that are too large or for which there is no memory, `md` that marks an
//!   item stale, and arithmetic that creates its counter or fails although the key has an item.

mod histogram;

use crate::counters::{Counter, Counters};
use crate::limits::LATENCY_BURST_INTERVAL;

pub(crate) use histogram::LatencyHistograms;
pub use histogram::{ClassLatency, LATENCY_BOUNDS_NS, LATENCY_BUCKETS, LatencySnapshot};

/// Which bursts a server records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyRecording {
    /// No burst.
    Off,
    /// One in [`LATENCY_BURST_INTERVAL`] bursts of each worker.
    Sampled,
    /// All bursts.
    Every,
}

impl LatencyRecording {
    /// One in this number of bursts is recorded. 0: no burst is recorded.
    #[must_use]
    pub fn burst_interval(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Sampled => LATENCY_BURST_INTERVAL,
            Self::Every => 1,
        }
    }
}

/// A class of commands. There are only a few classes, so that the histograms stay small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum CommandClass {
    /// Keys read by `get` and `gets`, and `mg` except hits with the flag `T` (a new time to live).
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

    /// The number of requests of the class since the worker started.
    fn total(self, counters: &Counters) -> u64 {
        let counts = self.counters().iter().map(|&counter| counters.of(counter));
        counts.fold(0, u64::wrapping_add)
    }
}

/// Determines how many requests of each class a burst answered, and records them.
#[derive(Debug)]
pub(crate) struct LatencyRecorder {
    recording: LatencyRecording,
    /// If bursts are sampled: the number of bursts up to and including the next one to record.
    left: u32,
    /// Whether the present burst is recorded.
    is_recorded: bool,
    /// The total number of requests of each class at an earlier time. If bursts are sampled, this
    /// is the time when the sampled burst began. If every burst is recorded, it is the time when
    /// the previous burst ended.
    before: [u64; CLASSES],
}

impl LatencyRecorder {
    pub(crate) fn new(recording: LatencyRecording) -> Self {
        Self {
            recording,
            left: LATENCY_BURST_INTERVAL,
            is_recorded: recording == LatencyRecording::Every,
            before: [0; CLASSES],
        }
    }

    /// Begins a burst. Only the worker that owns `counters` may call this.
    #[inline]
    pub(crate) fn begin(&mut self, counters: &Counters) {
        if self.recording != LatencyRecording::Sampled {
            return;
        }
        match self.left {
            2.. => self.left -= 1,
            _ => self.sample(counters),
        }
    }

    /// Begins a burst that is recorded.
    #[cold]
    fn sample(&mut self, counters: &Counters) {
        self.is_recorded = true;
        self.before = CommandClass::ALL.map(|class| class.total(counters));
    }

    /// Whether [`record`](Self::record) is to be called at the end of the present burst.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Records all requests of the present burst with the time `elapsed_ns`. Only the worker that
    /// owns `counters` may call this.
    pub(crate) fn record(&mut self, counters: &Counters, elapsed_ns: u64) {
        for (class, before) in CommandClass::ALL.into_iter().zip(&mut self.before) {
            let total = class.total(counters);
            let new_requests = total.wrapping_sub(*before);
            if new_requests > 0 {
                counters.latencies().add(class, new_requests, elapsed_ns);
                *before = total;
            }
        }
        if self.recording == LatencyRecording::Sampled {
            self.is_recorded = false;
            self.left = LATENCY_BURST_INTERVAL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_of_a_burst_is_recorded_once_with_the_time_of_the_burst() {
        let counters = Counters::default();
        let mut recorder = LatencyRecorder::new(LatencyRecording::Every);
        assert!(recorder.is_recorded());
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
        let buckets = get.buckets();
        // 7 µs is in the bucket up to 10 µs, and 300 ms in the last bucket.
        assert_eq!((buckets[3], buckets[LATENCY_BUCKETS - 1]), (30, 1));
        assert_eq!(get.sum_ns, 30 * 7_000 + 300_000_000);
        let counts = CommandClass::ALL.map(|class| snapshot.of(class).count());
        assert_eq!(counts, [31, 1, 1, 2, 1, 1]);
        let twice = snapshot.clone().plus(&snapshot);
        assert_eq!(twice.of(CommandClass::Get).count(), 62);
        assert_eq!(twice.of(CommandClass::Arith).sum_ns, 4 * 7_000);
    }

    #[test]
    fn a_sample_contains_only_the_requests_of_its_own_burst() {
        let counters = Counters::default();
        let mut recorder = LatencyRecorder::new(LatencyRecording::Sampled);
        let recorded = |class| counters.latencies().snapshot().of(class).count();
        for number in 1..=2 * LATENCY_BURST_INTERVAL {
            recorder.begin(&counters);
            counters.add(Counter::CmdGet, 2);
            let is_recorded = recorder.is_recorded();
            assert_eq!(
                is_recorded,
                number % LATENCY_BURST_INTERVAL == 0,
                "{number}"
            );
            if is_recorded {
                recorder.record(&counters, 7_000);
            }
        }
        assert_eq!(recorded(CommandClass::Get), 4);
        // If `record` is not called at the end of a sampled burst, the next burst is sampled too.
        // Its sample does not contain the requests of the first.
        for _ in 0..=LATENCY_BURST_INTERVAL {
            recorder.begin(&counters);
            counters.count(Counter::CmdSet);
        }
        recorder.record(&counters, 7_000);
        assert_eq!(recorded(CommandClass::Set), 1);
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
