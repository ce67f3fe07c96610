//! Answers to the meta commands. The flags of an answer stand in the order they were asked in,
//! and `t` shows what is true when its turn comes: before or behind the `T` that changes it.

use protocol::{MetaArith, MetaDelete, MetaFlag, MetaFlags, MetaGet, MetaKey, MetaSet};

use super::{BAD_DATA_CHUNK, NON_NUMERIC, TOO_LARGE};
use crate::base64;
use crate::cache::{
    ArithOutcome, Arithmetic, Cache, DeleteOutcome, Item, SetOutcome, Store, expiry,
};

pub(super) fn get(cache: &mut Cache, now_s: u64, get: &MetaGet<'_>) -> Vec<u8> {
    let key = decoded(get.key);
    let Some(item) = cache.get(now_s, &key).cloned() else {
        return unless(get.quiet, answer("EN", get.key, get.flags, |_| None));
    };
    let with_value = get.value && get.unless != Some(item.cas);
    let status = if with_value {
        format!("VA {}", item.value.len())
    } else {
        "HD".to_owned()
    };
    let mut left = left(&item, now_s);
    let mut line = answer(&status, get.key, get.flags, |flag| match flag.letter {
        b'T' => {
            left = asked_left(flag, now_s);
            None
        }
        b't' => Some(left.clone()),
        b's' => Some(item.value.len().to_string()),
        b'c' => Some(item.cas.to_string()),
        b'f' => Some(item.client_flags.to_string()),
        _ => None,
    });
    if let Some(exptime) = get.touch {
        cache.touch(now_s, &key, exptime);
    }
    line.truncate(line.len() - 2);
    line.extend_from_slice(match (item.token_sent, item.stale) {
        (false, false) => b"",
        (true, false) => b" Z",
        (true, true) => b" Z X",
        // The first to see a stale item is asked to renew it.
        (false, true) => b" X W",
    });
    if item.stale {
        cache.mark_token_sent(now_s, &key);
    }
    line.extend_from_slice(b"\r\n");
    if with_value {
        line.extend(item.value);
        line.extend_from_slice(b"\r\n");
    }
    line
}

/// What a value too large is told before its data block is dropped.
pub(super) fn too_large(cache: &mut Cache, now_s: u64, set: &MetaSet<'_>) -> Option<&'static str> {
    let key = decoded(set.key);
    if cache.fits(&key, set.client_flags, set.value_len as usize) {
        return None;
    }
    cache.delete(now_s, &key, None);
    Some(TOO_LARGE)
}

/// `value` is none if the data block did not end as it has to.
pub(super) fn set(
    cache: &mut Cache,
    now_s: u64,
    set: &MetaSet<'_>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let Some(value) = value else {
        return BAD_DATA_CHUNK.into();
    };
    let store = Store {
        mode: set.mode,
        value,
        client_flags: set.client_flags,
        exptime: set.exptime,
        compare: set.compare,
        explicit_cas: set.explicit_cas,
        invalidate: set.invalidate,
    };
    let outcome = cache.set(now_s, &decoded(set.key), &store);
    let (status, cas, value_len) = match outcome {
        SetOutcome::Stored { cas, value_len } => ("HD", cas, value_len),
        SetOutcome::NotStored => ("NS", 0, value.len()),
        SetOutcome::Exists => ("EX", 0, value.len()),
        SetOutcome::NotFound => ("NF", 0, value.len()),
    };
    let line = answer(status, set.key, set.flags, |flag| match flag.letter {
        b'c' => Some(cas.to_string()),
        b's' => Some(value_len.to_string()),
        _ => None,
    });
    unless(set.quiet && status == "HD", line)
}

pub(super) fn delete(cache: &mut Cache, now_s: u64, delete: &MetaDelete<'_>) -> Vec<u8> {
    let status = match cache.delete(now_s, &decoded(delete.key), delete.compare) {
        DeleteOutcome::Deleted => "HD",
        DeleteOutcome::NotFound => "NF",
        DeleteOutcome::Exists => "EX",
    };
    let line = answer(status, delete.key, delete.flags, |_| None);
    unless(delete.quiet && status == "HD", line)
}

pub(super) fn arith(cache: &mut Cache, now_s: u64, arith: &MetaArith<'_>) -> Vec<u8> {
    let key = decoded(arith.key);
    let before = cache.get(now_s, &key).cloned();
    let change = Arithmetic {
        mode: arith.mode,
        delta: arith.delta,
        vivify: arith.vivify.map(|exptime| (arith.initial, exptime)),
        compare: arith.compare,
        explicit_cas: arith.explicit_cas,
    };
    let (number, cas, created) = match cache.arith(now_s, &key, &change) {
        ArithOutcome::Done {
            number,
            cas,
            created,
        } => (number.to_string(), cas, created),
        ArithOutcome::NotFound => return answer("NF", arith.key, arith.flags, |_| None),
        ArithOutcome::Exists => return answer("EX", arith.key, arith.flags, |_| None),
        ArithOutcome::NonNumeric => return NON_NUMERIC.into(),
    };
    if let Some(exptime) = arith.touch.filter(|_| !created) {
        cache.touch(now_s, &key, exptime);
    }
    let status = if arith.value {
        format!("VA {}", number.len())
    } else {
        "HD".to_owned()
    };
    let mut left = before.map_or("-1".to_owned(), |item| left(&item, now_s));
    let mut line = answer(&status, arith.key, arith.flags, |flag| match flag.letter {
        b'T' => {
            left = asked_left(flag, now_s);
            None
        }
        b'N' if created => {
            left = asked_left(flag, now_s);
            None
        }
        b't' => Some(left.clone()),
        b'c' => Some(cas.to_string()),
        _ => None,
    });
    if arith.value {
        line.extend(format!("{number}\r\n").into_bytes());
    }
    unless(arith.quiet, line)
}

/// A status and what the flags ask for: `echo` says which answer with a number.
fn answer(
    status: &str,
    key: MetaKey<'_>,
    flags: MetaFlags<'_>,
    mut echo: impl FnMut(MetaFlag<'_>) -> Option<String>,
) -> Vec<u8> {
    let mut line = status.as_bytes().to_vec();
    for flag in flags {
        let text = match flag.letter {
            b'O' => flag.token.to_vec(),
            b'k' if key.base64 => [&base64::encode(&base64::decode(key.raw)), &b" b"[..]].concat(),
            b'k' => key.raw.to_vec(),
            _ => match echo(flag) {
                Some(text) => text.into_bytes(),
                None => continue,
            },
        };
        line.extend([b' ', flag.letter]);
        line.extend(text);
    }
    line.extend_from_slice(b"\r\n");
    line
}

fn decoded(key: MetaKey<'_>) -> Vec<u8> {
    if key.base64 {
        base64::decode(key.raw)
    } else {
        key.raw.to_vec()
    }
}

fn left(item: &Item, now_s: u64) -> String {
    item.left_s(now_s)
        .map_or("-1".to_owned(), |seconds| seconds.to_string())
}

/// The seconds a `T` or `N` leaves; its number has been checked.
fn asked_left(flag: MetaFlag<'_>, now_s: u64) -> String {
    let exptime = str::from_utf8(flag.token)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    expiry(now_s, exptime).map_or("-1".to_owned(), |at_s| {
        at_s.saturating_sub(now_s).to_string()
    })
}

fn unless(quiet: bool, line: Vec<u8>) -> Vec<u8> {
    if quiet { Vec::new() } else { line }
}
