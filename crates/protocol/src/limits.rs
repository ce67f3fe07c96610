//! All bounds of the protocol.

/// Longest key in bytes, both as sent and as decoded (memcached `KEY_MAX_LENGTH`).
pub const KEY_MAX: usize = 250;
/// Longest command line in bytes before its line end, except for `get`, `gets`, `gat` and `gats`.
pub const LINE_MAX: usize = 2048;
/// Longest line of keys that is parsed in full, in bytes before its line end. Of a longer one the
/// keys are answered as they arrive, so that no buffer has to contain it.
pub const KEYS_LINE_MAX: usize = 64 * 1024;
/// Longest data block in bytes that a line may announce (memcached `INT_MAX - 2`).
pub const VALUE_LEN_MAX: u32 = i32::MAX as u32 - 2;
/// Maximum number of words of a line that are parsed (memcached `MCMC_PARSER_MAX_TOKENS - 1`). Only
/// the last of them can be `noreply`.
pub const WORDS_MAX: usize = 23;
/// Longest opaque flag of a meta command in bytes, including its letter (memcached
/// `MFLAG_MAX_OPAQUE_LENGTH`).
pub const OPAQUE_MAX: usize = 32;
/// Maximum number of words on a meta command line, including command and key (memcached
/// `MFLAG_MAX_OPT_LENGTH`).
pub const META_WORDS_MAX: usize = 20;
/// Longest decimal text of a counter in bytes (`u64::MAX` has 20 digits).
pub const COUNTER_MAX: usize = 20;
/// Longest reply line in bytes before its line feed. A `VALUE` line has at most about 310 bytes, a
/// statistic or a meta reply with every flag at most 700.
pub const REPLY_LINE_MAX: usize = 2048;
/// Shortest first line of a client that has to log in, in bytes before its line feed. A shorter one
/// closes the connection (memcached `MIN_AUTH_REQ_LEN`).
pub const LOGIN_LINE_MIN: usize = 6;
/// Longest user and password together with the space between them, in bytes (memcached
/// `MAX_AUTH_REQ_LEN`), and longest message of SASL.
pub const LOGIN_TOKEN_MAX: usize = 16_384;
/// Longest name of a mechanism of SASL in bytes (memcached `MAX_SASL_MECH_LEN`).
pub const SASL_MECHANISM_MAX: usize = 32;
/// Smallest limit that `cache_memlimit` accepts, in megabytes.
pub const MEMLIMIT_MIN_MB: u32 = 8;
/// Largest limit that `cache_memlimit` accepts, in megabytes. A larger number must have been meant
/// in bytes.
pub const MEMLIMIT_MAX_MB: u32 = 1_000_000_000;
/// Slab classes of memcached; its class numbers are below this.
pub const SLAB_CLASSES: u32 = 64;
/// Largest `lru_crawler sleep` in microseconds.
pub const CRAWLER_SLEEP_MAX_US: u32 = 1_000_000;
/// Largest sum of the two percentages of `lru tune`.
pub const LRU_SHARES_MAX: u64 = 80;
/// Largest level of `slabs automove`.
pub const AUTOMOVE_LEVEL_MAX: u32 = 2;
/// The values of `slabs automove window`, in seconds.
pub const AUTOMOVE_WINDOW_S: std::ops::RangeInclusive<u32> = 3..=1800;
/// Length of the header of a frame of the binary protocol, in bytes.
pub const BINARY_HEADER_LEN: usize = 24;
/// Longest body of a frame that is not refused by its length alone, in bytes (memcached
/// `ITEM_SIZE_MAX_UPPER_LIMIT`).
pub const BINARY_BODY_MAX: u32 = 1 << 30;
