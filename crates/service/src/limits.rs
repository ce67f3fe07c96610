//! All bounds of the interface.

/// The length of the output, in bytes, from which a session executes no further request before the
/// output is sent ([`Next::OutputSpace`]). The reply that reaches this length is still written
/// completely, so an output may be longer.
///
/// [`Next::OutputSpace`]: crate::Next::OutputSpace
pub const OUTPUT_SOFT_MAX: usize = 64 * 1024;
/// Maximum number of pins in one output. At this number a session waits for
/// [`Next::OutputSpace`].
///
/// [`Next::OutputSpace`]: crate::Next::OutputSpace
pub const PINS_MAX: usize = 16;
/// Maximum number of open tickets of one connection.
pub const TICKETS_MAX: u32 = 64;
/// Maximum number of tickets of one worker whose result has not been taken. Tickets of closed
/// connections count, until their result is dropped.
pub const TICKETS_PER_MAILBOX_MAX: u32 = 1 << 16;
