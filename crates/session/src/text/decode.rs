//! Decoding of text commands: converts a parsed command to a [`Prepared`] request.
//!
//! In every function, `len` is the length of the command line in bytes, including the line end. The
//! function writes the request to `prepared`.

use protocol::{
    Arith, Crawler, DebugTime, Delete, FlushAll, Get, PrefixCommand, Rejection, Set, ShutdownMode,
    Stats, Streams, Touch, Tuning,
};
use store::Mode;

use super::TextEncoder;
use crate::lines::{NO_DATA, data_len, direction, mode};
use crate::operation::{ArithOptions, Operation, ReadOptions, ServerCommand, StoreOptions};
use crate::operation::{Key, WriteCas};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Encoder};

/// Converts `get`, `gets`, `gat`, `gats`.
#[inline(always)]
pub(crate) fn get<'a>(get: &Get<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let encoder = TextEncoder {
        noreply: false,
        with_cas: get.with_cas,
    };
    if let Some(key) = get.keys.single() {
        let operation = Operation::Read(ReadOptions::plain(get.exptime));
        return command(operation, Key::plain(key), encoder, len, NO_DATA, prepared);
    }
    read_many(get, encoder, len, prepared)
}

/// Converts the front of a line of keys that is too long to be decoded in full.
#[cold]
pub(crate) fn long_get<'a>(get: &Get<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let encoder = TextEncoder {
        noreply: false,
        with_cas: get.with_cas,
    };
    read_many(get, encoder, len, prepared);
    Decoded::LastKnown
}

#[inline(always)]
fn read_many<'a>(
    get: &Get<'a>,
    encoder: TextEncoder,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    let operation = Operation::ReadMany {
        keys: get.keys,
        touch: get.exptime,
    };
    let mut keys = get.keys;
    let first = Key::plain(keys.next().unwrap_or_default());
    command(operation, first, encoder, len, NO_DATA, prepared)
}

/// Converts `set`, `add`, `replace`, `append`, `prepend`, `cas`.
#[inline]
pub(crate) fn set<'a>(set: &Set<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let mode = mode(set.mode);
    let options = StoreOptions {
        cas: WriteCas::new(set.cas, None),
        flags: set.flags,
        exptime: set.exptime,
        value_len: set.value_len,
        mode,
        invalidate: false,
        vivify: false,
        // `mode` is `Set` for both `set` and `cas`. As in memcached, only `set` deletes the old
        // item.
        delete_old_if_rejected: mode == Mode::Set && set.cas.is_none(),
    };
    let encoder = TextEncoder {
        noreply: set.noreply,
        with_cas: false,
    };
    let (operation, key) = (Operation::Store(options), Key::plain(set.key));
    command(
        operation,
        key,
        encoder,
        len,
        data_len(set.value_len),
        prepared,
    )
}

/// Converts `delete`.
pub(crate) fn delete<'a>(delete: &Delete<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let operation = Operation::Delete { compare: None };
    with_noreply(
        operation,
        Key::plain(delete.key),
        delete.noreply,
        len,
        prepared,
    )
}

/// Converts `incr`, `decr`.
pub(crate) fn arith<'a>(arith: &Arith<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let options = ArithOptions {
        delta: arith.delta,
        cas: WriteCas::NEXT,
        initial: 0,
        touch: None,
        vivify: None,
        direction: direction(arith.mode),
    };
    with_noreply(
        Operation::Arith(options),
        Key::plain(arith.key),
        arith.noreply,
        len,
        prepared,
    )
}

/// Converts `touch`.
pub(crate) fn touch<'a>(touch: &Touch<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let exptime = touch.exptime;
    with_noreply(
        Operation::Touch { exptime },
        Key::plain(touch.key),
        touch.noreply,
        len,
        prepared,
    )
}

/// Converts `flush_all`.
pub(crate) fn flush_all(flush: &FlushAll, len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    let exptime = flush.exptime;
    with_noreply(
        Operation::Flush { exptime },
        Key::NONE,
        flush.noreply,
        len,
        prepared,
    )
}

/// Converts `version`.
pub(crate) fn version(len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Version, false, len, prepared)
}

/// Converts `verbosity`.
pub(crate) fn verbosity(
    level: u32,
    noreply: bool,
    len: usize,
    prepared: &mut Prepared<'_>,
) -> Decoded {
    server(ServerCommand::Verbosity(level), noreply, len, prepared)
}

/// Converts `cache_memlimit`.
pub(crate) fn cache_memlimit(
    megabytes: u32,
    noreply: bool,
    len: usize,
    prepared: &mut Prepared<'_>,
) -> Decoded {
    let command = ServerCommand::MemoryLimit { megabytes };
    server(command, noreply, len, prepared)
}

/// Converts `stats`.
pub(crate) fn stats<'a>(stats: Stats<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    server(ServerCommand::Stats(stats), false, len, prepared)
}

/// Converts `shutdown`.
pub(crate) fn shutdown(
    mode: ShutdownMode,
    noreply: bool,
    len: usize,
    prepared: &mut Prepared<'_>,
) -> Decoded {
    server(ServerCommand::Shutdown(mode), noreply, len, prepared)
}

/// Converts `watch`.
pub(crate) fn watch(streams: Streams, len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Watch(streams), false, len, prepared)
}

/// Converts `lru_crawler`.
pub(crate) fn crawler(crawler: Crawler, len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Crawler(crawler), false, len, prepared)
}

/// Converts `lru`, `slabs`.
pub(crate) fn tune(tuning: Tuning, len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Tune(tuning), false, len, prepared)
}

/// Converts `debugtime`.
pub(crate) fn debug_time(change: DebugTime, len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::DebugTime(change), false, len, prepared)
}

/// Converts `prefix`.
pub(crate) fn prefix<'a>(
    command: PrefixCommand<'a>,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    server(ServerCommand::Prefix(command), false, len, prepared)
}

/// Converts `quit`.
pub(crate) fn quit(len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    last(Operation::Quit, len, prepared)
}

/// Converts input in which the next command line cannot be found. The connection closes after
/// this reply.
pub(crate) fn fatal(rejection: Rejection, prepared: &mut Prepared<'_>) -> Decoded {
    last(Operation::RejectAndClose { rejection }, 0, prepared)
}

/// Writes to `prepared` a command that closes the connection.
fn last<'a>(operation: Operation<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let encoder = Encoder::Text(TextEncoder::default());
    *prepared = Prepared::new(operation, Key::NONE, encoder, len);
    Decoded::LastCommand
}

/// Converts a line that is not a valid command. `swallow` is the number of bytes to skip after the
/// line, because they are the value of an invalid storage command.
pub(crate) fn rejected(
    rejection: Rejection,
    swallow: u64,
    len: usize,
    prepared: &mut Prepared<'_>,
) -> Decoded {
    let operation = Operation::Reject { rejection, swallow };
    command(
        operation,
        Key::NONE,
        TextEncoder::default(),
        len,
        swallow,
        prepared,
    )
}

/// Writes to `prepared` a [`ServerCommand`], which has no key. `noreply` is false for commands that
/// do not have this option.
fn server<'a>(
    server: ServerCommand<'a>,
    noreply: bool,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    with_noreply(Operation::Server(server), Key::NONE, noreply, len, prepared)
}

/// Writes to `prepared` a command without a value. Of the options of [`TextEncoder`], the command
/// can have only `noreply`.
fn with_noreply<'a>(
    operation: Operation<'a>,
    key: Key<'a>,
    noreply: bool,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    let encoder = TextEncoder {
        noreply,
        with_cas: false,
    };
    command(operation, key, encoder, len, NO_DATA, prepared)
}

/// Writes a command to `prepared`. `data_len` is the number of bytes between the command's line and
/// the next command.
#[inline]
fn command<'a>(
    operation: Operation<'a>,
    key: Key<'a>,
    encoder: TextEncoder,
    len: usize,
    data_len: u64,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    *prepared = Prepared::new(operation, key, Encoder::Text(encoder), len);
    Decoded::Command { data_len }
}
