//! Every bound of the protocol, in one place.

/// Longest key in bytes (memcached `KEY_MAX_LENGTH`).
pub const KEY_MAX: usize = 250;
/// Longest command line in bytes before its line end, unless it is a `get` or `gets`.
pub const LINE_MAX: usize = 2048;
/// Longest `get`/`gets` line in bytes: about four thousand of the longest keys.
pub const GET_LINE_MAX: usize = 1 << 20;
/// Longest meta opaque token in bytes (memcached `MAX_OPAQUE`).
pub const OPAQUE_MAX: usize = 32;
/// Most flags on one meta command line.
pub const META_FLAGS_MAX: usize = 20;
/// Longest decimal text of a counter in bytes (`u64::MAX` has 20 digits).
pub const COUNTER_MAX: usize = 20;
