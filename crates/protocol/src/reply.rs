//! The server's answers, written into the output without formatting machinery.

mod meta;

pub use meta::{
    MetaDebugFacts, MetaFacts, MetaStatus, meta_arith, meta_debug, meta_echo, meta_found,
    meta_stored,
};

use crate::decimal;

/// A storage command was carried out.
pub const STORED: &[u8] = b"STORED\r\n";
/// Its condition did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// The item has changed since (`cas`).
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such item.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// `delete` found it.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// `touch` found it.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// `flush_all`, `verbosity`.
pub const OK: &[u8] = b"OK\r\n";
/// `cache_memlimit` of less than [`MEMLIMIT_MIN_MB`](crate::limits::MEMLIMIT_MIN_MB).
pub const MEMLIMIT_TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
/// `cache_memlimit` of more than there can be.
pub const MEMLIMIT_FAILED: &[u8] = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
/// `cache_memlimit` that can only be meant in bytes.
pub const MEMLIMIT_IN_BYTES: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
/// No more values or statistics.
pub const END: &[u8] = b"END\r\n";
/// `stats reset`.
pub const RESET: &[u8] = b"RESET\r\n";
/// `me` found nothing.
pub const EN: &[u8] = b"EN\r\n";
/// `mn`.
pub const MN: &[u8] = b"MN\r\n";
/// Ends a value.
pub const LINE_END: &[u8] = b"\r\n";

/// Not a command, or a statistic nobody knows.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// The data block does not end in a line end.
pub const BAD_DATA_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// `incr` and `decr` of something else.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// Above the largest item size.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// No memory for a value being stored.
pub const NO_MEMORY_TO_STORE: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// No memory for a new counter value.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";
/// No memory for a counter that `ma` was to create.
pub const NO_MEMORY_TO_VIVIFY: &[u8] = b"SERVER_ERROR Out of memory allocating new item\r\n";
/// No memory for the values of a `get`.
pub const NO_MEMORY_TO_GET: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
/// More connections than allowed; said before closing.
pub const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// `VALUE <key> <flags> <bytes> [<cas>]`; the value and [`LINE_END`] follow.
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

/// The new value of a counter, on a line of its own.
pub fn number(out: &mut Vec<u8>, value: u64) {
    decimal::write(out, value);
    out.extend_from_slice(LINE_END);
}

/// `STAT <name> <value>`; [`END`] follows the last.
pub fn stat(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name);
    out.push(b' ');
    out.extend_from_slice(value);
    out.extend_from_slice(LINE_END);
}

/// `STAT <name> <number>`; [`END`] follows the last.
pub fn stat_number(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name);
    out.push(b' ');
    number(out, value);
}

/// `VERSION <text>`
pub fn version(out: &mut Vec<u8>, version: &[u8]) {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(version);
    out.extend_from_slice(LINE_END);
}
