//! The bounds and times of the stack.

/// Maximum number of half-open connections: a SYN has arrived, the acknowledgement of the answer
/// has not. At the bound, the oldest is dropped for the next. A peer completes its handshake within
/// one round trip, so connections succeed while fewer SYNs than this arrive in a round trip.
pub const HALF_OPEN_MAX: usize = 1024;
/// The interval in which a half-open connection is answered again, in nanoseconds.
pub const ANSWER_NS: u64 = 1_250_000_000;
/// After so many answers a half-open connection is dropped.
pub const ANSWERS_MAX: u32 = 4;
/// Maximum number of connections that the owner has closed and the peer has not. At the bound, the
/// oldest is reset.
pub const CLOSING_MAX: usize = 1024;
/// How long a closed connection may take to send what is left and to be closed by its peer, in
/// nanoseconds. Then it is reset.
pub const CLOSING_NS: u64 = 20_000_000_000;
/// Maximum number of bytes from the peer of a closed connection that are discarded. At the bound,
/// the connection is reset.
pub const DISCARDED_MAX: usize = 1 << 20;
/// How long a peer may be silent while bytes for it are unacknowledged, in nanoseconds. Then the
/// connection is reset.
pub const UNACKNOWLEDGED_NS: u64 = 120_000_000_000;
/// How long a peer may be silent before it is probed, in nanoseconds: the default of Linux for
/// sockets with keepalive, as all its following numbers.
pub const KEEPALIVE_NS: u64 = 7_200_000_000_000;
/// How long a probed peer may take until it is probed again, in nanoseconds.
pub const PROBE_NS: u64 = 75_000_000_000;
/// Number of probes without an answer after which a connection is reset.
pub const PROBES_MAX: u64 = 9;
/// Maximum number of frames that wait to be taken. While there are so many, connections keep their
/// segments; at twice as many, received frames are dropped.
pub const FRAMES_MAX: usize = 256;
/// Minimum time after which a connection is looked at again if nothing has arrived for it, in
/// nanoseconds.
pub const TIMER_MIN_NS: u64 = 1_000_000;
/// Maximum number of connections whose timers are served by one call.
pub const TIMERS_PER_CALL: usize = 256;
/// Default and maximum length of the receive buffer of a connection in bytes, which is its largest
/// window. smoltcp takes the window of its SYN-ACK, which is never scaled, for a scaled one: with a
/// longer buffer it would accept more than fits, and panic.
pub const RECEIVE_BUFFER: usize = 65_535;
/// Default length of the send buffer of a connection in bytes.
pub const SEND_BUFFER: usize = 64 * 1024;
/// The length of an Ethernet header in bytes.
pub const ETHERNET_HEADER: usize = 14;
