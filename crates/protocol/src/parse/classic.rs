//! The classic text commands.

use memchr::{memchr, memrchr};

use super::{ParseError, administration};
use crate::decimal;
use crate::limits::{KEY_MAX, KEYS_LINE_MAX, SLAB_CLASSES, VALUE_LEN_MAX};
use crate::word_end;
use crate::words::{self, Words};
use crate::{
    AfterKeys, Arith, ArithMode, Delete, Detail, FlushAll, Get, Keys, NextKeys, Parsed, Rejection,
    Request, Set, SetMode, ShutdownMode, Stats, Touch,
};

/// Longest line end in bytes: `\r\n`.
const LINE_END_MAX: usize = 2;

type Outcome<'a> = Result<Request<'a>, ParseError>;

/// Parses any classic command. `rest` is the line after its first `word`.
pub(super) fn command<'a>(word: &[u8], line: &'a [u8], rest: &'a [u8]) -> Outcome<'a> {
    match word {
        b"get" => get(rest, false),
        b"gets" => get(rest, true),
        b"gat" => get_and_touch(rest, false),
        b"gats" => get_and_touch(rest, true),
        b"set" => set(line, SetMode::Set, false),
        b"add" => set(line, SetMode::Add, false),
        b"replace" => set(line, SetMode::Replace, false),
        b"append" => set(line, SetMode::Append, false),
        b"prepend" => set(line, SetMode::Prepend, false),
        b"cas" => set(line, SetMode::Set, true),
        b"delete" => delete(line),
        b"incr" => arith(line, ArithMode::Increment),
        b"decr" => arith(line, ArithMode::Decrement),
        b"touch" => touch(line),
        b"version" => Ok(Request::Version),
        b"stats" => Ok(Request::Stats(stats(rest)?)),
        b"quit" => Ok(Request::Quit),
        _ => fallback(line),
    }
}

/// The fast path for the most common line, a `get` of one key: parses it in one pass. Returns the
/// request and the length of its line including the line end. None if `input` begins with any
/// other or an incomplete line.
pub(super) fn single_get(input: &[u8]) -> Option<(Request<'_>, usize)> {
    let text = input.strip_prefix(b"get ")?;
    let most = text.len().min(KEY_MAX + LINE_END_MAX);
    let at = word_end::find_either(&text[..most], b' ', b'\n')?;
    if text[at] != b'\n' {
        return None;
    }
    let key = &text[..at];
    let rest = key.strip_suffix(b"\r").unwrap_or(key);
    let is_single = (1..=KEY_MAX).contains(&rest.len());
    let get = Get {
        keys: Keys { rest, is_single },
        with_cas: false,
        exptime: None,
    };
    is_single.then(|| (Request::Get(get), input.len() - text.len() + at + 1))
}

/// `get` and `gets`. `rest` contains the keys.
pub(super) fn get(rest: &[u8], with_cas: bool) -> Outcome<'_> {
    let keys = checked_keys(rest)?;
    Ok(Request::Get(Get {
        keys,
        with_cas,
        exptime: None,
    }))
}

fn get_and_touch(mut rest: &[u8], with_cas: bool) -> Outcome<'_> {
    let exptime = words::next(&mut rest).ok_or(Rejection::BadFormat)?;
    if Keys::new(rest).next().is_none() {
        return Err(Rejection::BadFormat.into());
    }
    let exptime = decimal::signed_32(exptime).ok_or(Rejection::BadExptime)?;
    let keys = checked_keys(rest)?;
    Ok(Request::Get(Get {
        keys,
        with_cas,
        exptime: Some(exptime),
    }))
}

/// All keys of a line. One key that is too long rejects the whole line, as memcached drops the
/// items that it had found for the other keys.
fn checked_keys(rest: &[u8]) -> Result<Keys<'_>, Rejection> {
    if !rest.is_empty() && rest.len() <= KEY_MAX && word_end::find(rest, b' ').is_none() {
        let is_single = true;
        return Ok(Keys { rest, is_single });
    }
    let keys = Keys::new(rest);
    if keys.clone().next().is_none() {
        return Err(Rejection::BadFormat);
    }
    // Here `noreply` is a key like any other. memcached's behaviour with it after an error is not
    // defined.
    if keys.clone().any(|key| key.len() > KEY_MAX) {
        return Err(Rejection::BadGetKey);
    }
    Ok(keys)
}

/// Whether the line at the front of `input` is a list of keys, which may be longer than another.
pub(super) fn is_key_list(input: &[u8]) -> bool {
    let commands: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];
    commands.iter().any(|command| input.starts_with(command))
}

/// The front of a line of keys that is too long to be parsed in full: `front` has
/// [`KEYS_LINE_MAX`] bytes. An error closes the connection.
pub(super) fn long_get(front: &[u8]) -> Result<Parsed<'_>, Rejection> {
    let mut rest = front;
    let command = words::next(&mut rest).unwrap_or_default();
    let exptime = match command {
        b"gat" | b"gats" => {
            let word = words::next(&mut rest).filter(|_| !rest.is_empty());
            let word = word.ok_or(Rejection::BadFormat)?;
            Some(decimal::signed_32(word).ok_or(Rejection::BadExptime)?)
        }
        _ => None,
    };
    let keys = next_keys(rest).map_or(Keys::new(&[]), |next| next.keys);
    Ok(Parsed::LongGet {
        len: front.len() - rest.len() + keys.as_bytes().len(),
        get: Get {
            keys,
            with_cas: command.ends_with(b"s"),
            exptime,
        },
    })
}

/// The keys at the front of `input`, which is the rest of a line of keys that is longer than
/// [`KEYS_LINE_MAX`]. `None` if more input is needed.
///
/// How the input is split decides how many keys a call returns, but not which keys a line has.
#[must_use]
pub fn next_keys(input: &[u8]) -> Option<NextKeys<'_>> {
    let input = &input[..input.len().min(KEYS_LINE_MAX)];
    let (text, after) = match memchr(b'\n', input) {
        Some(at) => {
            let line = &input[..at];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line_end_len = (at + 1 - line.len()) as u8;
            (line, AfterKeys::LineEnd(line_end_len))
        }
        // The rest of the last word may not have arrived.
        None => match memrchr(b' ', input) {
            Some(at) => (&input[..=at], AfterKeys::More),
            // The last byte may be that of the line end.
            None if input.len() > KEY_MAX + 1 => (&[][..], AfterKeys::BadKey),
            None => return None,
        },
    };
    let mut keys = Keys::new(text);
    while let Some(key) = keys.next() {
        if key.len() > KEY_MAX {
            let good_len = text.len() - keys.as_bytes().len() - key.len();
            return Some(NextKeys {
                keys: Keys::new(&text[..good_len]),
                after: AfterKeys::BadKey,
            });
        }
    }
    let keys = Keys::new(text);
    Some(NextKeys { keys, after })
}

/// `<command> <key> <flags> <exptime> <bytes> [<cas>] [noreply]`
fn set(line: &[u8], mode: SetMode, with_cas: bool) -> Outcome<'_> {
    let words = Words::of(line);
    let value_len = value_len(words.at(4)).filter(|_| words.count >= 5);
    // Without a length the data block cannot be skipped. As in memcached, this error comes before
    // the check for `noreply`.
    let value_len = value_len.ok_or(Rejection::BadFormat)?;
    let noreply = words.noreply();
    let key = words.at(1);
    let flags = decimal::lenient_unsigned_32(words.at(2));
    let exptime = decimal::lenient_signed_32(words.at(3));
    let cas = if with_cas {
        cas(&words).map(Some)
    } else {
        Some(None)
    };
    match (flags, exptime, cas) {
        (Some(flags), Some(exptime), Some(cas)) if key.len() <= KEY_MAX => Ok(Request::Set(Set {
            key,
            flags,
            exptime,
            value_len,
            mode,
            cas,
            noreply,
        })),
        _ => Err(ParseError {
            rejection: Some(Rejection::BadFormat.silent_if(noreply)),
            swallow: u64::from(value_len) + 2,
        }),
    }
}

fn cas(words: &Words<'_>) -> Option<u64> {
    decimal::unsigned_64(words.at(5)).filter(|_| words.count >= 6)
}

/// The length of a data block.
pub(super) fn value_len(word: &[u8]) -> Option<u32> {
    decimal::signed_32(word)
        .and_then(|len| u32::try_from(len).ok())
        .filter(|&len| len <= VALUE_LEN_MAX)
}

/// The words of a line that has at least `count` of them and a valid key as the second.
fn words_with_key(line: &[u8], count: usize) -> Result<Words<'_>, Rejection> {
    let words = Words::of(line);
    if words.count < count {
        return Err(Rejection::BadFormat);
    }
    if words.at(1).len() > KEY_MAX {
        return Err(Rejection::BadFormat.silent_if(words.noreply()));
    }
    Ok(words)
}

fn delete(line: &[u8]) -> Outcome<'_> {
    let words = words_with_key(line, 2)?;
    Ok(Request::Delete(Delete {
        key: words.at(1),
        noreply: words.noreply(),
    }))
}

fn arith(line: &[u8], mode: ArithMode) -> Outcome<'_> {
    let words = words_with_key(line, 3)?;
    let (key, noreply) = (words.at(1), words.noreply());
    let delta =
        decimal::unsigned_64(words.at(2)).ok_or_else(|| Rejection::BadDelta.silent_if(noreply))?;
    Ok(Request::Arith(Arith {
        key,
        delta,
        mode,
        noreply,
    }))
}

fn touch(line: &[u8]) -> Outcome<'_> {
    let words = words_with_key(line, 3)?;
    let (key, noreply) = (words.at(1), words.noreply());
    let exptime =
        decimal::signed_32(words.at(2)).ok_or_else(|| Rejection::BadExptime.silent_if(noreply))?;
    Ok(Request::Touch(Touch {
        key,
        exptime,
        noreply,
    }))
}

/// The commands that memcached tries last. It finds them by word and not by the beginning of the
/// line, so only these may follow leading spaces.
pub(super) fn fallback(line: &[u8]) -> Outcome<'_> {
    let words = Words::of(line);
    let noreply = words.noreply();
    let outcome = match words.at(0) {
        b"flush_all" => flush_all(&words, noreply),
        b"verbosity" => verbosity(&words, noreply),
        b"cache_memlimit" => cache_memlimit(&words, noreply),
        b"shutdown" => Ok(Request::Shutdown {
            mode: shutdown_mode(&words),
            noreply,
        }),
        b"lru_crawler" => administration::crawler(&words),
        b"lru" => administration::lru(&words),
        b"slabs" => administration::slabs(&words),
        b"watch" => administration::watch(line),
        b"debugtime" => administration::debug_time(&words),
        b"prefix" => administration::prefix(&words),
        _ if words.is_http() => return Err(ParseError::fatal()),
        _ => Err(Rejection::Unknown),
    };
    Ok(outcome.map_err(|rejection| rejection.silent_if(noreply))?)
}

fn flush_all<'a>(words: &Words<'_>, noreply: bool) -> Result<Request<'a>, Rejection> {
    let exptime = if words.count == 1 + usize::from(noreply) {
        None
    } else {
        Some(decimal::signed_32(words.at(1)).ok_or(Rejection::BadExptime)?)
    };
    Ok(Request::FlushAll(FlushAll { exptime, noreply }))
}

fn verbosity<'a>(words: &Words<'_>, noreply: bool) -> Result<Request<'a>, Rejection> {
    let level = decimal::unsigned_32(words.at(1)).filter(|_| words.count > 1);
    Ok(Request::Verbosity {
        level: level.ok_or(Rejection::BadFormat)?,
        noreply,
    })
}

fn cache_memlimit<'a>(words: &Words<'_>, noreply: bool) -> Result<Request<'a>, Rejection> {
    let megabytes = decimal::unsigned_32(words.at(1)).filter(|_| words.count > 1);
    Ok(Request::CacheMemlimit {
        megabytes: megabytes.ok_or(Rejection::Unknown)?,
        noreply,
    })
}

/// Parses the arguments of `stats`. As in memcached, a prefix of `reset` or `settings` is enough.
fn stats(rest: &[u8]) -> Result<Stats<'_>, Rejection> {
    let mut arguments = rest;
    Ok(match words::next(&mut arguments) {
        None => Stats::General,
        Some(word) if b"reset".starts_with(word) => Stats::Reset,
        Some(word) if b"settings".starts_with(word) => Stats::Settings,
        Some(b"items") => Stats::Items,
        Some(b"slabs") => Stats::Slabs,
        Some(b"sizes") => Stats::Sizes,
        Some(b"hotkeys") => Stats::HotKeys,
        Some(b"latency") => Stats::Latency,
        Some(b"curtail") => Stats::Curtail,
        Some(word) if b"detail".starts_with(word) => Stats::Detail(detail(arguments)),
        Some(b"cachedump") => return cache_dump(arguments),
        Some(word) if b"conns".starts_with(word) => Stats::Connections,
        Some(_) => Stats::Other(trimmed(rest)),
    })
}

/// Here too, a beginning of the word is enough.
fn detail(mut rest: &[u8]) -> Detail {
    match words::next(&mut rest) {
        Some(word) if b"on".starts_with(word) => Detail::On,
        Some(word) if b"off".starts_with(word) => Detail::Off,
        Some(word) if b"dump".starts_with(word) => Detail::Dump,
        _ => Detail::Usage,
    }
}

fn shutdown_mode(words: &Words<'_>) -> ShutdownMode {
    match words.count {
        1 => ShutdownMode::Plain,
        2 if words.at(1) == b"graceful" => ShutdownMode::Graceful,
        _ => ShutdownMode::Invalid,
    }
}

fn cache_dump(mut rest: &[u8]) -> Result<Stats<'_>, Rejection> {
    let (class, limit) = (words::next(&mut rest), words::next(&mut rest));
    let (Some(class), Some(limit)) = (class, limit) else {
        return Err(Rejection::BadLine);
    };
    let class = decimal::unsigned_32(class).ok_or(Rejection::BadFormat)?;
    let limit = decimal::unsigned_32(limit).ok_or(Rejection::BadFormat)?;
    if class >= SLAB_CLASSES {
        return Err(Rejection::BadSlabId);
    }
    Ok(Stats::CacheDump { class, limit })
}

fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}
