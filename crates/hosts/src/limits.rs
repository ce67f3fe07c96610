//! All bounds of hosts and their links.

use std::time::Duration;

/// Client hosts. The addresses of more would be outside the range that is reserved for them.
pub const CLIENT_HOSTS: u8 = 60;
/// Longest delay of a link, and longest jitter.
pub const LINK_DELAY: Duration = Duration::from_secs(10);
/// Highest loss of a link: above it, TCP makes hardly any progress.
pub const LINK_LOSS: f64 = 0.5;
/// Bytes of frames under way in one direction of a link, with their bookkeeping. Frames beyond it
/// are dropped and counted. Suffices for 2 Gbit/s at a delay of 100 ms.
pub const RELAY_QUEUE_BYTES: usize = 32 << 20;
/// Bytes that the kernel keeps for each of a relay's sockets until the relay's thread runs.
pub const RELAY_RECEIVE_BUFFER: usize = 16 << 20;
/// Frames that a relay receives from one socket before it sends those that are due.
pub const RELAY_BATCH: usize = 64;
