//! The bounds of a workload.

/// Longest key of the memcached protocols, bytes.
pub const KEY_LEN_MAX: usize = 250;

/// Default of the longest value, bytes: with the longest key and any server's item header it fits
/// into memcached's default item size of 1 MiB.
pub const VALUE_LEN_MAX: u32 = 1_000_000;

/// Maximum number of records of one keyspace: their numbers have at most 8 base-32 digits.
pub const RECORDS_MAX: u64 = 1 << 40;

/// Maximum number of connections of one schedule; each costs some 80 bytes.
pub const CONNECTIONS_MAX: u32 = 1 << 20;

/// Greatest exponent of a Zipf distribution.
pub const THETA_MAX: f64 = 5.0;

/// Greatest offered rate, requests per second: one per nanosecond.
pub const RATE_RPS_MAX: f64 = 1e9;

/// Longest text accepted for a distribution, bytes.
pub const DISTRIBUTION_TEXT_LEN_MAX: usize = 200;

/// Maximum number of gaps that an arrival stream draws before time 0 to reach a random phase.
pub const BURN_IN_GAPS_MAX: u32 = 4096;

/// Maximum number of keys of one multiget.
pub const MULTIGET_KEYS_MAX: u16 = 128;

/// Greatest TTL in seconds: 30 days. memcached takes a greater number for a Unix time.
pub const TTL_S_MAX: u32 = 60 * 60 * 24 * 30;

/// Maximum number of directories of a file set: their numbers have five digits. So many hold some
/// 500 GB.
pub const FILE_DIRECTORIES_MAX: u32 = 100_000;
