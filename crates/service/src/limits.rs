//! All bounds of the interface.

/// Output length, in bytes, from which a session stops for [`Next::OutputSpace`]. The reply that
/// reaches this length is written completely.
///
/// [`Next::OutputSpace`]: crate::Next::OutputSpace
pub const OUTPUT_SOFT_MAX: usize = 64 * 1024;
/// Maximum number of pins in one output.
pub const PINS_MAX: usize = 16;
/// Maximum number of tickets that one connection has at a time.
pub const TICKETS_MAX: u32 = 64;
/// Maximum number of tickets of one worker, those of closed connections included.
pub const TICKETS_PER_MAILBOX_MAX: u32 = 1 << 16;
