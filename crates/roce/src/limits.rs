//! All bounds of packets and captures.

/// Largest path MTU, in bytes of payload (InfiniBand Architecture Specification 1.4, 9.6.1).
pub const MTU_MAX: usize = 4096;
/// Longest frame: Ethernet, IPv6, UDP, BTH, RETH, immediate data, payload and ICRC. Longer
/// frames are refused.
pub const FRAME_LEN_MAX: usize = 14 + 40 + 8 + 12 + 16 + 4 + MTU_MAX + 4;
/// Longest frame that is read from a capture or written to one.
pub const CAPTURE_LEN_MAX: usize = 65_535;
