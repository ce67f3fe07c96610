//! All bounds of packets, captures and the ends of a connection.

/// Largest path MTU, in bytes of payload (InfiniBand Architecture Specification 1.4).
pub const MTU_MAX: usize = 4096;
/// Longest frame: Ethernet, IPv6, UDP, BTH, RETH, immediate data, payload and ICRC. Longer
/// frames are refused.
pub const FRAME_LEN_MAX: usize = 14 + 40 + 8 + 12 + 16 + 4 + MTU_MAX + 4;
/// Longest frame that is read from a capture or written to one.
pub const CAPTURE_LEN_MAX: usize = 65_535;

/// Longest message of a WRITE, READ or SEND, in bytes. A requester refuses to post a longer one;
/// a responder answers that the request is invalid.
pub const MESSAGE_LEN_MAX: usize = 1 << 20;
/// Most operations of a requester that are posted, or completed and not taken yet. More are
/// refused.
pub const OPERATIONS_MAX: usize = 256;
/// Most READs and atomic operations that are sent and unanswered, and results of atomic operations
/// that a responder keeps. Later ones wait at the requester.
pub const READS_MAX: usize = 16;
/// Most packets that a requester may have sent without an acknowledgement; a READ that begins
/// within this window may reach beyond it.
pub const WINDOW_MAX: u32 = 1 << 16;
/// Most memory regions of a responder. More are refused.
pub const REGIONS_MAX: usize = 64;
/// Most messages that a peer may send before the host posts another receive. More are refused.
pub const RECEIVES_MAX: usize = 256;
