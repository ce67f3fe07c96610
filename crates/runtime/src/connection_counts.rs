//! Counters of connections and of their traffic.
//!
//! [`ConnectionCounts`] is one set of counters for the whole process. Most of its counters change
//! rarely, for example when a connection opens or closes. Other counters change in every burst.
//! Each worker has its own set of those (`WorkerCounts`), so that workers do not write the same
//! cache line.
//!
//! In the runtimes `threads` and `fibres`, each connection has a task of its own (a thread or a
//! fibre). To answer requests, a task borrows a worker context, which no other task uses meanwhile.
//! In these runtimes, each worker context has its own `WorkerCounts`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acceptor::Exhausted;
use crate::frame_counts::{FrameCount, FrameCounts};

/// The counters of the process's connections, and the counters of each worker. A field without a
/// comment is described at the field of [`ConnectionSnapshot`] that has the same name.
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
    idle_closed: AtomicU64,
    buffered_closed: AtomicU64,
    /// The bytes of input and output that all tasks together keep between bursts, in the runtimes
    /// with a task per connection. In the other runtimes, [`WorkerCounts::buffered`] has these
    /// bytes for each worker, and this field is 0.
    buffered: AtomicU64,
    panics: AtomicU64,
    restarts: AtomicU64,
    /// The last second (by [`second`](crate::setup::second)) in which a connection waited for
    /// memory of the service. 0 if no connection has waited yet.
    memory_requested_s: AtomicU32,
    /// The counters of each worker. A worker changes its counters without this lock.
    workers: Mutex<Vec<Arc<WorkerCounts>>>,
}

/// The number of counters in a histogram of burst sizes (numbers of connections). The first
/// counters are for bursts of 1 connection, of 2, of 3 to 4, and of 5 to 8 connections. The last
/// counter is for all bursts that are larger than those of the counter before it.
pub const BURST_SIZES: usize = 11;

/// The counters of one worker. Only the thread that runs the worker, or that currently uses the
/// worker context, writes them.
///
/// The alignment is two cache lines of 64 bytes, because CPUs may prefetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounts {
    traffic: [AtomicU64; Traffic::ALL.len()],
    /// The histogram of burst sizes ([`BURST_SIZES`]).
    sizes: [AtomicU64; BURST_SIZES],
    /// The sum of the sizes of all bursts.
    connections: AtomicU64,
    /// The bytes of input and output that the worker's connections keep between bursts.
    buffered: AtomicU64,
    /// The counters of the worker's network device, in the runtime `bypass` (a TCP/IP stack in this
    /// process). 0 in the other runtimes.
    frames: [AtomicU64; FrameCount::ALL.len()],
}

/// A quantity of traffic that each worker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Traffic {
    /// Bytes received.
    BytesRead,
    /// Bytes sent.
    BytesWritten,
    /// Turns that ended before all received requests were answered, because the number of requests
    /// of a turn and their output are bounded. The connection gets another turn.
    Yields,
    /// Waits of a connection for memory of the service, because other connections held the memory
    /// or because it was not reclaimed yet. A wait with several retries counts once.
    MemoryWaits,
}

impl Traffic {
    /// All quantities, in the order in which the statistics list them.
    pub const ALL: [Self; 4] = [
        Self::BytesRead,
        Self::BytesWritten,
        Self::Yields,
        Self::MemoryWaits,
    ];

    /// Returns the name of the quantity in the statistics: in `stats` if memcached has it,
    /// otherwise in `stats curtail`.
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

/// The traffic of all workers together, in the order of [`Traffic::ALL`].
pub type TrafficCounts = [u64; Traffic::ALL.len()];

/// A histogram of the burst sizes of all workers together. The size of a burst is its number of
/// connections. With `fibres`, a burst is the set of fibres that one poll of the kernel has made
/// ready. With `threads`, bursts are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BurstCounts {
    /// The number of bursts in each interval of sizes ([`BURST_SIZES`]).
    pub sizes: [u64; BURST_SIZES],
    /// The sum of the sizes of all bursts.
    pub connections: u64,
}

impl WorkerCounts {
    /// Sets the bytes that the worker's connections keep between bursts.
    pub(crate) fn set_buffered(&self, bytes: u64) {
        self.buffered.store(bytes, Ordering::Relaxed);
    }

    /// Sets the counters of the worker's network device, in the runtime `bypass`.
    pub(crate) fn set_frames(&self, counts: FrameCounts) {
        for (count, value) in self.frames.iter().zip(counts) {
            count.store(value, Ordering::Relaxed);
        }
    }

    /// Adds `by` to the counter of this quantity.
    #[inline]
    pub(crate) fn add(&self, traffic: Traffic, by: u64) {
        add(&self.traffic[traffic as usize], by);
    }

    /// Counts a burst of this many connections. Does nothing if the number is zero.
    pub(crate) fn count_burst(&self, connections: usize) {
        if let Some(one_less) = connections.checked_sub(1) {
            // The bit length of `connections - 1` is the index of the interval: 0 for 1
            // connection, 1 for 2, 2 for 3 and 4, 3 for 5 to 8.
            let bit_len = (usize::BITS - one_less.leading_zeros()) as usize;
            add(&self.sizes[bit_len.min(BURST_SIZES - 1)], 1);
            add(&self.connections, connections as u64);
        }
    }
}

/// Adds `by` to a counter that no other thread writes during this call. So a load and a store
/// suffice, which are cheaper than an atomic addition.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// The values of [`ConnectionCounts`], each read at a slightly different moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSnapshot {
    /// The maximum number of open connections.
    pub max: u64,
    /// The number of open connections.
    pub current: u64,
    /// The number of connections accepted since the start of the server, without those that were
    /// above the maximum of open connections.
    pub total: u64,
    /// The number of connections rejected because they were above the maximum of open connections,
    /// or because the runtime could not serve them. For example, the worker's inbox was full, or no
    /// thread or stack was available.
    pub rejected: u64,
    /// False while the acceptor (the thread that accepts connections) pauses, because descriptors,
    /// threads or stacks are exhausted.
    pub is_accepting: bool,
    /// How often the acceptor paused because descriptors of files and sockets, or the kernel's
    /// memory for sockets, were exhausted.
    pub file_pauses: u64,
    /// How often the acceptor paused because no further task could be started, in runtimes with a
    /// task per connection. Threads, stacks or the permitted number of tasks were exhausted.
    pub task_pauses: u64,
    /// Total duration of the acceptor's pauses, in nanoseconds.
    pub paused_ns: u64,
    /// The number of connections closed because they held memory of the service for which other
    /// connections waited, and because their peers were too slow.
    pub slow_closed: u64,
    /// The number of connections closed because their peers were silent for longer than
    /// [`Setup::idle_s`](crate::Setup::idle_s).
    pub idle_closed: u64,
    /// The bytes of input and output that connections keep between bursts.
    pub buffered: u64,
    /// The upper bound of `buffered`, in bytes ([`buffered_max`](crate::buffered_max)).
    pub buffered_max: u64,
    /// The number of connections closed because `buffered`, or the part of it that belongs to one
    /// worker, exceeded its bound.
    pub buffered_closed: u64,
    /// The number of connections closed because of a panic in their session (the service's state of
    /// the connection), transform, task or worker, or because the loop of their worker failed.
    pub panics: u64,
    /// How often the loop of a worker failed, by a panic or by an error of its wait for events. The
    /// worker then closed all its connections and started a new loop. In runtimes with a task per
    /// connection: how often the supervisor of the tasks panicked. It then continued, and closed
    /// no connection.
    pub restarts: u64,
}

impl ConnectionSnapshot {
    /// Returns how often the acceptor paused, for any reason.
    #[must_use]
    pub fn pauses(&self) -> u64 {
        self.file_pauses + self.task_pauses
    }
}

impl ConnectionCounts {
    /// Creates counters that are all zero. At most `max` connections may be open, and together they
    /// may keep at most `buffered_max` bytes between bursts.
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
            idle_closed: zero(),
            buffered_closed: zero(),
            buffered: zero(),
            panics: zero(),
            restarts: zero(),
            memory_requested_s: AtomicU32::new(0),
            workers: Mutex::new(Vec::new()),
        }
    }

    /// Returns the current values.
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
            idle_closed: read(&self.idle_closed),
            buffered: self.buffered(),
            buffered_max: self.buffered_max,
            buffered_closed: read(&self.buffered_closed),
            panics: read(&self.panics),
            restarts: read(&self.restarts),
        }
    }

    /// Returns the traffic of all workers together.
    #[must_use]
    pub fn traffic(&self) -> TrafficCounts {
        self.sums(|counts| &counts.traffic)
    }

    /// Returns the burst sizes of all workers together.
    #[must_use]
    pub fn bursts(&self) -> BurstCounts {
        let mut bursts = BurstCounts::default();
        for counts in &*self.workers() {
            for (sum, count) in bursts.sizes.iter_mut().zip(&counts.sizes) {
                *sum += count.load(Ordering::Relaxed);
            }
            bursts.connections += counts.connections.load(Ordering::Relaxed);
        }
        bursts
    }

    /// Returns the counters of the network devices of all workers together, in the runtime
    /// `bypass`. All are zero in the other runtimes.
    #[must_use]
    pub fn frames(&self) -> FrameCounts {
        self.sums(|counts| &counts.frames)
    }

    /// Returns sums over all workers. `counters` selects the counters of a worker to add; the
    /// result has one sum for each selected counter.
    fn sums<const N: usize>(
        &self,
        counters: impl Fn(&WorkerCounts) -> &[AtomicU64; N],
    ) -> [u64; N] {
        let mut sums = [0; N];
        for worker in &*self.workers() {
            for (sum, count) in sums.iter_mut().zip(counters(worker)) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Registers a new worker and returns its counters, all zero.
    pub(crate) fn register_worker(&self) -> Arc<WorkerCounts> {
        let counts = Arc::<WorkerCounts>::default();
        self.workers().push(Arc::clone(&counts));
        counts
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<WorkerCounts>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection as open and returns true, or counts it as rejected and returns false
    /// if the limit of open connections is reached.
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

    /// Counts a connection as closed and as rejected. Used for a connection that was
    /// [admitted](Self::admit), but that the runtime cannot serve.
    pub(crate) fn reject(&self) {
        self.count_closed();
        self.count_rejected();
    }

    /// Counts a connection as rejected, but does not count it as closed. Used for a connection that
    /// already has a task: when the task ends, it counts the connection as closed.
    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open connection as closed.
    pub(crate) fn count_closed(&self) {
        self.current.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that the acceptor begins a pause. Counts the pause for the resource that is
    /// exhausted.
    pub(crate) fn pause_accepting(&self, exhausted: Exhausted) {
        self.is_accepting.store(false, Ordering::Relaxed);
        let pauses = match exhausted {
            Exhausted::Files => &self.file_pauses,
            Exhausted::Tasks => &self.task_pauses,
        };
        pauses.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the acceptor has ended a pause of `paused_ns` nanoseconds.
    pub(crate) fn resume_accepting(&self, paused_ns: u64) {
        self.is_accepting.store(true, Ordering::Relaxed);
        self.paused_ns.fetch_add(paused_ns, Ordering::Relaxed);
    }

    /// Records that a connection waits for memory of the service in second `now_s`. Returns true to
    /// the first caller in that second. This caller has to wake every worker (in runtimes with a
    /// task per connection: the supervisor). A woken worker closes its connections that hold such
    /// memory and have inactive peers.
    pub(crate) fn request_memory(&self, now_s: u32) -> bool {
        self.memory_requested_s.fetch_max(now_s, Ordering::Relaxed) < now_s
    }

    /// Returns whether a connection waited for memory of the service in second `now_s` or in the
    /// second before.
    pub(crate) fn is_memory_requested(&self, now_s: u32) -> bool {
        let requested_s = self.memory_requested_s.load(Ordering::Relaxed);
        requested_s > 0 && requested_s + 1 >= now_s
    }

    /// Returns the upper bound of the bytes that all connections keep between bursts.
    pub(crate) fn buffered_max(&self) -> u64 {
        self.buffered_max
    }

    /// Returns the bytes that all connections keep between bursts.
    fn buffered(&self) -> u64 {
        let workers = self.workers();
        let worker_counters = workers.iter().map(|counts| &counts.buffered);
        let counters = worker_counters.chain([&self.buffered]);
        counters.map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sets the bytes that all tasks together keep between bursts, in runtimes with a task per
    /// connection.
    pub(crate) fn set_buffered(&self, bytes: u64) {
        self.buffered.store(bytes, Ordering::Relaxed);
    }

    /// Counts a connection that is closed because the bytes that connections keep between bursts
    /// exceeded their bound ([`buffered_max`](crate::buffered_max)).
    pub(crate) fn count_closed_by_bound(&self) {
        self.buffered_closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `connections` connections that are closed because of a panic or a failed loop.
    pub(crate) fn count_panics(&self, connections: u64) {
        self.panics.fetch_add(connections, Ordering::Relaxed);
    }

    /// Counts a failure of a worker's loop or of the supervisor. The caller then continues with a
    /// new loop, or with the next step of the supervisor ([`ConnectionSnapshot::restarts`]).
    pub(crate) fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed because it holds memory for which other connections wait,
    /// and because its peer is too slow.
    pub(crate) fn count_closed_slow(&self) {
        self.slow_closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed because its peer has been silent for too long.
    pub(crate) fn count_closed_idle(&self) {
        self.idle_closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns counters for a test in which the limits do not matter.
    fn any_counts() -> ConnectionCounts {
        let (max, buffered_max) = (1, 0);
        ConnectionCounts::new(max, buffered_max)
    }

    #[test]
    fn request_memory_returns_true_once_a_second_and_the_request_expires_after_the_next_second() {
        let counts = any_counts();
        assert!(!counts.is_memory_requested(1));
        assert!(counts.request_memory(5));
        assert!(!counts.request_memory(5));
        assert!(counts.is_memory_requested(5) && counts.is_memory_requested(6));
        assert!(!counts.is_memory_requested(7));
        assert!(counts.request_memory(7));
    }

    #[test]
    fn burst_sizes_are_counted_in_intervals_that_end_at_powers_of_two() {
        let counts = any_counts();
        let worker = counts.register_worker();
        for size in [0, 1, 2, 3, 4, 5, 8, 9, 512, 513, 1 << 20] {
            worker.count_burst(size);
        }
        let bursts = counts.bursts();
        // The intervals of the counters end at 1, 2, 4, 8, 16, 32, 64, 128, 256 and 512. The last
        // counter is for larger sizes.
        assert_eq!(bursts.sizes, [1, 1, 2, 2, 1, 0, 0, 0, 0, 1, 2]);
        // 32 is the sum of the sizes up to 9.
        assert_eq!(bursts.connections, 32 + 512 + 513 + (1 << 20));
    }

    #[test]
    fn admit_returns_false_at_the_limit_until_reject_or_count_closed_is_called() {
        let (max, buffered_max) = (2, 0);
        let counts = ConnectionCounts::new(max, buffered_max);
        assert!(counts.admit());
        assert!(counts.admit());
        assert!(!counts.admit());
        // Of the two admitted connections, the runtime cannot serve one.
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
