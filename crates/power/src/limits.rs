//! All bounds of energy.

/// Requests that a simulation makes, least and most.
pub const REQUESTS: std::ops::RangeInclusive<usize> = 1_000..=10_000_000;
/// Longest delay of interrupts, microseconds.
pub const DELAY_US: f64 = 10_000.0;
/// Greatest offered rate.
pub const RATE_RPS: f64 = 1e9;
/// Idle intervals that a prediction of the next one looks at (the menu governor of Linux: 8).
pub const IDLE_HISTORY: usize = 8;
/// Bytes of a file of the kernel that is read.
pub const FILE_LEN: usize = 1 << 20;
/// Names of a folder that are looked at.
pub const ENTRIES: usize = 65_536;
/// Least limit of a package's power that may be set: below it, a machine crawls.
pub const POWER_LIMIT_MIN_W: u64 = 10;
/// Longest delay of a device's interrupts: 10 ms.
pub const RX_USECS: u64 = 10_000;
/// Longest poll of a socket.
pub const BUSY_POLL_US: u64 = 10_000;
/// Most empty polls before interrupts are enabled.
pub const DEFER_HARD_IRQS: u64 = 1_000;
/// Longest timeout of a device: longer ones stop it, if nothing polls.
pub const TIMEOUT_NS: u64 = 100_000_000;
/// Places that a session saves.
pub const SAVED: usize = 100_000;
/// Bytes of a saved line.
pub const LINE_LEN: u64 = 4_096;
/// Passes in which places are restored, until all are.
pub const RESTORE_PASSES: usize = 4;
