//! Replies to the meta commands. Return flags have the order of the request, and so `t` shows the
//! time to live before or after a `T` of the same request, depending on their order.

use protocol::{MetaArith, MetaDelete, MetaFlag, MetaFlags, MetaGet, MetaKey, MetaSet, SetMode};

use super::administration;
use super::{BAD_DATA_CHUNK, NON_NUMERIC, TOO_LARGE};
use crate::base64;
use crate::cache::{
    Arithmetic, ArithmeticOutcome, Cache, DeleteOutcome, Item, Mark, SetOutcome, Write, expiry,
    item_len,
};

pub(super) fn get(cache: &mut Cache, now_s: u64, get: &MetaGet<'_>) -> Vec<u8> {
    let key = decoded(get.key);
    let created = cache.get(now_s, &key).is_none() && get.vivify.is_some();
    if created {
        let write = Write {
            explicit_cas: get.explicit_cas,
            ..Write::plain(SetMode::Add, b"")
        };
        cache.set(now_s, &key, &write);
    }
    let Some(mut item) = cache.get(now_s, &key).cloned() else {
        return unless_quiet(get.quiet, answer("EN", get.key, get.flags, |_| None));
    };
    let with_value = get.with_value && get.known_cas != Some(item.cas);
    let status = if with_value {
        format!("VA {}", item.value.len())
    } else {
        "HD".to_owned()
    };
    // The flags take effect one after the other, as in memcached.
    let mut line = status.into_bytes();
    let mut won = created;
    for flag in get.flags {
        let text = match flag.letter {
            b'T' => {
                item.expires_s = expiry(now_s, token_number(flag));
                continue;
            }
            b'N' => {
                if created {
                    item.expires_s = expiry(now_s, token_number(flag));
                }
                continue;
            }
            b'R' => {
                won |= !created && !item.token_sent && is_due(&item, now_s, flag);
                continue;
            }
            b't' => ttl(&item, now_s),
            b's' => item.value.len().to_string(),
            b'c' => item.cas.to_string(),
            b'f' => item.client_flags.to_string(),
            b'h' => u8::from(item.fetched).to_string(),
            b'l' => (now_s - item.accessed_s).to_string(),
            b'O' => {
                line.extend([b" O", flag.token].concat());
                continue;
            }
            b'k' => {
                let (text, is_base64) = stored_key(&key, &item);
                line.extend([b" k".to_vec(), text].concat());
                if is_base64 {
                    line.extend_from_slice(b" b");
                }
                continue;
            }
            _ => continue,
        };
        line.extend([b' ', flag.letter]);
        line.extend(text.into_bytes());
    }
    if item.token_sent {
        line.extend_from_slice(b" Z");
    }
    if item.stale {
        line.extend_from_slice(b" X");
        // The first client that reads a stale item gets the recache token.
        won |= !item.token_sent;
    }
    if won {
        line.extend_from_slice(b" W");
        cache.mark_token_sent(now_s, &key);
    }
    if !get.no_bump {
        cache.mark_fetched(now_s, &key);
    }
    cache.expire_at(now_s, &key, item.expires_s);
    line.extend_from_slice(b"\r\n");
    if with_value {
        line.extend(item.value);
        line.extend_from_slice(b"\r\n");
    }
    line
}

/// Whether an item expires before the time given by an `R`.
fn is_due(item: &Item, now_s: u64, flag: MetaFlag<'_>) -> bool {
    match (item.expires_s, expiry(now_s, token_number(flag))) {
        (Some(end_s), Some(before_s)) => end_s < before_s,
        _ => false,
    }
}

/// `me`. The size is memcached's; other caches differ.
pub(super) fn debug(cache: &mut Cache, now_s: u64, key: MetaKey<'_>) -> Vec<u8> {
    let key = decoded(key);
    let Some(item) = cache.get(now_s, &key) else {
        return b"EN\r\n".to_vec();
    };
    let size = item_len(&key, item.client_flags, item.value.len());
    let fields = format!(
        " exp={} la={} cas={} fetch={} cls={} size={size}\r\n",
        ttl(item, now_s),
        now_s - item.accessed_s,
        item.cas,
        if item.fetched { "yes" } else { "no" },
        administration::class_of(size),
    );
    [b"ME ", &stored_key(&key, item).0[..], fields.as_bytes()].concat()
}

/// The text of a key in a reply, and whether it is base64: either because it was stored so, or
/// because the key contains a space or a line end.
pub(super) fn stored_key(key: &[u8], item: &Item) -> (Vec<u8>, bool) {
    let is_base64 = item.base64_key || key.iter().any(|byte| b" \r\n".contains(byte));
    let text = if is_base64 {
        base64::encode(key)
    } else {
        key.to_vec()
    };
    (text, is_base64)
}

/// The error for a value that exceeds the item size; none if it fits. The caller skips its data
/// block.
pub(super) fn too_large(cache: &mut Cache, now_s: u64, set: &MetaSet<'_>) -> Option<&'static str> {
    let key = decoded(set.key);
    if cache.fits(&key, set.client_flags, set.value_len as usize) {
        return None;
    }
    cache.delete(now_s, &key, None);
    Some(TOO_LARGE)
}

/// `value` is none if no line end follows the data block.
pub(super) fn set(
    cache: &mut Cache,
    now_s: u64,
    set: &MetaSet<'_>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let Some(value) = value else {
        return BAD_DATA_CHUNK.into();
    };
    let write = Write {
        mode: set.mode,
        value,
        client_flags: set.client_flags,
        exptime: set.exptime,
        compare: set.compare,
        explicit_cas: set.explicit_cas,
        invalidate: set.invalidate,
        vivify: set.vivify,
        base64_key: set.key.base64,
    };
    let outcome = cache.set(now_s, &decoded(set.key), &write);
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
    unless_quiet(set.quiet && status == "HD", line)
}

pub(super) fn delete(cache: &mut Cache, now_s: u64, delete: &MetaDelete<'_>) -> Vec<u8> {
    let key = decoded(delete.key);
    let outcome = if delete.invalidate || delete.remove_value {
        let mark = Mark {
            compare: delete.compare,
            explicit_cas: delete.explicit_cas,
            invalidate: delete.invalidate,
            empty: delete.remove_value.then_some(delete.client_flags),
            exptime: delete.touch,
        };
        cache.mark(now_s, &key, &mark)
    } else {
        cache.delete(now_s, &key, delete.compare)
    };
    let status = match outcome {
        DeleteOutcome::Deleted => "HD",
        DeleteOutcome::NotFound => "NF",
        DeleteOutcome::Exists => "EX",
    };
    let line = answer(status, delete.key, delete.flags, |_| None);
    unless_quiet(delete.quiet && status == "HD", line)
}

pub(super) fn arith(cache: &mut Cache, now_s: u64, arith: &MetaArith<'_>) -> Vec<u8> {
    let key = decoded(arith.key);
    let before = cache.get(now_s, &key).cloned();
    let change = Arithmetic {
        mode: arith.mode,
        delta: arith.delta,
        vivify: arith
            .vivify
            .map(|vivify| (arith.initial, vivify.final_exptime)),
        compare: arith.compare,
        explicit_cas: arith.explicit_cas,
    };
    let (number, cas, created) = match cache.arith(now_s, &key, &change) {
        ArithmeticOutcome::Done {
            number,
            cas,
            created,
        } => (number.to_string(), cas, created),
        ArithmeticOutcome::NotFound => return answer("NF", arith.key, arith.flags, |_| None),
        ArithmeticOutcome::Exists => return answer("EX", arith.key, arith.flags, |_| None),
        ArithmeticOutcome::NonNumeric => return NON_NUMERIC.into(),
    };
    if let Some(exptime) = arith.touch.filter(|_| !created) {
        cache.touch(now_s, &key, exptime);
    }
    let status = if arith.with_value {
        format!("VA {}", number.len())
    } else {
        "HD".to_owned()
    };
    let mut ttl_text = before.map_or("-1".to_owned(), |item| ttl(&item, now_s));
    let mut line = answer(&status, arith.key, arith.flags, |flag| match flag.letter {
        b'T' => {
            ttl_text = token_ttl(flag, now_s);
            None
        }
        b'N' if created => {
            ttl_text = token_ttl(flag, now_s);
            None
        }
        b't' => Some(ttl_text.clone()),
        b'c' => Some(cas.to_string()),
        _ => None,
    });
    if arith.with_value {
        line.extend(format!("{number}\r\n").into_bytes());
    }
    unless_quiet(arith.quiet, line)
}

/// Writes a status and the return flags. `echo` gives the number of a flag that has one.
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

fn ttl(item: &Item, now_s: u64) -> String {
    item.remaining_s(now_s)
        .map_or("-1".to_owned(), |seconds| seconds.to_string())
}

/// The number of a `T`, `N` or `R`, which the parser has checked.
fn token_number(flag: MetaFlag<'_>) -> i32 {
    let text = str::from_utf8(flag.token).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The seconds left after a `T` or `N`.
fn token_ttl(flag: MetaFlag<'_>, now_s: u64) -> String {
    expiry(now_s, token_number(flag)).map_or("-1".to_owned(), |at_s| {
        at_s.saturating_sub(now_s).to_string()
    })
}

fn unless_quiet(quiet: bool, line: Vec<u8>) -> Vec<u8> {
    if quiet { Vec::new() } else { line }
}
