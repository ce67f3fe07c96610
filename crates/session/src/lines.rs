//! Decoding of command lines: the grammar that the text and the meta protocol share. One connection
//! may mix text and meta commands.

use protocol::{ArithMode, Parsed, Request, SetMode, parse};
use store::{Direction, Mode};

use crate::prepare::Prepared;
use crate::protocols::Decoded;
use crate::{meta, text};

/// The line end that a client sends after a value.
pub(crate) const VALUE_END: &[u8] = b"\r\n";

/// Decodes the command line at the front of `input` into `prepared`. An earlier call found that the
/// first `scanned` bytes do not contain a line end.
pub(crate) fn decode<'a>(input: &'a [u8], scanned: usize, prepared: &mut Prepared<'a>) -> Decoded {
    match parse(input, scanned) {
        Parsed::Request { request, len } => match &request {
            Request::Get(get) => text::decode::get(get, len, prepared),
            Request::Set(set) => text::decode::set(set, len, prepared),
            Request::MetaGet(get) => meta::decode::get(get, len, prepared),
            Request::MetaSet(set) => meta::decode::set(set, len, prepared),
            Request::Delete(delete) => text::decode::delete(delete, len, prepared),
            Request::Arith(arith) => text::decode::arith(arith, len, prepared),
            Request::Touch(touch) => text::decode::touch(touch, len, prepared),
            Request::MetaDelete(delete) => meta::decode::delete(delete, len, prepared),
            Request::MetaArith(arith) => meta::decode::arith(arith, len, prepared),
            Request::MetaDebug(key) => meta::decode::debug(key, len, prepared),
            Request::MetaNoop => meta::decode::noop(len, prepared),
            Request::FlushAll(flush) => text::decode::flush_all(flush, len, prepared),
            Request::Version => text::decode::version(len, prepared),
            Request::Verbosity { level, noreply } => {
                text::decode::verbosity(*level, *noreply, len, prepared)
            }
            Request::CacheMemlimit { megabytes, noreply } => {
                text::decode::cache_memlimit(*megabytes, *noreply, len, prepared)
            }
            Request::Stats(stats) => text::decode::stats(*stats, len, prepared),
            Request::Shutdown { mode, noreply } => {
                text::decode::shutdown(*mode, *noreply, len, prepared)
            }
            Request::Watch(streams) => text::decode::watch(*streams, len, prepared),
            Request::Crawler(crawler) => text::decode::crawler(*crawler, len, prepared),
            Request::Tune(tuning) => text::decode::tune(*tuning, len, prepared),
            Request::DebugTime(change) => text::decode::debug_time(*change, len, prepared),
            Request::Prefix(command) => text::decode::prefix(*command, len, prepared),
            Request::Quit => text::decode::quit(len, prepared),
        },
        Parsed::Incomplete { scanned } => Decoded::Incomplete { scanned },
        // `swallow` is the number of bytes to skip after the line: the value of an invalid storage
        // command.
        Parsed::Rejected {
            rejection,
            len,
            swallow,
        } => text::decode::rejected(rejection, swallow, len, prepared),
        Parsed::LongGet { get, len } => text::decode::long_get(&get, len, prepared),
        Parsed::Fatal { rejection } => text::decode::fatal(rejection, prepared),
    }
}

/// The [`data_len`] of a command that no value follows.
pub(crate) const NO_DATA: u64 = 0;

/// Returns the number of bytes between the command line of a storage command (`set`, `ms`, …) and
/// the next command line: the value and its line end.
#[inline]
pub(crate) fn data_len(value_len: u32) -> u64 {
    u64::from(value_len) + VALUE_END.len() as u64
}

/// Converts the mode of a storage command to the store's type.
pub(crate) fn mode(mode: SetMode) -> Mode {
    match mode {
        SetMode::Set => Mode::Set,
        SetMode::Add => Mode::Add,
        SetMode::Replace => Mode::Replace,
        SetMode::Append => Mode::Append,
        SetMode::Prepend => Mode::Prepend,
    }
}

/// Converts the mode of an arithmetic command to the store's type.
pub(crate) fn direction(mode: ArithMode) -> Direction {
    match mode {
        ArithMode::Increment => Direction::Up,
        ArithMode::Decrement => Direction::Down,
    }
}
