//! Writing the server's replies. The standard formatting machinery is avoided for speed.

mod dump;
mod meta;

pub use dump::{DUMP_INCOMPLETE, DumpFields, cachedump, metadump, mgdump, uri_encoded};
pub use meta::{
    DebugFields, MetaEcho, MetaFields, MetaStatus, meta_arith, meta_debug, meta_echo, meta_found,
    meta_stored,
};

use crate::decimal;

/// A storage command stored its value.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of a storage command did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas`: the item has changed since it was read.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such item.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// `delete` found the item.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// `touch` found the item.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// `flush_all`, `verbosity` and `cache_memlimit` succeeded.
pub const OK: &[u8] = b"OK\r\n";
/// `cache_memlimit` of less than [`MEMLIMIT_MIN_MB`](crate::limits::MEMLIMIT_MIN_MB).
pub const MEMLIMIT_TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
/// `cache_memlimit` of a limit that the store rejects.
pub const MEMLIMIT_FAILED: &[u8] = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
/// `cache_memlimit` of more than [`MEMLIMIT_MAX_MB`](crate::limits::MEMLIMIT_MAX_MB): the number
/// was meant in bytes.
pub const MEMLIMIT_IN_BYTES: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
/// `shutdown` where the server was not started with `-A`.
pub const SHUTDOWN_NOT_ENABLED: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// `shutdown` with an unknown mode.
pub const BAD_SHUTDOWN_MODE: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
/// `flush_all` where the server was started with `-F`.
pub const FLUSH_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// `watch` where the server was started with `-W`.
pub const WATCH_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
/// `stats cachedump` where the server was started with `-X`.
pub const CACHE_DUMP_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
/// `lru_crawler metadump` where the server was started with `-X`.
pub const METADUMP_NOT_ALLOWED: &[u8] = b"ERROR metadump not allowed\r\n";
/// `lru_crawler mgdump` where the server was started with `-X`.
pub const MGDUMP_NOT_ALLOWED: &[u8] = b"ERROR key dump not allowed\r\n";
/// A list that takes long, or `watch`, in a datagram.
pub const NOT_IN_DATAGRAMS: &[u8] = b"SERVER_ERROR not allowed in datagrams\r\n";
/// `watch` by more clients than the server has log buffers for.
pub const TOO_MANY_WATCHERS: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";
/// `lru_crawler` after `lru_crawler disable`.
pub const CRAWLER_DISABLED: &[u8] = b"CLIENT_ERROR lru crawler disabled\r\n";
/// `lru_crawler` while another dump or crawl is in progress.
pub const CRAWLER_BUSY: &[u8] = b"BUSY currently processing crawler request\r\n";
/// `lru_crawler enable` where the crawler is enabled.
pub const CRAWLER_NOT_STARTED: &[u8] = b"ERROR failed to start lru crawler thread\r\n";
/// `debugtime` with a number that is negative or too large.
pub const CLOCK_ONLY_FORWARD: &[u8] =
    b"CLIENT_ERROR the clock moves forward only, by at most 2147483647 seconds\r\n";
/// `prefix list` where the server was started with `-X`.
pub const PREFIX_LIST_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR prefix list not allowed\r\n";
/// `prefix delete` where the server was started with `-F`.
pub const PREFIX_DELETE_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR prefix delete not allowed\r\n";
/// `stats detail` where the server was started with `-X`.
pub const DETAIL_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR stats detail not allowed\r\n";
/// `stats detail` with an unknown word.
pub const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";
/// Ends a list of values or statistics.
pub const END: &[u8] = b"END\r\n";
/// `stats reset` succeeded.
pub const RESET: &[u8] = b"RESET\r\n";
/// `me` found no item.
pub const EN: &[u8] = b"EN\r\n";
/// The end of an `lru_crawler mgdump`.
pub const MGDUMP_END: &[u8] = EN;
/// The reply to `mn`.
pub const MN: &[u8] = b"MN\r\n";
/// The line end after a value.
pub const LINE_END: &[u8] = b"\r\n";

/// Unknown command or unknown statistic.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// The user or the password is wrong.
pub const LOGIN_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// No line end follows the data block.
pub const BAD_DATA_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// `incr` or `decr` of a value that is not a number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The item would exceed the largest item size.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// No memory for a value to store.
pub const NO_MEMORY_TO_STORE: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// No memory for a new counter value.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";
/// No memory for a counter that `ma` was to create.
pub const NO_MEMORY_TO_VIVIFY: &[u8] = b"SERVER_ERROR Out of memory allocating new item\r\n";
/// No memory for the values of a `get`.
pub const NO_MEMORY_TO_GET: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
/// There are too many connections; the server closes this one after the reply.
pub const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// Writes `VALUE <key> <flags> <bytes> [<cas>]`. The caller must append the value and
/// [`LINE_END`].
pub fn value_header(
    out: &mut Vec<u8>,
    key: &[u8],
    client_flags: u32,
    value_len: u32,
    cas: Option<u64>,
) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    if client_flags == 0 {
        out.extend_from_slice(b" 0 ");
    } else {
        out.push(b' ');
        decimal::write(out, u64::from(client_flags));
        out.push(b' ');
    }
    decimal::write(out, u64::from(value_len));
    if let Some(cas) = cas {
        out.push(b' ');
        decimal::write(out, cas);
    }
    out.extend_from_slice(LINE_END);
}

/// Writes a number as a line, such as the new value of a counter.
pub fn number(out: &mut Vec<u8>, value: u64) {
    decimal::write(out, value);
    out.extend_from_slice(LINE_END);
}

/// Writes `STAT <name> <value>`. [`END`] must follow the last one.
pub fn stat(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name);
    out.push(b' ');
    out.extend_from_slice(value);
    out.extend_from_slice(LINE_END);
}

/// Writes `STAT <name> <number>`. [`END`] must follow the last one.
pub fn stat_number(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name);
    out.push(b' ');
    number(out, value);
}

/// Writes `VERSION <text>`.
pub fn version(out: &mut Vec<u8>, version: &[u8]) {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(version);
    out.extend_from_slice(LINE_END);
}
