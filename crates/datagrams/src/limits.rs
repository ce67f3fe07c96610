//! All bounds of this crate.

/// Longest datagram that is received, in bytes. None of UDP is longer.
pub const DATAGRAM_MAX: usize = 1 << 16;
/// Maximum number of datagrams that are answered together.
pub const BURST_MAX: usize = 32;
/// Maximum number of requests that are prepared together, of one datagram.
pub const REQUESTS_PER_TURN: usize = 64;
/// Maximum number of turns of a session after its first, after which its datagram has timed out.
pub const TURNS_MAX: u32 = 4096;
/// Longest message of a reply in bytes, without headers: 1507 datagrams. A longer one is replaced
/// by an error.
pub const REPLY_MAX: usize = 2 << 20;
/// Largest datagram of a reply in bytes, header included (memcached `UDP_MAX_PAYLOAD_SIZE`).
pub const REPLY_DATAGRAM_MAX: usize = 1400;
/// How long the session of a datagram may continue after its first turn, in nanoseconds. It mostly
/// waits for memory or a completion. Other datagrams wait meanwhile.
pub const WAIT_MAX_NS: u64 = 100_000_000;
/// A wait that lasts so much longer, in nanoseconds, does not count further.
pub const WAIT_LATE_NS: u64 = 100_000_000;
/// How long a request waits for memory before it tries again, in nanoseconds.
pub const MEMORY_RETRY_NS: u64 = 1_000_000;
/// How long the datagrams of a reply wait for space in the socket, in nanoseconds, before the rest
/// is dropped.
pub const SEND_WAIT_MAX_NS: u64 = 50_000_000;
/// Minimum interval between two steps of maintenance, in nanoseconds.
pub const MAINTAIN_INTERVAL_NS: u64 = 100_000;
/// Maximum number of items visited by one step of maintenance.
pub const MAINTAIN_ITEMS: usize = 16;
/// Buffer of a socket for datagrams that have arrived, in bytes. The kernel may give less.
pub const RECEIVE_BUFFER: usize = 4 << 20;
/// How many times as long as its request a reply to a stranger may be, unless configured. QUIC has
/// the same figure for peers whose address is not validated (RFC 9000, section 8.1).
pub const STRANGER_FACTOR: u32 = 3;
