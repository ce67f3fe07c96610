//! Replies to the meta commands: a status, then the return flags in the order of the request.

use crate::limits::COUNTER_MAX;
use crate::{MetaFlags, base64, decimal};

/// The two letters that begin a reply without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaStatus {
    /// `HD`: success; for `mg`, found but no value requested.
    Done,
    /// `NF`: no such item.
    NotFound,
    /// `NS`: the condition of the mode did not hold.
    NotStored,
    /// `EX`: the item has another CAS.
    Exists,
    /// `EN`: `mg` found no item.
    Miss,
}

impl MetaStatus {
    /// The two letters.
    #[must_use]
    pub const fn letters(self) -> &'static [u8; 2] {
        match self {
            Self::Done => b"HD",
            Self::NotFound => b"NF",
            Self::NotStored => b"NS",
            Self::Exists => b"EX",
            Self::Miss => b"EN",
        }
    }
}

/// The data of an item that return flags may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaFields {
    /// `c`
    pub cas: u64,
    /// `f`
    pub client_flags: u32,
    /// `s`: bytes of the value.
    pub value_len: u32,
    /// `t` in front of the line's `T`, and of an `N` that created the item: seconds left before
    /// this command, negative for never.
    pub ttl_before_s: i64,
    /// `t` after `T`: the seconds left by it, negative for never.
    pub ttl_s: i64,
    /// `t` after an `N` that created the item.
    pub ttl_created_s: i64,
    /// The `N` of this command created the item.
    pub created: bool,
    /// `l`: seconds since the last access before this command.
    pub idle_s: u32,
    /// `h`: the item had been read before this command.
    pub fetched: bool,
    /// `W`: this client has the recache token.
    pub won: bool,
    /// `X`: the item is stale.
    pub stale: bool,
    /// `Z`: another client has the recache token.
    pub lost: bool,
    /// The item was stored with a base64 key, so `k` shows the key in base64.
    pub base64_key: bool,
}

impl Default for MetaFields {
    fn default() -> Self {
        Self {
            cas: 0,
            client_flags: 0,
            value_len: 0,
            ttl_before_s: -1,
            ttl_s: -1,
            ttl_created_s: -1,
            created: false,
            idle_s: 0,
            fetched: false,
            won: false,
            stale: false,
            lost: false,
            base64_key: false,
        }
    }
}

/// The parts of a request that its reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaEcho<'a> {
    /// The key, decoded.
    pub key: &'a [u8],
    /// The request had its key in base64.
    pub base64: bool,
    /// All flags in order.
    pub flags: MetaFlags<'a>,
}

/// Writes the line of an `mg` that found its item: `VA <bytes>` if the value is sent, else `HD`.
/// With `VA`, the caller must append the value and [`LINE_END`](super::LINE_END).
pub fn meta_found(out: &mut Vec<u8>, echo: &MetaEcho<'_>, fields: &MetaFields, with_value: bool) {
    if with_value {
        out.extend_from_slice(b"VA ");
        decimal::write(out, u64::from(fields.value_len));
    } else {
        out.extend_from_slice(MetaStatus::Done.letters());
    }
    let mut ttl_s = fields.ttl_before_s;
    for flag in echo.flags {
        match flag.letter {
            b'T' => ttl_s = fields.ttl_s,
            b'N' if fields.created => ttl_s = fields.ttl_created_s,
            b's' => field(out, b's', u64::from(fields.value_len)),
            b't' => ttl(out, ttl_s),
            b'c' => field(out, b'c', fields.cas),
            b'f' => field(out, b'f', u64::from(fields.client_flags)),
            b'l' => field(out, b'l', u64::from(fields.idle_s)),
            b'h' => field(out, b'h', u64::from(fields.fetched)),
            b'O' => opaque(out, flag.token),
            b'k' => {
                out.extend_from_slice(b" k");
                if stored_key(out, echo.key, fields.base64_key) {
                    out.extend_from_slice(b" b");
                }
            }
            _ => {}
        }
    }
    for (letter, is_set) in [
        (b'Z', fields.lost),
        (b'X', fields.stale),
        (b'W', fields.won),
    ] {
        if is_set {
            out.extend_from_slice(&[b' ', letter]);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The data of an item that `me` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebugFields {
    /// Seconds left, negative for never.
    pub ttl_s: i64,
    /// Seconds since the last access.
    pub idle_s: u32,
    /// The item's CAS.
    pub cas: u64,
    /// The item has been read.
    pub fetched: bool,
    /// The number of its size class.
    pub class: u32,
    /// Bytes of memory that the item takes.
    pub memory_len: u64,
    /// The item was stored with a base64 key, which is shown in base64.
    pub base64_key: bool,
}

/// Writes the reply of an `me` that found its item. `key` is decoded. As in memcached, a base64 key
/// is not marked as such.
pub fn meta_debug(out: &mut Vec<u8>, key: &[u8], fields: &DebugFields) {
    out.extend_from_slice(b"ME ");
    stored_key(out, key, fields.base64_key);
    out.extend_from_slice(b" exp=");
    match u64::try_from(fields.ttl_s) {
        Ok(left_s) => decimal::write(out, left_s),
        Err(_) => out.extend_from_slice(b"-1"),
    }
    out.extend_from_slice(b" la=");
    decimal::write(out, u64::from(fields.idle_s));
    out.extend_from_slice(b" cas=");
    decimal::write(out, fields.cas);
    out.extend_from_slice(if fields.fetched {
        b" fetch=yes cls="
    } else {
        b" fetch=no cls="
    });
    decimal::write(out, u64::from(fields.class));
    out.extend_from_slice(b" size=");
    decimal::write(out, fields.memory_len);
    out.extend_from_slice(b"\r\n");
}

/// Writes a reply that echoes only key and opaque: that of any `md`, of an `mg` that missed
/// (`EN`), and of an `ma` that failed.
pub fn meta_echo(out: &mut Vec<u8>, status: MetaStatus, echo: &MetaEcho<'_>) {
    out.extend_from_slice(status.letters());
    for flag in echo.flags {
        match flag.letter {
            b'O' => opaque(out, flag.token),
            b'k' => echo_key(out, echo),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the reply of an `ms`. `cas` is the item's new CAS, 0 unless stored. `value_len` is the
/// bytes of the whole stored value, or of the one that was not stored.
pub fn meta_stored(
    out: &mut Vec<u8>,
    status: MetaStatus,
    echo: &MetaEcho<'_>,
    cas: u64,
    value_len: u32,
) {
    out.extend_from_slice(status.letters());
    for flag in echo.flags {
        match flag.letter {
            b'O' => opaque(out, flag.token),
            b'k' => echo_key(out, echo),
            b'c' => field(out, b'c', cas),
            b's' => field(out, b's', u64::from(value_len)),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the reply of an `ma` that succeeded, with the number if `with_value` is set. Of `fields`
/// it uses only the CAS, the times to live and `created`.
pub fn meta_arith(
    out: &mut Vec<u8>,
    echo: &MetaEcho<'_>,
    fields: &MetaFields,
    number: u64,
    with_value: bool,
) {
    let mut text = [0; COUNTER_MAX];
    let text = decimal::render(number, &mut text);
    if with_value {
        out.extend_from_slice(b"VA ");
        decimal::write(out, text.len() as u64);
    } else {
        out.extend_from_slice(MetaStatus::Done.letters());
    }
    let mut ttl_s = fields.ttl_before_s;
    for flag in echo.flags {
        match flag.letter {
            b'T' => ttl_s = fields.ttl_s,
            b'N' if fields.created => ttl_s = fields.ttl_created_s,
            b't' => ttl(out, ttl_s),
            b'c' => field(out, b'c', fields.cas),
            b'O' => opaque(out, flag.token),
            b'k' => echo_key(out, echo),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if with_value {
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    }
}

fn field(out: &mut Vec<u8>, letter: u8, value: u64) {
    out.extend_from_slice(&[b' ', letter]);
    decimal::write(out, value);
}

fn ttl(out: &mut Vec<u8>, ttl_s: i64) {
    match u64::try_from(ttl_s) {
        Ok(left_s) => field(out, b't', left_s),
        Err(_) => out.extend_from_slice(b" t-1"),
    }
}

fn opaque(out: &mut Vec<u8>, token: &[u8]) {
    out.extend_from_slice(b" O");
    out.extend_from_slice(token);
}

/// Writes a key in the form in which it was stored, plain or base64. Returns whether it is base64.
/// A key that contains a space or a line end is always written in base64, so that it cannot break
/// the line. memcached 1.6.45 differs: it loses the form when it makes a new item from an old one,
/// and then writes such a key plain.
fn stored_key(out: &mut Vec<u8>, key: &[u8], base64_key: bool) -> bool {
    let base64 = base64_key || key.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    if base64 {
        base64::encode(out, key);
    } else {
        out.extend_from_slice(key);
    }
    base64
}

/// Echoes a key. A base64 key is encoded again, because the text of the request may contain bytes
/// that decoding skips.
fn echo_key(out: &mut Vec<u8>, echo: &MetaEcho<'_>) {
    out.extend_from_slice(b" k");
    if echo.base64 {
        base64::encode(out, echo.key);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(echo.key);
    }
}
