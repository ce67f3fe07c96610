//! The answers of the meta commands: a status and the flags that the request asked back, in the
//! request's order.

use crate::limits::{COUNTER_MAX, KEY_MAX};
use crate::{MetaFlags, MetaKey, base64, decimal};

/// The two letters an answer without a value begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaStatus {
    /// `HD`: done, or found and no value wanted.
    Done,
    /// `NF`: no such item.
    NotFound,
    /// `NS`: the condition of the mode did not hold.
    NotStored,
    /// `EX`: the item has another CAS.
    Exists,
    /// `EN`: an `mg` found nothing.
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

/// What an answer may say about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaFacts {
    /// `c`
    pub cas: u64,
    /// `f`
    pub client_flags: u32,
    /// `s`: bytes of the value.
    pub value_len: u32,
    /// `t` until the line's `T` (or the `N` that created the item) is passed: seconds left
    /// before this command, negative for never.
    pub ttl_before_s: i64,
    /// `t` behind `T`: the seconds it leaves, negative for never.
    pub ttl_s: i64,
    /// `t` behind the `N` that created the item.
    pub ttl_created_s: i64,
    /// `N` of this command created the item.
    pub created: bool,
    /// `l`: seconds since the item was last asked for, before this command.
    pub idle_s: u32,
    /// `h`: the item had been asked for before this command.
    pub fetched: bool,
    /// `W`: this client is the one to recache.
    pub won: bool,
    /// `X`: the item is stale.
    pub stale: bool,
    /// `Z`: another client was told to recache.
    pub lost: bool,
    /// The item was stored under a key in base64, and `k` shows it so.
    pub base64_key: bool,
}

impl Default for MetaFacts {
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

/// The line of an `mg` that found its item: `VA <bytes>` if the value is sent (it and
/// [`LINE_END`](super::LINE_END) follow), else `HD`.
pub fn meta_found(
    out: &mut Vec<u8>,
    key: &MetaKey<'_>,
    flags: MetaFlags<'_>,
    facts: &MetaFacts,
    with_value: bool,
) {
    if with_value {
        out.extend_from_slice(b"VA ");
        decimal::write(out, u64::from(facts.value_len));
    } else {
        out.extend_from_slice(MetaStatus::Done.letters());
    }
    let mut ttl_s = facts.ttl_before_s;
    for flag in flags {
        match flag.letter {
            b'T' => ttl_s = facts.ttl_s,
            b'N' if facts.created => ttl_s = facts.ttl_created_s,
            b's' => field(out, b's', u64::from(facts.value_len)),
            b't' => ttl(out, ttl_s),
            b'c' => field(out, b'c', facts.cas),
            b'f' => field(out, b'f', u64::from(facts.client_flags)),
            b'l' => field(out, b'l', u64::from(facts.idle_s)),
            b'h' => field(out, b'h', u64::from(facts.fetched)),
            b'O' => opaque(out, flag.token),
            b'k' => {
                out.extend_from_slice(b" k");
                let mut room = [0; KEY_MAX];
                if stored_key(out, key.decode(&mut room), facts.base64_key) {
                    out.extend_from_slice(b" b");
                }
            }
            _ => {}
        }
    }
    for (letter, told) in [(b'Z', facts.lost), (b'X', facts.stale), (b'W', facts.won)] {
        if told {
            out.extend_from_slice(&[b' ', letter]);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// What `me` says about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaDebugFacts {
    /// Seconds left, negative for never.
    pub ttl_s: i64,
    /// Seconds since the item was last asked for.
    pub idle_s: u32,
    /// Its CAS.
    pub cas: u64,
    /// It has been asked for.
    pub fetched: bool,
    /// Bytes of memory.
    pub memory_len: u64,
    /// The item was stored under a key in base64, and is shown so.
    pub base64_key: bool,
}

/// The class that [`meta_debug`] shows for every item, as there are no classes of slabs: the first
/// that memcached has.
const CLASS: u64 = 1;

/// The answer of an `me` that found its item. A key in base64 is not marked as such, in memcached
/// either.
pub fn meta_debug(out: &mut Vec<u8>, key: &MetaKey<'_>, facts: &MetaDebugFacts) {
    out.extend_from_slice(b"ME ");
    stored_key(out, key.decode(&mut [0; KEY_MAX]), facts.base64_key);
    out.extend_from_slice(b" exp=");
    match u64::try_from(facts.ttl_s) {
        Ok(left_s) => decimal::write(out, left_s),
        Err(_) => out.extend_from_slice(b"-1"),
    }
    out.extend_from_slice(b" la=");
    decimal::write(out, u64::from(facts.idle_s));
    out.extend_from_slice(b" cas=");
    decimal::write(out, facts.cas);
    out.extend_from_slice(if facts.fetched {
        b" fetch=yes cls="
    } else {
        b" fetch=no cls="
    });
    decimal::write(out, CLASS);
    out.extend_from_slice(b" size=");
    decimal::write(out, facts.memory_len);
    out.extend_from_slice(b"\r\n");
}

/// An answer that echoes only key and opaque: of `md` always, of `mg` on a miss (`EN`), of `ma`
/// unless it counted.
pub fn meta_echo(out: &mut Vec<u8>, status: MetaStatus, key: &MetaKey<'_>, flags: MetaFlags<'_>) {
    out.extend_from_slice(status.letters());
    for flag in flags {
        match flag.letter {
            b'O' => opaque(out, flag.token),
            b'k' => echo_key(out, key),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The answer of an `ms`. `cas` is the item's new one (0 unless stored), `value_len` the bytes
/// of the whole value now stored, or of the one refused.
pub fn meta_stored(
    out: &mut Vec<u8>,
    status: MetaStatus,
    key: &MetaKey<'_>,
    flags: MetaFlags<'_>,
    cas: u64,
    value_len: u32,
) {
    out.extend_from_slice(status.letters());
    for flag in flags {
        match flag.letter {
            b'O' => opaque(out, flag.token),
            b'k' => echo_key(out, key),
            b'c' => field(out, b'c', cas),
            b's' => field(out, b's', u64::from(value_len)),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The whole answer of an `ma` that counted, the number included if it is wanted. Of `facts`
/// only CAS, times to live and `created` are asked.
pub fn meta_arith(
    out: &mut Vec<u8>,
    key: &MetaKey<'_>,
    flags: MetaFlags<'_>,
    facts: &MetaFacts,
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
    let mut ttl_s = facts.ttl_before_s;
    for flag in flags {
        match flag.letter {
            b'T' => ttl_s = facts.ttl_s,
            b'N' if facts.created => ttl_s = facts.ttl_created_s,
            b't' => ttl(out, ttl_s),
            b'c' => field(out, b'c', facts.cas),
            b'O' => opaque(out, flag.token),
            b'k' => echo_key(out, key),
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

/// A key as it was stored, plain or in base64, which is what is returned. One that would end the
/// line or the word is always in base64: memcached 1.6.45 forgets the form when it makes a new item
/// of an old one, and writes such a key as it is.
fn stored_key(out: &mut Vec<u8>, key: &[u8], base64_key: bool) -> bool {
    let base64 = base64_key || key.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    if base64 {
        base64::encode(out, key);
    } else {
        out.extend_from_slice(key);
    }
    base64
}

/// A base64 key is encoded anew, as what was sent may hold bytes that decoding passed over.
fn echo_key(out: &mut Vec<u8>, key: &MetaKey<'_>) {
    out.extend_from_slice(b" k");
    if key.base64 {
        let mut decoded = [0; KEY_MAX];
        base64::encode(out, key.decode(&mut decoded));
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key.raw);
    }
}
