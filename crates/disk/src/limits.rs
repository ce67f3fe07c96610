//! All bounds of the disk.

use std::time::Duration;

/// Least size of a disk: below it, ext4 has no place for its own structures.
pub const SIZE_MIN: u64 = 16 << 20;
/// Greatest size of a disk. What was written to it is in memory.
pub const SIZE_MAX: u64 = 1 << 40;
/// Requests that a disk serves at the same time.
pub const CHANNELS: u32 = 256;
/// Longest delay of one part of a service time.
pub const DELAY_NS: u64 = 10_000_000_000;
/// Slowest transfer, bytes a second.
pub const TRANSFER_MIN: u64 = 1 << 10;
/// Bytes of one read or write of the kernel.
pub const REQUEST_LEN: u32 = 1 << 20;
/// Requests that wait for their delay. The kernel sends no more than this ([`BACKGROUND`]), and
/// one for each process that waits itself.
pub const WAITING: usize = 65_536;
/// Requests of the kernel's own, such as read-ahead, that it sends without waiting for earlier
/// ones.
pub const BACKGROUND: u16 = 4_096;
/// Requests received before those that are due are answered.
pub const BATCH: usize = 64;
/// Connections of the control socket.
pub const CONTROLS: usize = 16;
/// Bytes of a command of the control socket.
pub const COMMAND_LEN: usize = 256;
/// Bytes of its answer.
pub const ANSWER_LEN: usize = 4_096;
/// Time in which the control socket must answer.
pub const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a block of the loop device and of ext4.
pub const BLOCK_LEN: u32 = 4_096;
/// Least bound of memory: with less, programs do not start.
pub const MEMORY_MIN: u64 = 4 << 20;
/// Memory control groups of disks that are gone, removed when one is made.
pub const STALE_GROUPS: usize = 1_024;
