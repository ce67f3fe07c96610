//! Executing one request: the dispatch, and one file for each family of commands.

mod classic;
mod get;
mod meta;
mod set;

use protocol::limits::{MEMLIMIT_MAX_MB, MEMLIMIT_MIN_MB};
use protocol::{Detail, Request, ShutdownMode, Stats, reply};

pub(crate) use get::answer_keys;
pub(crate) use set::{publish_upload, reject_upload};

use crate::counters::Counter;
use crate::output::Output;
use crate::prepare::Prepared;
use crate::session::{Outcome, RequestContext, State};

/// The version reported to clients: the memcached release whose replies Curtail reproduces.
const VERSION: &[u8] = b"1.6.45";

/// Executes the request at the front of `input`.
pub(crate) fn request(
    request: &Request<'_>,
    prepared: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Outcome {
    let bytes = out.bytes_mut();
    match request {
        Request::Get(command) => return get::get(command, prepared, input, context, out),
        Request::Set(command) => return set::set(command, prepared, input, context, out),
        Request::MetaGet(command) => return meta::get(command, prepared, context, out),
        Request::MetaSet(command) => return set::meta_set(command, prepared, input, context, out),
        Request::MetaDelete(command) => return meta::delete(command, prepared, context, bytes),
        Request::MetaArith(command) => return meta::arith(command, prepared, context, bytes),
        Request::MetaDebug(key) => meta::debug(key, prepared.hash, context, bytes),
        Request::MetaNoop => bytes.extend_from_slice(reply::MN),
        Request::Delete(command) => classic::delete(command, prepared.hash, context, bytes),
        Request::Arith(command) => return classic::arith(command, prepared, context, bytes),
        Request::Touch(command) => return classic::touch(command, prepared, context, bytes),
        Request::FlushAll(command) => classic::flush_all(command, context, bytes),
        Request::Version => reply::version(bytes, VERSION),
        Request::Verbosity { level, noreply } => {
            context.control.set_verbosity(*level);
            push_reply(bytes, reply::OK, *noreply);
        }
        Request::CacheMemlimit { megabytes, noreply } => {
            push_reply(bytes, memory_limit(*megabytes, context), *noreply);
        }
        Request::Stats(which) => stats(*which, context, bytes),
        Request::Shutdown { mode, noreply } => {
            if let Some(answer) = shutdown(*mode, context) {
                push_reply(bytes, answer, *noreply);
            } else {
                return Outcome::then(prepared.line_len, State::Closed);
            }
        }
        Request::Watch => bytes.extend_from_slice(match context.control.permissions().watch {
            true => reply::ERROR,
            false => reply::WATCH_NOT_ALLOWED,
        }),
        Request::Quit => return Outcome::then(prepared.line_len, State::Closed),
    }
    Outcome::done(prepared.line_len)
}

/// Appends a reply, unless the client sent `noreply`.
fn push_reply(bytes: &mut Vec<u8>, reply: &[u8], noreply: bool) {
    if !noreply {
        bytes.extend_from_slice(reply);
    }
}

/// Changes the memory limit. Returns the reply.
fn memory_limit(megabytes: u32, context: &mut RequestContext<'_>) -> &'static [u8] {
    if megabytes < MEMLIMIT_MIN_MB {
        return reply::MEMLIMIT_TOO_SMALL;
    }
    if megabytes > MEMLIMIT_MAX_MB {
        return reply::MEMLIMIT_IN_BYTES;
    }
    if context.control.set_memory_limit(u64::from(megabytes) << 20) {
        reply::OK
    } else {
        reply::MEMLIMIT_FAILED
    }
}

fn stats(which: Stats<'_>, context: &mut RequestContext<'_>, bytes: &mut Vec<u8>) {
    match which {
        Stats::General => context.control.write_stats(context.now, bytes),
        Stats::Settings => context.control.write_settings(bytes),
        Stats::Reset => {
            context.control.reset_stats();
            bytes.extend_from_slice(reply::RESET);
            return;
        }
        Stats::HotKeys => hot_keys(context, bytes),
        Stats::CacheDump { .. } | Stats::Detail(_) if !context.control.permissions().dump => {
            bytes.extend_from_slice(match which {
                Stats::Detail(_) => reply::DETAIL_NOT_ALLOWED,
                _ => reply::CACHE_DUMP_NOT_ALLOWED,
            });
            return;
        }
        Stats::Detail(Detail::Dump) => context.control.write_prefixes(bytes),
        Stats::Detail(detail) => {
            bytes.extend_from_slice(match detail {
                Detail::Usage | Detail::Dump => reply::DETAIL_USAGE,
                Detail::On | Detail::Off => {
                    context.control.set_prefix_counting(detail == Detail::On);
                    reply::OK
                }
            });
            return;
        }
        // There are no slab classes, so every dump is empty.
        Stats::CacheDump { .. } => {}
        Stats::Other(_) => {
            bytes.extend_from_slice(reply::ERROR);
            return;
        }
    }
    bytes.extend_from_slice(reply::END);
}

/// Stops the server, or returns the error reply if it may not.
fn shutdown(mode: ShutdownMode, context: &mut RequestContext<'_>) -> Option<&'static [u8]> {
    if !context.control.permissions().shutdown {
        return Some(reply::SHUTDOWN_NOT_ENABLED);
    }
    match mode {
        ShutdownMode::Invalid => Some(reply::BAD_SHUTDOWN_MODE),
        ShutdownMode::Plain | ShutdownMode::Graceful => {
            context.control.stop();
            None
        }
    }
}

/// The most frequently read keys in descending order, encoded as by memcached's `lru_crawler
/// metadump`.
fn hot_keys(context: &mut RequestContext<'_>, bytes: &mut Vec<u8>) {
    let hot = context.worker.store().hot_keys();
    reply::stat_number(bytes, b"hotkeys:gets", hot.reads);
    for (at, key) in hot.keys.iter().enumerate() {
        let name = |what| format!("hotkeys:{}:{what}", at + 1).into_bytes();
        reply::stat(bytes, &name("key"), uri_encoded(&key.key).as_bytes());
        reply::stat_number(bytes, &name("gets"), key.reads);
        reply::stat_number(bytes, &name("gets_error_max"), key.overestimate);
    }
}

/// Percent-encodes `key` (RFC 3986, section 2.1), because a key that arrived in base64 may contain
/// line ends. Letters, digits and `-._~` stay as they are.
fn uri_encoded(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Counts a hit or a miss.
fn count_outcome(context: &mut RequestContext<'_>, hit: bool, hits: Counter, misses: Counter) {
    context.counters.count(if hit { hits } else { misses });
}
