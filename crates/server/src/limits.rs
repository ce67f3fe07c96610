//! Bounds of a server.

/// Longest file of passwords in bytes.
pub(crate) const PASSWORD_FILE_MAX: u64 = 1 << 20;
/// Pause of the main thread after a step of its work on the store, in nanoseconds.
pub(crate) const STEP_PAUSE_NS: u64 = 250_000;
/// Operations that a client of a memory pool has in progress at once. More wait.
pub(crate) const POOL_OPERATIONS_MAX: usize = 32;
/// Attempts to find a loopback address for a client of a memory pool that no other process has.
pub(crate) const POOL_ADDRESS_TRIES: u64 = 64;
/// How often a memory pool may have no memory before a write is refused. Slots come back with
/// renewals of the lease, each 20 ms.
pub(crate) const POOL_REFUSALS_MAX: u32 = 3;
/// Shortest pause of the thread that collects log lines.
pub(crate) const COLLECTOR_SLEEP_MIN: std::time::Duration = std::time::Duration::from_millis(1);
/// Longest pause of that thread.
pub(crate) const COLLECTOR_SLEEP_MAX: std::time::Duration = std::time::Duration::from_millis(100);
/// Least size of a buffer of log lines, in bytes.
pub(crate) const LOG_BUFFER_MIN: usize = 8 << 10;
/// How often that thread looks for clients that have closed their connections.
pub(crate) const WATCHERS_CHECKED_EACH: std::time::Duration = std::time::Duration::from_millis(200);
