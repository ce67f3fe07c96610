//! All bounds of the interface.

/// Output length in bytes from which a session stops for [`Next::OutputSpace`]. The last reply may
/// exceed it.
///
/// [`Next::OutputSpace`]: crate::Next::OutputSpace
pub const OUTPUT_SOFT_MAX: usize = 64 * 1024;
/// Maximum number of pins in one output.
pub const PINS_MAX: usize = 16;
/// Maximum number of tickets that one connection holds at a time.
pub const TICKETS_MAX: u32 = 64;
