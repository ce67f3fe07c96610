//! All bounds of the parser.

/// Longest head of a request in bytes: request line, header fields and the empty line. A longer
/// one is answered with 431.
pub const HEAD_LEN_MAX: usize = 8 * 1024;
/// Maximum number of header fields of a request. A request with more is answered with 431.
pub const HEADERS_MAX: usize = 64;
/// How long the head of a request may take to arrive, in nanoseconds. A connection that takes
/// longer is answered with 408 and closed, so that slow clients do not keep the connections.
pub const HEAD_TIME_MAX_NS: u64 = 10_000_000_000;
