//! The bounds of a workload.

/// Longest key of the memcached protocols, bytes.
pub const KEY_LEN_MAX: usize = 250;

/// Longest value drawn unless the caller says otherwise, bytes: an item of memcached's default
/// item size (1 MiB) has room for it beside the longest key and any server's item header.
pub const VALUE_LEN_MAX: u32 = 1_000_000;

/// Most records of one keyspace; their numbers are then at most 8 base-32 digits.
pub const RECORDS_MAX: u64 = 1 << 40;

/// Most connections of one schedule; each costs some 80 bytes.
pub const CONNECTIONS_MAX: u32 = 1 << 20;

/// Greatest exponent of a Zipf distribution.
pub const THETA_MAX: f64 = 5.0;

/// Greatest offered rate, requests per second: one a nanosecond.
pub const RATE_RPS_MAX: f64 = 1e9;

/// Longest text of a distribution that is looked at, bytes.
pub const DISTRIBUTION_TEXT_LEN_MAX: usize = 200;

/// Gaps an arrival stream may draw before time zero, at most, to forget where it began.
pub const BURN_IN_GAPS_MAX: u32 = 4096;
