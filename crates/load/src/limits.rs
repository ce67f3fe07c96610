//! Every bound of the generator, in one place.

use std::time::Duration;

/// Most connections of one run, over all threads.
pub const CONNECTIONS_MAX: u32 = 1 << 20;
/// Most requests one connection may have outstanding.
pub const DEPTH_MAX: u32 = 1024;
/// Most outstanding requests of one run: connections × depth.
pub const OUTSTANDING_MAX: u64 = 1 << 24;
/// Most threads.
pub const THREADS_MAX: u32 = 256;
/// Most targets.
pub const TARGETS_MAX: usize = 256;
/// Longest measured interval and longest warm-up: a day.
pub const DURATION_NS_MAX: u64 = 86_400_000_000_000;
/// Longest wait for the answers still owed at the interval's end.
pub const GRACE_NS_MAX: u64 = 100_000_000_000;
/// Requests of the schedule a thread holds drawn ahead (32 bytes each).
pub const DRAWN_AHEAD_MAX: usize = 1 << 22;
/// Requests drawn at a time in an idle moment: a few microseconds' worth, so that the draw
/// itself makes nothing late.
pub const DRAW_BATCH: usize = 16;
/// Requests a thread keeps that are due but cannot leave, because their connections are at
/// their depth or their sockets are full (24 bytes each). Beyond it they count as censored.
pub const WAITING_MAX: usize = 1 << 20;
/// Requests a thread sends before it looks for answers again.
pub const SENDS_PER_ITERATION_MAX: usize = 32;
/// Events one wait returns.
pub const EVENTS_MAX: usize = 256;
/// Bytes of requests put into one send, unless a single request is longer.
pub const SEND_BYTES_MAX: usize = 1 << 16;
/// Values above this length are sent from the shared filler, not copied.
pub const COPIED_VALUE_LEN_MAX: usize = 4096;
/// Values of one send that are not copied.
pub const SPLICES_MAX: usize = 64;
/// Room for one receive.
pub const RECEIVE_BYTES_MAX: usize = 1 << 17;
/// Most saturating connections.
pub const SATURATING_MAX: u32 = 1024;
/// Room for one receive of a saturating connection: what is measured waits while it is looked at.
pub const SATURATING_RECEIVE_MAX: usize = 1 << 13;
/// Connections being opened at a time, over all threads: well below the usual backlog of 1024.
pub const OPENING_MAX: usize = 256;
/// Times a connection is tried before the run is given up.
pub const OPENING_ATTEMPTS_MAX: u32 = 6;
/// The wait before the second try; it doubles with each.
pub const OPENING_BACKOFF_NS: u64 = 20_000_000;
/// How long a connection may take to stand and be greeted.
pub const OPENING_TIMEOUT_NS: u64 = 10_000_000_000;
/// Files a process may have open besides the connections.
pub const OPEN_FILES_RESERVE: u64 = 64;
/// Connections of a prefill to each target.
pub const PREFILL_CONNECTIONS: u32 = 8;
/// Requests of a prefill one connection has outstanding.
pub const PREFILL_DEPTH: u32 = 32;
/// How long a prefill waits without any answer before it gives up.
pub const PREFILL_TIMEOUT_NS: u64 = 10_000_000_000;
/// Records read back after a prefill, at most, to see how many are resident.
pub const RESIDENT_SAMPLE_MAX: u64 = 50_000;
/// Before its next send a thread that may spin does so for this long: so long that it sleeps at
/// the lowest rates only. A processor that has slept sends its first request with cold caches.
pub const SPIN_NS: u64 = 20_000_000;
/// A wait that was to return at once takes a microsecond, a send some five. One that took longer
/// than this was interrupted: by the kernel's own work, another process or the host of a virtual
/// machine.
pub const INTERRUPTED_NS: u64 = 15_000;
/// A thread that sleeps until something comes runs within this after it came, on a machine that is
/// not busy with others.
pub const WAKE_UP_LATENCY_NS: u64 = 100_000;
/// Bytes of a server's answer to `stats`.
pub const STATS_LEN_MAX: u64 = 64 << 10;
/// Bytes of one of its lines.
pub const STATS_LINE_LEN_MAX: u64 = 4 << 10;
/// How long a server may take to answer it, and to let the connection for it in; half of a shorter
/// interval.
pub const STATS_TIMEOUT: Duration = Duration::from_millis(500);
/// The sleeps of a witness: short enough that it sees every wait of half a millisecond, long enough
/// that its wake-ups take a hundredth of the processor.
pub const STALL_DETECTOR_PERIOD_NS: u64 = 250_000;
/// Most requests whose times are kept one by one.
pub const RECORDED_MAX: usize = 1 << 24;
