//! Text commands as operations.

use protocol::{Arith, Delete, FlushAll, Get, Rejection, Set, ShutdownMode, Stats, Touch};
use store::Mode;

use super::Text;
use crate::lines::{data_len, direction, mode};
use crate::operation::{ArithOptions, Operation, ReadOptions, ServerCommand, StoreOptions};
use crate::operation::{Key, WriteCas};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Echo};

/// `get`, `gets`, `gat`, `gats`
#[inline(always)]
pub(crate) fn get<'a>(get: &Get<'a>, len: usize, into: &mut Prepared<'a>) -> Decoded {
    let echo = Text {
        noreply: false,
        with_cas: get.with_cas,
    };
    if let Some(key) = get.keys.single() {
        let operation = Operation::Read(ReadOptions::value(get.exptime));
        return command(operation, Key::plain(key), echo, len, 0, into);
    }
    let operation = Operation::ReadMany {
        keys: get.keys,
        touch: get.exptime,
    };
    let mut keys = get.keys;
    let first = keys.next().unwrap_or_default();
    command(operation, Key::plain(first), echo, len, 0, into)
}

/// `set`, `add`, `replace`, `append`, `prepend`, `cas`
#[inline]
pub(crate) fn set<'a>(set: &Set<'a>, len: usize, into: &mut Prepared<'a>) -> Decoded {
    let mode = mode(set.mode);
    let options = StoreOptions {
        cas: WriteCas::new(set.cas, None),
        flags: set.flags,
        exptime: set.exptime,
        value_len: set.value_len,
        mode,
        invalidate: false,
        vivify: false,
        deletes_unreplaced: mode == Mode::Set && set.cas.is_none(),
    };
    let echo = Text {
        noreply: set.noreply,
        with_cas: false,
    };
    let (operation, key) = (Operation::Store(options), Key::plain(set.key));
    command(operation, key, echo, len, data_len(set.value_len), into)
}

/// `delete`
pub(crate) fn delete<'a>(delete: &Delete<'a>, len: usize, into: &mut Prepared<'a>) -> Decoded {
    let operation = Operation::Delete { compare: None };
    with_noreply(operation, Key::plain(delete.key), delete.noreply, len, into)
}

/// `incr`, `decr`
pub(crate) fn arith<'a>(arith: &Arith<'a>, len: usize, into: &mut Prepared<'a>) -> Decoded {
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
        into,
    )
}

/// `touch`
pub(crate) fn touch<'a>(touch: &Touch<'a>, len: usize, into: &mut Prepared<'a>) -> Decoded {
    let exptime = touch.exptime;
    with_noreply(
        Operation::Touch { exptime },
        Key::plain(touch.key),
        touch.noreply,
        len,
        into,
    )
}

/// `flush_all`
pub(crate) fn flush_all(flush: &FlushAll, len: usize, into: &mut Prepared<'_>) -> Decoded {
    let exptime = flush.exptime;
    with_noreply(
        Operation::Flush { exptime },
        Key::NONE,
        flush.noreply,
        len,
        into,
    )
}

/// `version`
pub(crate) fn version(len: usize, into: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Version, false, len, into)
}

/// `verbosity`
pub(crate) fn verbosity(level: u32, noreply: bool, len: usize, into: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Verbosity(level), noreply, len, into)
}

/// `cache_memlimit`
pub(crate) fn cache_memlimit(
    megabytes: u32,
    noreply: bool,
    len: usize,
    into: &mut Prepared<'_>,
) -> Decoded {
    let command = ServerCommand::MemoryLimit { megabytes };
    server(command, noreply, len, into)
}

/// `stats`
pub(crate) fn stats<'a>(stats: Stats<'a>, len: usize, into: &mut Prepared<'a>) -> Decoded {
    server(ServerCommand::Stats(stats), false, len, into)
}

/// `shutdown`
pub(crate) fn shutdown(
    mode: ShutdownMode,
    noreply: bool,
    len: usize,
    into: &mut Prepared<'_>,
) -> Decoded {
    server(ServerCommand::Shutdown(mode), noreply, len, into)
}

/// `watch`
pub(crate) fn watch(len: usize, into: &mut Prepared<'_>) -> Decoded {
    server(ServerCommand::Watch, false, len, into)
}

/// `quit`, or a line that closes the connection.
pub(crate) fn quit(len: usize, into: &mut Prepared<'_>) -> Decoded {
    let echo = Echo::Text(Text::default());
    *into = Prepared::new(Operation::Quit, Key::NONE, echo, len);
    Decoded::Last
}

/// A line that is no command.
pub(crate) fn rejected(
    rejection: Rejection,
    swallow: u64,
    len: usize,
    into: &mut Prepared<'_>,
) -> Decoded {
    let operation = Operation::Reject { rejection, swallow };
    command(operation, Key::NONE, Text::default(), len, swallow, into)
}

fn server<'a>(
    server: ServerCommand<'a>,
    noreply: bool,
    len: usize,
    into: &mut Prepared<'a>,
) -> Decoded {
    with_noreply(Operation::Server(server), Key::NONE, noreply, len, into)
}

fn with_noreply<'a>(
    operation: Operation<'a>,
    key: Key<'a>,
    noreply: bool,
    len: usize,
    into: &mut Prepared<'a>,
) -> Decoded {
    let echo = Text {
        noreply,
        with_cas: false,
    };
    command(operation, key, echo, len, 0, into)
}

#[inline]
fn command<'a>(
    operation: Operation<'a>,
    key: Key<'a>,
    echo: Text,
    len: usize,
    data_len: u64,
    into: &mut Prepared<'a>,
) -> Decoded {
    *into = Prepared::new(operation, key, Echo::Text(echo), len);
    Decoded::Command { data_len }
}
