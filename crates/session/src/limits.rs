//! Every bound of a session, in one place.

/// Longest value that is copied into the output, in bytes; a longer one is pinned.
pub const COPY_MAX: usize = 16 * 1024;
/// Bytes of output after which a session asks for room. One answer may go beyond it.
pub const OUTPUT_SOFT_MAX: usize = 64 * 1024;
/// Values one output may pin.
pub const PINS_MAX: usize = 16;
/// Keys of one `get` answered in one turn.
pub const KEYS_PER_TURN: usize = 256;
/// Keys of one `get` whose memory is asked for together.
pub const PREFETCH_KEYS: usize = 16;
/// Most requests a session can be allowed in one turn.
pub const REQUESTS_PER_TURN_MAX: usize = 1024;
/// Bytes of what has come that are looked at ahead of their turn, for the first request.
pub const PREFETCH_INPUT_MAX: usize = 512;
