//! Decoding of binary frames: converts a parsed request to a [`Prepared`] request.

use protocol::binary::{Arith, Get, Head, Parsed, Request, Set, Status, parse, stats};
use protocol::{Rejection, SetMode};
use store::Mode;

use super::BinaryEncoder;
use crate::lines::{direction, mode};
use crate::operation::{ArithOptions, Operation, ReadOptions, ServerCommand, StoreOptions, Vivify};
use crate::operation::{Key, WriteCas};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Encoder};

/// Decodes the frame at the front of `input` into `prepared`.
pub(crate) fn decode<'a>(input: &'a [u8], prepared: &mut Prepared<'a>) -> Decoded {
    match parse(input) {
        Parsed::Request {
            head,
            cas,
            request,
            len,
        } => command(head, cas, request, len, prepared),
        Parsed::Incomplete => Decoded::Incomplete {
            scanned: input.len(),
        },
        Parsed::Rejected {
            head,
            status,
            len,
            swallow,
        } => {
            let rejection = rejection(status);
            let operation = Operation::Reject { rejection, swallow };
            prepare(operation, b"", head, len, prepared);
            Decoded::Command { data_len: swallow }
        }
        Parsed::Fatal { head, status } => {
            let rejection = status.map_or(Rejection::Silent, rejection);
            let operation = Operation::RejectAndClose { rejection };
            prepare(operation, b"", head, 0, prepared);
            Decoded::LastCommand
        }
    }
}

/// Decodes a valid frame, whose header, extras and key have `len` bytes.
fn command<'a>(
    head: Head,
    cas: u64,
    request: Request<'a>,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    // A CAS of zero means that the item may have any CAS.
    let compare = Some(cas).filter(|&cas| cas != 0);
    let (operation, key, data_len): (_, &[u8], _) = match request {
        Request::Get(get) => (read(&get), get.key, 0),
        Request::Set(set) => (store(&set, compare), set.key, set.value_len),
        Request::Delete { key } => (Operation::Delete { compare }, key, 0),
        Request::Arith(arith) => (count(&arith, compare), arith.key, 0),
        Request::Flush { exptime } => {
            let exptime = exptime.map(time);
            (Operation::Flush { exptime }, b"", 0)
        }
        Request::Stat { name } => {
            let command = ServerCommand::Stats(stats(name));
            (Operation::Server(command), b"", 0)
        }
        Request::Version => (Operation::Server(ServerCommand::Version), b"", 0),
        Request::Noop => (Operation::Noop, b"", 0),
        Request::Quit => {
            prepare(Operation::Quit, b"", head, len, prepared);
            return Decoded::LastCommand;
        }
    };
    prepare(operation, key, head, len, prepared);
    Decoded::Command {
        data_len: data_len.into(),
    }
}

/// Converts `get`, `getk`, `touch`, `gat`, `gatk`.
fn read<'a>(get: &Get<'_>) -> Operation<'a> {
    // A `touch` is a read too: its reply shows the client flags and the CAS.
    Operation::Read(ReadOptions {
        with_value: get.with_value,
        ..ReadOptions::plain(get.exptime.map(time))
    })
}

/// Converts `set`, `add`, `replace`, `append`, `prepend`.
fn store<'a>(set: &Set<'_>, compare: Option<u64>) -> Operation<'a> {
    Operation::Store(StoreOptions {
        cas: WriteCas::new(compare, None),
        flags: set.flags,
        exptime: time(set.exptime),
        value_len: set.value_len,
        // As in memcached, `add` and `replace` with a CAS are executed as sets that compare the
        // CAS.
        mode: match (mode(set.mode), compare) {
            (Mode::Add | Mode::Replace, Some(_)) => Mode::Set,
            (mode, _) => mode,
        },
        invalidate: false,
        vivify: false,
        delete_old_if_rejected: set.mode == SetMode::Set,
    })
}

/// Converts `incr`, `decr`.
fn count<'a>(arith: &Arith<'_>, compare: Option<u64>) -> Operation<'a> {
    Operation::Arith(ArithOptions {
        delta: arith.delta,
        cas: WriteCas::new(compare, None),
        initial: arith.initial,
        touch: None,
        vivify: arith.vivify.map(|exptime| Vivify {
            reply_exptime: time(exptime),
            exptime: time(exptime),
        }),
        direction: direction(arith.mode),
    })
}

/// Converts a time to live. A number above [`i32::MAX`] is a Unix time after January 2038, and
/// becomes [`i32::MAX`].
fn time(exptime: u32) -> i32 {
    i32::try_from(exptime).unwrap_or(i32::MAX)
}

/// The rejection whose reply has this status.
pub(crate) fn rejection(status: Status) -> Rejection {
    match status {
        Status::Unknown => Rejection::Unknown,
        Status::AuthError => Rejection::Unauthenticated,
        _ => Rejection::BadFormat,
    }
}

/// Fills `prepared` with the operation of a frame. `len` is the number of bytes that have been
/// decoded, without those of a value.
pub(crate) fn prepare<'a>(
    operation: Operation<'a>,
    key: &'a [u8],
    head: Head,
    len: usize,
    prepared: &mut Prepared<'a>,
) {
    let encoder = Encoder::Binary(BinaryEncoder { head });
    *prepared = Prepared::new(operation, Key::plain(key), encoder, len);
}
