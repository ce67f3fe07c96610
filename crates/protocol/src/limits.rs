//! Every bound of the protocol, in one place.

/// Longest key in bytes (memcached `KEY_MAX_LENGTH`), as sent and as decoded.
pub const KEY_MAX: usize = 250;
/// Longest command line in bytes before its line end, unless it is a `get` or `gets`.
pub const LINE_MAX: usize = 2048;
/// Longest `get`/`gets` line in bytes: about four thousand of the longest keys.
pub const GET_LINE_MAX: usize = 1 << 20;
/// Longest data block in bytes that a line may announce (memcached `INT_MAX - 2`).
pub const VALUE_LEN_MAX: u32 = i32::MAX as u32 - 2;
/// Most words of a line that are looked at (memcached `MCMC_PARSER_MAX_TOKENS - 1`); `noreply`
/// is looked for in the last of them.
pub const WORDS_MAX: usize = 23;
/// Longest meta opaque flag in bytes, its letter included (memcached
/// `MFLAG_MAX_OPAQUE_LENGTH`).
pub const OPAQUE_MAX: usize = 32;
/// Most words on one meta command line, command and key included (memcached
/// `MFLAG_MAX_OPT_LENGTH`).
pub const META_WORDS_MAX: usize = 20;
/// Longest decimal text of a counter in bytes (`u64::MAX` has 20 digits).
pub const COUNTER_MAX: usize = 20;
/// Longest line of a reply in bytes before its line feed: a `VALUE` line is at most some 310, a
/// statistic or a meta answer with every flag no more than 700.
pub const REPLY_LINE_MAX: usize = 2048;
/// Least memory that `cache_memlimit` takes, in megabytes.
pub const MEMLIMIT_MIN_MB: u32 = 8;
/// Beyond it `cache_memlimit` takes a number for one of bytes.
pub const MEMLIMIT_MAX_MB: u32 = 1_000_000_000;
/// Classes of slabs that memcached numbers, from 0.
pub const SLAB_CLASSES: u32 = 64;
