//! Replies to the classic commands.

use protocol::{Arith, Delete, Detail, FlushAll, Get, Set, SetMode, Stats, Touch};

use super::{BAD_DATA_CHUNK, NON_NUMERIC, TOO_LARGE, VERSION};
use crate::cache::{Arithmetic, ArithmeticOutcome, Cache, DeleteOutcome, SetOutcome, Write};

pub(super) fn get(cache: &mut Cache, now_s: u64, get: Get<'_>) -> Vec<u8> {
    let mut answer = items(cache, now_s, get);
    answer.extend_from_slice(b"END\r\n");
    answer
}

/// The items of a `get`, without the line after them.
pub(super) fn items(cache: &mut Cache, now_s: u64, get: Get<'_>) -> Vec<u8> {
    let mut answer = Vec::new();
    for key in get.keys {
        let found = match get.exptime {
            None => {
                cache.mark_fetched(now_s, key);
                cache.get(now_s, key).cloned()
            }
            Some(exptime) => cache.get_and_touch(now_s, key, exptime),
        };
        let Some(item) = found else { continue };
        answer.extend_from_slice(b"VALUE ");
        answer.extend_from_slice(key);
        answer.extend(format!(" {} {}", item.client_flags, item.value.len()).into_bytes());
        if get.with_cas {
            answer.extend(format!(" {}", item.cas).into_bytes());
        }
        answer.extend_from_slice(b"\r\n");
        answer.extend(item.value);
        answer.extend_from_slice(b"\r\n");
    }
    answer
}

/// The error for a value that exceeds the item size; none if it fits. The caller skips its data
/// block.
pub(super) fn too_large(cache: &mut Cache, now_s: u64, set: &Set<'_>) -> Option<&'static str> {
    if cache.fits(set.key, set.flags, set.value_len as usize) {
        return None;
    }
    // A client that fails to replace a value must not read the old one any more.
    if set.mode == SetMode::Set && set.cas.is_none() {
        cache.delete(now_s, set.key, None);
    }
    Some(if set.noreply { "" } else { TOO_LARGE })
}

/// `value` is none if no line end follows the data block.
pub(super) fn set(cache: &mut Cache, now_s: u64, set: &Set<'_>, value: Option<&[u8]>) -> Vec<u8> {
    let answer = value.map_or(BAD_DATA_CHUNK, |value| {
        let write = Write {
            client_flags: set.flags,
            exptime: set.exptime,
            compare: set.cas,
            ..Write::plain(set.mode, value)
        };
        match cache.set(now_s, set.key, &write) {
            SetOutcome::Stored { .. } => "STORED\r\n",
            SetOutcome::NotStored => "NOT_STORED\r\n",
            SetOutcome::Exists => "EXISTS\r\n",
            SetOutcome::NotFound => "NOT_FOUND\r\n",
        }
    });
    unless_noreply(set.noreply, answer)
}

pub(super) fn delete(cache: &mut Cache, now_s: u64, delete: &Delete<'_>) -> Vec<u8> {
    let answer = match cache.delete(now_s, delete.key, None) {
        DeleteOutcome::Deleted => "DELETED\r\n",
        _ => "NOT_FOUND\r\n",
    };
    unless_noreply(delete.noreply, answer)
}

pub(super) fn arith(cache: &mut Cache, now_s: u64, arith: &Arith<'_>) -> Vec<u8> {
    let change = Arithmetic {
        mode: arith.mode,
        delta: arith.delta,
        vivify: None,
        compare: None,
        explicit_cas: None,
    };
    match cache.arith(now_s, arith.key, &change) {
        ArithmeticOutcome::Done { number, .. } => {
            unless_noreply(arith.noreply, &format!("{number}\r\n"))
        }
        ArithmeticOutcome::NonNumeric => unless_noreply(arith.noreply, NON_NUMERIC),
        _ => unless_noreply(arith.noreply, "NOT_FOUND\r\n"),
    }
}

pub(super) fn touch(cache: &mut Cache, now_s: u64, touch: &Touch<'_>) -> Vec<u8> {
    let found = cache
        .get_and_touch(now_s, touch.key, touch.exptime)
        .is_some();
    unless_noreply(
        touch.noreply,
        if found {
            "TOUCHED\r\n"
        } else {
            "NOT_FOUND\r\n"
        },
    )
}

pub(super) fn flush_all(cache: &mut Cache, now_s: u64, flush: FlushAll) -> Vec<u8> {
    cache.flush_all(now_s, flush.exptime.unwrap_or(0));
    unless_noreply(flush.noreply, "OK\r\n")
}

/// The statistics of the model, which has no process.
pub(super) fn stats(cache: &mut Cache, now_s: u64, stats: Stats<'_>) -> Vec<u8> {
    match stats {
        Stats::General => format!(
            "STAT version {VERSION}\r\nSTAT curr_items {}\r\nEND\r\n",
            cache.len(now_s)
        ),
        Stats::Reset => "RESET\r\n".to_owned(),
        Stats::Settings => format!("STAT item_size_max {}\r\nEND\r\n", cache.item_size_max()),
        Stats::HotKeys => "STAT hotkeys:gets 0\r\nEND\r\n".to_owned(),
        Stats::Latency => "ERROR\r\n".to_owned(),
        Stats::Curtail => "END\r\n".to_owned(),
        // The model does not count by size.
        Stats::Items => "END\r\n".to_owned(),
        Stats::Slabs => "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n".to_owned(),
        Stats::Sizes => "STAT sizes_status disabled\r\nEND\r\n".to_owned(),
        Stats::Connections => "END\r\n".to_owned(),
        // The model does not count by prefix.
        Stats::Detail(Detail::On | Detail::Off) => "OK\r\n".to_owned(),
        Stats::Detail(Detail::Dump) => "END\r\n".to_owned(),
        Stats::Detail(Detail::Usage) => {
            "CLIENT_ERROR usage: stats detail on|off|dump\r\n".to_owned()
        }
        Stats::CacheDump { .. } => "END\r\n".to_owned(),
        Stats::Other(_) => "ERROR\r\n".to_owned(),
    }
    .into_bytes()
}

fn unless_noreply(noreply: bool, answer: &str) -> Vec<u8> {
    if noreply { "" } else { answer }.into()
}
