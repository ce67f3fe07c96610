//! The client half: writing requests, reading replies.
//!
//! Requests are not validated: the caller must pass keys of 1 to 250 bytes without spaces and
//! control characters. Only the output buffer allocates, so a load generator can use this for
//! every request.

mod administration;
mod reader;

pub use administration::{crawler, debug_time, prefix, tune, watch};
pub use reader::{
    Advance, ErrorClass, Malformed, MetaResult, Reply, ReplyKind, ReplyReader, Status,
};

use crate::decimal;
use crate::{
    Arith, ArithMode, Delete, Detail, FlushAll, MetaKey, Set, SetMode, ShutdownMode, Stats, Touch,
};

/// `get` or, with CAS, `gets`, of at least one key.
pub fn get<'k>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'k [u8]>, with_cas: bool) {
    out.extend_from_slice(if with_cas { b"gets" } else { b"get" });
    words(out, keys);
    end(out);
}

/// `gat` or, with CAS, `gats`, of at least one key.
pub fn get_and_touch<'k>(
    out: &mut Vec<u8>,
    exptime: i32,
    keys: impl IntoIterator<Item = &'k [u8]>,
    with_cas: bool,
) {
    out.extend_from_slice(if with_cas { b"gats" } else { b"gat" });
    signed(out, exptime);
    words(out, keys);
    end(out);
}

/// A storage command with its data block. The length of `value` must equal `set.value_len`.
pub fn set(out: &mut Vec<u8>, set: &Set<'_>, value: &[u8]) {
    set_line(out, set);
    out.extend_from_slice(value);
    end(out);
}

/// The line of a storage command. The caller must append the value and a line end.
pub fn set_line(out: &mut Vec<u8>, set: &Set<'_>) {
    out.extend_from_slice(match (set.mode, set.cas) {
        (_, Some(_)) => b"cas".as_slice(),
        (SetMode::Set, None) => b"set",
        (SetMode::Add, None) => b"add",
        (SetMode::Replace, None) => b"replace",
        (SetMode::Append, None) => b"append",
        (SetMode::Prepend, None) => b"prepend",
    });
    words(out, [set.key]);
    unsigned(out, u64::from(set.flags));
    signed(out, set.exptime);
    unsigned(out, u64::from(set.value_len));
    if let Some(cas) = set.cas {
        unsigned(out, cas);
    }
    end_noreply(out, set.noreply);
}

/// `delete`
pub fn delete(out: &mut Vec<u8>, delete: &Delete<'_>) {
    out.extend_from_slice(b"delete");
    words(out, [delete.key]);
    if delete.key == b"noreply" && !delete.noreply {
        // Without this, the server would read the key `noreply` as the option. It ignores a time
        // of 0.
        unsigned(out, 0);
    }
    end_noreply(out, delete.noreply);
}

/// `incr`, `decr`
pub fn arith(out: &mut Vec<u8>, arith: &Arith<'_>) {
    out.extend_from_slice(match arith.mode {
        ArithMode::Increment => b"incr",
        ArithMode::Decrement => b"decr",
    });
    words(out, [arith.key]);
    unsigned(out, arith.delta);
    end_noreply(out, arith.noreply);
}

/// `touch`
pub fn touch(out: &mut Vec<u8>, touch: &Touch<'_>) {
    out.extend_from_slice(b"touch");
    words(out, [touch.key]);
    signed(out, touch.exptime);
    end_noreply(out, touch.noreply);
}

/// `flush_all`
pub fn flush_all(out: &mut Vec<u8>, flush: FlushAll) {
    out.extend_from_slice(b"flush_all");
    if let Some(exptime) = flush.exptime {
        signed(out, exptime);
    }
    end_noreply(out, flush.noreply);
}

/// `version`
pub fn version(out: &mut Vec<u8>) {
    out.extend_from_slice(b"version\r\n");
}

/// `cache_memlimit`
pub fn cache_memlimit(out: &mut Vec<u8>, megabytes: u32, noreply: bool) {
    out.extend_from_slice(b"cache_memlimit");
    unsigned(out, u64::from(megabytes));
    end_noreply(out, noreply);
}

/// `verbosity`
pub fn verbosity(out: &mut Vec<u8>, level: u32, noreply: bool) {
    out.extend_from_slice(b"verbosity");
    unsigned(out, u64::from(level));
    end_noreply(out, noreply);
}

/// `stats`
pub fn stats(out: &mut Vec<u8>, stats: Stats<'_>) {
    out.extend_from_slice(b"stats");
    match stats {
        Stats::General => {}
        Stats::Reset => words(out, [b"reset".as_slice()]),
        Stats::Settings => words(out, [b"settings".as_slice()]),
        Stats::Items => words(out, [b"items".as_slice()]),
        Stats::Slabs => words(out, [b"slabs".as_slice()]),
        Stats::Sizes => words(out, [b"sizes".as_slice()]),
        Stats::Connections => words(out, [b"conns".as_slice()]),
        Stats::HotKeys => words(out, [b"hotkeys".as_slice()]),
        Stats::Latency => words(out, [b"latency".as_slice()]),
        Stats::Curtail => words(out, [b"curtail".as_slice()]),
        Stats::Detail(detail) => {
            words(out, [b"detail".as_slice()]);
            match detail {
                Detail::On => words(out, [b"on".as_slice()]),
                Detail::Off => words(out, [b"off".as_slice()]),
                Detail::Dump => words(out, [b"dump".as_slice()]),
                Detail::Usage => {}
            }
        }
        Stats::CacheDump { class, limit } => {
            words(out, [b"cachedump".as_slice()]);
            unsigned(out, class.into());
            unsigned(out, limit.into());
        }
        Stats::Other(text) => words(out, [text]),
    }
    end(out);
}

/// `shutdown`
pub fn shutdown(out: &mut Vec<u8>, mode: ShutdownMode, noreply: bool) {
    out.extend_from_slice(match mode {
        ShutdownMode::Plain => b"shutdown".as_slice(),
        ShutdownMode::Graceful => b"shutdown graceful".as_slice(),
        ShutdownMode::Invalid if noreply => b"shutdown".as_slice(),
        ShutdownMode::Invalid => b"shutdown ?".as_slice(),
    });
    end_noreply(out, noreply);
}

/// `quit`
pub fn quit(out: &mut Vec<u8>) {
    out.extend_from_slice(b"quit\r\n");
}

/// `mn`. Its reply follows the replies to all earlier requests.
pub fn meta_noop(out: &mut Vec<u8>) {
    out.extend_from_slice(b"mn\r\n");
}

/// `mg`. `flags` is the text of the flags, such as `v t`. Flag `b` is added if the key is base64,
/// and flag `O` if there is an `opaque`. The same holds for `md` and `ma`.
pub fn meta_get(out: &mut Vec<u8>, key: &MetaKey<'_>, flags: &[u8], opaque: Option<u64>) {
    out.extend_from_slice(b"mg");
    words(out, [key.raw]);
    end_meta(out, key, flags, opaque);
}

/// `ms` with its data block; see [`meta_get`].
pub fn meta_set(
    out: &mut Vec<u8>,
    key: &MetaKey<'_>,
    flags: &[u8],
    opaque: Option<u64>,
    value: &[u8],
) {
    meta_set_line(out, key, flags, opaque, value.len() as u64);
    out.extend_from_slice(value);
    end(out);
}

/// The line of an `ms`. The caller must append the value and a line end.
pub fn meta_set_line(
    out: &mut Vec<u8>,
    key: &MetaKey<'_>,
    flags: &[u8],
    opaque: Option<u64>,
    value_len: u64,
) {
    out.extend_from_slice(b"ms");
    words(out, [key.raw]);
    unsigned(out, value_len);
    end_meta(out, key, flags, opaque);
}

/// `md`; see [`meta_get`].
pub fn meta_delete(out: &mut Vec<u8>, key: &MetaKey<'_>, flags: &[u8], opaque: Option<u64>) {
    out.extend_from_slice(b"md");
    words(out, [key.raw]);
    end_meta(out, key, flags, opaque);
}

/// `ma`; see [`meta_get`].
pub fn meta_arith(out: &mut Vec<u8>, key: &MetaKey<'_>, flags: &[u8], opaque: Option<u64>) {
    out.extend_from_slice(b"ma");
    words(out, [key.raw]);
    end_meta(out, key, flags, opaque);
}

/// `me`
pub fn meta_debug(out: &mut Vec<u8>, key: &MetaKey<'_>) {
    out.extend_from_slice(b"me");
    words(out, [key.raw]);
    if key.base64 {
        // memcached 1.6.45 ignores a `b` that is the last flag.
        words(out, [b"b".as_slice(), b"b".as_slice()]);
    }
    end(out);
}

fn words<'k>(out: &mut Vec<u8>, words: impl IntoIterator<Item = &'k [u8]>) {
    for word in words {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

fn unsigned(out: &mut Vec<u8>, value: u64) {
    out.push(b' ');
    decimal::write(out, value);
}

fn signed(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(if value < 0 { b" -" } else { b" " });
    decimal::write(out, u64::from(value.unsigned_abs()));
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

fn end_noreply(out: &mut Vec<u8>, noreply: bool) {
    out.extend_from_slice(if noreply { b" noreply\r\n" } else { b"\r\n" });
}

fn end_meta(out: &mut Vec<u8>, key: &MetaKey<'_>, flags: &[u8], opaque: Option<u64>) {
    if key.base64 {
        out.extend_from_slice(b" b");
    }
    if !flags.is_empty() {
        words(out, [flags]);
    }
    if let Some(opaque) = opaque {
        out.extend_from_slice(b" O");
        decimal::write(out, opaque);
    }
    end(out);
}
