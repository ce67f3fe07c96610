//! Answers to the meta commands. The flags of an answer stand in the order they were asked in,
//! and `t` shows what is true when its turn comes: before or behind the `T` that changes it.

use protocol::{MetaArith, MetaDelete, MetaFlag, MetaFlags, MetaGet, MetaKey, MetaSet, SetMode};

use super::{BAD_DATA_CHUNK, NON_NUMERIC, TOO_LARGE};
use crate::base64;
use crate::cache::{
    ArithOutcome, Arithmetic, Cache, DeleteOutcome, ITEM_OVERHEAD, Item, Mark, SetOutcome, Write,
    expiry,
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
        return unless(get.quiet, answer("EN", get.key, get.flags, |_| None));
    };
    let with_value = get.with_value && get.known_cas != Some(item.cas);
    let status = if with_value {
        format!("VA {}", item.value.len())
    } else {
        "HD".to_owned()
    };
    // One flag after the other, as memcached does.
    let mut line = status.into_bytes();
    let mut won = created;
    for flag in get.flags {
        let text = match flag.letter {
            b'T' => {
                item.expires_s = expiry(now_s, asked(flag));
                continue;
            }
            b'N' => {
                if created {
                    item.expires_s = expiry(now_s, asked(flag));
                }
                continue;
            }
            b'R' => {
                won |= !created && !item.token_sent && is_due(&item, now_s, flag);
                continue;
            }
            b't' => left(&item, now_s),
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
        // The first to see a stale item is asked to renew it.
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

/// Whether an item ends before the time that an `R` names.
fn is_due(item: &Item, now_s: u64, flag: MetaFlag<'_>) -> bool {
    match (item.expires_s, expiry(now_s, asked(flag))) {
        (Some(end_s), Some(before_s)) => end_s < before_s,
        _ => false,
    }
}

/// `me`. The size is memcached's; any other cache has its own.
pub(super) fn debug(cache: &mut Cache, now_s: u64, key: MetaKey<'_>) -> Vec<u8> {
    let key = decoded(key);
    let Some(item) = cache.get(now_s, &key) else {
        return b"EN\r\n".to_vec();
    };
    let facts = format!(
        " exp={} la={} cas={} fetch={} cls=1 size={}\r\n",
        left(item, now_s),
        now_s - item.accessed_s,
        item.cas,
        if item.fetched { "yes" } else { "no" },
        ITEM_OVERHEAD + key.len() + item.value.len(),
    );
    [b"ME ", &stored_key(&key, item).0[..], facts.as_bytes()].concat()
}

/// A key as it is shown, and whether that is base64: as it was stored, or because it would end the
/// line or the word.
fn stored_key(key: &[u8], item: &Item) -> (Vec<u8>, bool) {
    let is_base64 = item.base64_key || key.iter().any(|byte| b" \r\n".contains(byte));
    let text = if is_base64 {
        base64::encode(key)
    } else {
        key.to_vec()
    };
    (text, is_base64)
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
    unless(set.quiet && status == "HD", line)
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
    unless(delete.quiet && status == "HD", line)
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
    let status = if arith.with_value {
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
    if arith.with_value {
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
    item.remaining_s(now_s)
        .map_or("-1".to_owned(), |seconds| seconds.to_string())
}

/// The number of a `T`, `N` or `R`, which has been checked.
fn asked(flag: MetaFlag<'_>) -> i32 {
    let text = str::from_utf8(flag.token).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The seconds a `T` or `N` leaves.
fn asked_left(flag: MetaFlag<'_>, now_s: u64) -> String {
    expiry(now_s, asked(flag)).map_or("-1".to_owned(), |at_s| {
        at_s.saturating_sub(now_s).to_string()
    })
}

fn unless(quiet: bool, line: Vec<u8>) -> Vec<u8> {
    if quiet { Vec::new() } else { line }
}
