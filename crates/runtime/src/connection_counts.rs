//! Counts of connections: one set for the whole process, updated when a connection opens or closes.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acceptor::Exhausted;

/// The counts of connections, and the counts of all workers.
#[derive(Debug)]
pub struct ConnectionCounts {
    max: u64,
    buffered_max: u64,
    current: AtomicU64,
    total: AtomicU64,
    rejected: AtomicU64,
    is_accepting: AtomicBool,
    file_pauses: AtomicU64,
    task_pauses: AtomicU64,
    paused_ns: AtomicU64,
    slow_closed: AtomicU64,
    buffered_closed: AtomicU64,
    /// Bytes kept by tasks, in runtimes with a task per connection.
    buffered: AtomicU64,
    panics: AtomicU64,
    restarts: AtomicU64,
    /// The last second in which a connection requested memory.
    memory_requested_s: AtomicU32,
    workers: Mutex<Vec<Arc<WorkerCounts>>>,
}

/// Number of size classes of bursts: 1 connection, 2, up to 4, up to 8, and so on; the last is
/// unbounded.
pub const BURST_SIZES: usize = 11;

/// Counts of one worker: its traffic, bursts by size in powers of two, and the bytes that its
/// connections keep. Only that worker writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounts {
    traffic: [AtomicU64; Traffic::ALL.len()],
    sizes: [AtomicU64; BURST_SIZES],
    connections: AtomicU64,
    buffered: AtomicU64,
}

/// What a worker counts of its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Traffic {
    /// Bytes received.
    BytesRead,
    /// Bytes sent.
    BytesWritten,
    /// Turns that ended with unanswered input.
    Yields,
    /// Requests deferred because slower peers held the memory.
    MemoryWaits,
}

impl Traffic {
    /// All counts, in the order of `stats`.
    pub const ALL: [Self; 4] = [
        Self::BytesRead,
        Self::BytesWritten,
        Self::Yields,
        Self::MemoryWaits,
    ];

    /// The name in `stats`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BytesRead => "bytes_read",
            Self::BytesWritten => "bytes_written",
            Self::Yields => "conn_yields",
            Self::MemoryWaits => "held_waits",
        }
    }
}

/// The traffic of all workers, in the order of [`Traffic::ALL`].
pub type TrafficCounts = [u64; Traffic::ALL.len()];

/// The bursts of all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BurstCounts {
    /// Bursts by size: 1 connection, 2, up to 4, up to 8, and so on; the last is unbounded.
    pub sizes: [u64; BURST_SIZES],
    /// Sum of the sizes of all bursts.
    pub connections: u64,
}

impl WorkerCounts {
    /// Sets the bytes that the worker's connections keep between bursts.
    pub(crate) fn set_buffered(&self, bytes: u64) {
        self.buffered.store(bytes, Ordering::Relaxed);
    }

    /// Adds to a count of the traffic.
    #[inline]
    pub(crate) fn add(&self, traffic: Traffic, by: u64) {
        add(&self.traffic[traffic as usize], by);
    }

    /// Counts a burst of this many connections. Zero is not counted.
    pub(crate) fn count_burst(&self, connections: usize) {
        if let Some(less) = connections.checked_sub(1) {
            let size = (usize::BITS - less.leading_zeros()) as usize;
            add(&self.sizes[size.min(BURST_SIZES - 1)], 1);
            add(&self.connections, connections as u64);
        }
    }
}

/// Adds to a count that only the calling thread writes, so that no other thread changes it between
/// load and store.
fn add(cell: &AtomicU64, by: u64) {
    cell.store(
        cell.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSnapshot {
    /// Limit of open connections.
    pub max: u64,
    /// Open connections.
    pub current: u64,
    /// Connections accepted since the start.
    pub total: u64,
    /// Connections rejected because of the limit.
    pub rejected: u64,
    /// Whether new connections are accepted.
    pub is_accepting: bool,
    /// Pauses of accepting because descriptors were exhausted.
    pub file_pauses: u64,
    /// Pauses of accepting because threads or stacks were exhausted, in runtimes with a task per
    /// connection.
    pub task_pauses: u64,
    /// Total duration of the pauses, in nanoseconds.
    pub paused_ns: u64,
    /// Connections closed because they held memory and were inactive.
    pub slow_closed: u64,
    /// Bytes of input and output that connections keep between bursts.
    pub buffered: u64,
    /// The bound of these bytes ([`buffered_max`](crate::buffered_max)).
    pub buffered_max: u64,
    /// Connections closed because the bound was reached.
    pub buffered_closed: u64,
    /// Connections closed because of a panic in their session or worker.
    pub panics: u64,
    /// Worker loops that failed and restarted without their connections.
    pub restarts: u64,
}

impl ConnectionSnapshot {
    /// Pauses of accepting, for any reason.
    #[must_use]
    pub fn pauses(&self) -> u64 {
        self.file_pauses + self.task_pauses
    }
}

impl ConnectionCounts {
    /// Zero counts, with at most `max` connections that keep at most `buffered_max` bytes between
    /// bursts.
    #[must_use]
    pub fn new(max: u64, buffered_max: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            max,
            buffered_max,
            current: zero(),
            total: zero(),
            rejected: zero(),
            is_accepting: AtomicBool::new(true),
            file_pauses: zero(),
            task_pauses: zero(),
            paused_ns: zero(),
            slow_closed: zero(),
            buffered_closed: zero(),
            buffered: zero(),
            panics: zero(),
            restarts: zero(),
            memory_requested_s: AtomicU32::new(0),
            workers: Mutex::new(Vec::new()),
        }
    }

    /// The current counts.
    #[must_use]
    pub fn snapshot(&self) -> ConnectionSnapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ConnectionSnapshot {
            max: self.max,
            current: read(&self.current),
            total: read(&self.total),
            rejected: read(&self.rejected),
            is_accepting: self.is_accepting.load(Ordering::Relaxed),
            file_pauses: read(&self.file_pauses),
            task_pauses: read(&self.task_pauses),
            paused_ns: read(&self.paused_ns),
            slow_closed: read(&self.slow_closed),
            buffered: self.buffered(),
            buffered_max: self.buffered_max,
            buffered_closed: read(&self.buffered_closed),
            panics: read(&self.panics),
            restarts: read(&self.restarts),
        }
    }

    /// The traffic of all workers.
    #[must_use]
    pub fn traffic(&self) -> TrafficCounts {
        let mut sums = TrafficCounts::default();
        for counts in &*self.workers() {
            for (sum, count) in sums.iter_mut().zip(&counts.traffic) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// The bursts of all workers.
    #[must_use]
    pub fn bursts(&self) -> BurstCounts {
        let mut sum = BurstCounts::default();
        for bursts in &*self.workers() {
            for (sum, count) in sum.sizes.iter_mut().zip(&bursts.sizes) {
                *sum += count.load(Ordering::Relaxed);
            }
            sum.connections += bursts.connections.load(Ordering::Relaxed);
        }
        sum
    }

    /// Registers a new worker and returns its counts.
    pub(crate) fn register_worker(&self) -> Arc<WorkerCounts> {
        let new = Arc::<WorkerCounts>::default();
        self.workers().push(Arc::clone(&new));
        new
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<WorkerCounts>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, or counts it as rejected.
    pub(crate) fn admit(&self) -> bool {
        let admit = |current| (current < self.max).then_some(current + 1);
        let admitted = self
            .current
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit)
            .is_ok();
        let count = if admitted {
            &self.total
        } else {
            &self.rejected
        };
        count.fetch_add(1, Ordering::Relaxed);
        admitted
    }

    /// Undoes an admission and counts the connection as rejected.
    pub(crate) fn reject(&self) {
        self.count_closed();
        self.count_rejected();
    }

    /// Counts an admitted connection as rejected. The connection has an entry in the list of peers;
    /// dropping the entry calls [`count_closed`](Self::count_closed).
    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an admitted connection as closed.
    pub(crate) fn count_closed(&self) {
        self.current.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a pause of accepting.
    pub(crate) fn pause_accepting(&self, exhausted: Exhausted) {
        self.is_accepting.store(false, Ordering::Relaxed);
        let pauses = match exhausted {
            Exhausted::Files => &self.file_pauses,
            Exhausted::Tasks => &self.task_pauses,
        };
        pauses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a pause of accepting, which took `paused_ns`.
    pub(crate) fn resume_accepting(&self, paused_ns: u64) {
        self.is_accepting.store(true, Ordering::Relaxed);
        self.paused_ns.fetch_add(paused_ns, Ordering::Relaxed);
    }

    /// Records that a connection waits for memory. Returns true to the first caller in a second,
    /// which then wakes every worker.
    pub(crate) fn request_memory(&self, now_s: u32) -> bool {
        self.memory_requested_s.fetch_max(now_s, Ordering::Relaxed) < now_s
    }

    /// Whether a connection waits for memory, or did within the last second.
    pub(crate) fn is_memory_requested(&self, now_s: u32) -> bool {
        let requested_s = self.memory_requested_s.load(Ordering::Relaxed);
        requested_s > 0 && requested_s + 1 >= now_s
    }

    /// The bound of the bytes that connections keep between bursts.
    pub(crate) fn buffered_max(&self) -> u64 {
        self.buffered_max
    }

    /// The bytes that connections keep.
    fn buffered(&self) -> u64 {
        let workers = self.workers();
        let of_workers = workers.iter().map(|counts| &counts.buffered);
        let all = of_workers.chain([&self.buffered]);
        all.map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sets the bytes kept by tasks, in runtimes with a task per connection.
    pub(crate) fn set_buffered(&self, bytes: u64) {
        self.buffered.store(bytes, Ordering::Relaxed);
    }

    /// Counts a connection closed because the bound was reached.
    pub(crate) fn count_closed_by_bound(&self) {
        self.buffered_closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts connections that are closed because of a panic.
    pub(crate) fn count_panics(&self, connections: u64) {
        self.panics.fetch_add(connections, Ordering::Relaxed);
    }

    /// Counts a loop that failed and restarts.
    pub(crate) fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection closed because its peer was too slow.
    pub(crate) fn count_closed_slow(&self) {
        self.slow_closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_memory_is_signalled_once_a_second_and_expires() {
        let counts = ConnectionCounts::new(1, 0);
        assert!(!counts.is_memory_requested(1));
        assert!(counts.request_memory(5));
        assert!(!counts.request_memory(5));
        assert!(counts.is_memory_requested(5) && counts.is_memory_requested(6));
        assert!(!counts.is_memory_requested(7));
        assert!(counts.request_memory(7));
    }

    #[test]
    fn bursts_are_counted_by_powers_of_two() {
        let counts = ConnectionCounts::new(1, 0);
        let bursts = counts.register_worker();
        for size in [0, 1, 2, 3, 4, 5, 8, 9, 512, 513, 1 << 20] {
            bursts.count_burst(size);
        }
        let snapshot = counts.bursts();
        assert_eq!(snapshot.sizes, [1, 1, 2, 2, 1, 0, 0, 0, 0, 1, 2]);
        assert_eq!(snapshot.connections, 32 + 512 + 513 + (1 << 20));
    }

    #[test]
    fn connections_above_the_limit_are_rejected() {
        let counts = ConnectionCounts::new(2, 0);
        assert!(counts.admit());
        assert!(counts.admit());
        assert!(!counts.admit());
        counts.reject();
        let snapshot = counts.snapshot();
        assert_eq!(
            (snapshot.current, snapshot.total, snapshot.rejected),
            (1, 2, 2)
        );
        assert!(counts.admit());
        counts.count_closed();
        assert!(counts.admit());
        let snapshot = counts.snapshot();
        assert_eq!(
            (snapshot.current, snapshot.total, snapshot.rejected),
            (2, 4, 2)
        );
    }
}
