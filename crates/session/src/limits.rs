//! All bounds of a session.

/// Longest value that is copied into the output, in bytes. A longer value is pinned.
pub const COPY_MAX: usize = 16 * 1024;
/// Keys of one `get` that are answered in one turn.
pub const KEYS_PER_TURN: usize = 256;
/// Keys of one `get` whose memory is prefetched together.
pub const PREFETCH_KEYS: usize = 16;
/// Maximum number of key prefixes that one worker counts (`stats detail`). Further prefixes are not
/// counted. A dump reads them under a lock for which the worker may wait, about 50 µs at this
/// bound.
pub const PREFIXES_MAX: usize = 1024;
/// Upper bound of the requests that a session answers in one turn.
pub const REQUESTS_PER_TURN_MAX: usize = 1024;
/// Connections of one worker whose first requests are prefetched together, before the first of them
/// is answered, in runtimes that answer one connection at a time.
pub const EARLY_HASHES_MAX: usize = 256;
/// Bytes of received input that are parsed early, to prefetch the bucket of the first request.
pub const PREFETCH_INPUT_MAX: usize = 512;
