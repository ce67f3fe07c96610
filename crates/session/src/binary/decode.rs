//! Decoding of binary frames: converts a parsed request to a [`Prepared`] request.
//!
//! Times to live (`exptime`) are unsigned in this protocol, and signed in an [`Operation`].

use protocol::binary::{Arith, Get, Head, Parsed, Request, Set, Status, parse, stats};
use protocol::{Rejection, SetMode};
use store::Mode;

use super::BinaryEncoder;
use crate::lines::{direction, mode};
use crate::operation::{ArithOptions, Operation, ReadOptions, ServerCommand, StoreOptions, Vivify};
use crate::operation::{Key, WriteCas};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Encoder};

/// Decodes the first frame of `input` into `prepared`.
pub(crate) fn decode<'a>(input: &'a [u8], prepared: &mut Prepared<'a>) -> Decoded {
    match parse(input) {
        Parsed::Request {
            head,
            cas,
            request,
            len,
        } => valid_frame(head, cas, request, len, prepared),
        Parsed::Incomplete => Decoded::Incomplete {
            scanned: input.len(),
        },
        Parsed::Rejected {
            head,
            status,
            len,
            swallow,
        } => {
            // `swallow` is the number of bytes of the frame's body, which are skipped.
            let rejection = rejection(status);
            let operation = Operation::Reject { rejection, swallow };
            prepare(operation, b"", head, len, prepared);
            Decoded::Command { data_len: swallow }
        }
        Parsed::Fatal { head, status } => {
            // Without a status, the input is not a frame, and the connection closes without a
            // reply.
            let rejection = status.map_or(Rejection::Silent, rejection);
            let operation = Operation::RejectAndClose { rejection };
            prepare(operation, b"", head, 0, prepared);
            Decoded::LastCommand
        }
    }
}

/// Decodes a frame that the parser has accepted. Its header, extras (the fixed fields of the
/// command) and key have `len` bytes together. `cas` is the CAS in the header. If it is not zero,
/// the present item of the key must have this CAS.
fn valid_frame<'a>(
    head: Head,
    cas: u64,
    request: Request<'a>,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    let compare = Some(cas).filter(|&cas| cas != 0);
    let (operation, key, data_len): (_, &[u8], _) = match request {
        Request::Get(get) => (read_operation(&get), get.key, 0),
        Request::Set(set) => (store_operation(&set, compare), set.key, set.value_len),
        Request::Delete { key } => (Operation::Delete { compare }, key, 0),
        Request::Arith(arith) => (arith_operation(&arith, compare), arith.key, 0),
        Request::Flush { exptime } => {
            let exptime = exptime.map(signed_exptime);
            (Operation::Flush { exptime }, b"", 0)
        }
        Request::Stat { name } => {
            // `stats` looks up the statistics that the name means.
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

/// The operation of `get`, `getk`, `touch`, `gat` or `gatk`.
fn read_operation<'a>(get: &Get<'_>) -> Operation<'a> {
    // In this protocol a `touch` is a read too, because its reply shows the client flags and the
    // CAS of the item.
    Operation::Read(ReadOptions {
        with_value: get.with_value,
        ..ReadOptions::plain(get.exptime.map(signed_exptime))
    })
}

/// The operation of `set`, `add`, `replace`, `append` or `prepend`. `compare` is the CAS that the
/// present item must have.
fn store_operation<'a>(set: &Set<'_>, compare: Option<u64>) -> Operation<'a> {
    Operation::Store(StoreOptions {
        cas: WriteCas::new(compare, None),
        flags: set.flags,
        exptime: signed_exptime(set.exptime),
        value_len: set.value_len,
        // As in memcached, an `add` or a `replace` with a CAS is executed as a `set` with that CAS:
        // it stores the value if the present item has the CAS.
        mode: match (mode(set.mode), compare) {
            (Mode::Add | Mode::Replace, Some(_)) => Mode::Set,
            (mode, _) => mode,
        },
        invalidate: false,
        vivify: false,
        // As in memcached, only `set` deletes the old item if the new value cannot be stored.
        delete_old_if_rejected: set.mode == SetMode::Set,
    })
}

/// The operation of `incr` or `decr`. `compare` is the CAS that the present item must have.
fn arith_operation<'a>(arith: &Arith<'_>, compare: Option<u64>) -> Operation<'a> {
    Operation::Arith(ArithOptions {
        delta: arith.delta,
        cas: WriteCas::new(compare, None),
        initial: arith.initial,
        touch: None,
        // To vivify is to create a counter that is missing. No reply of this protocol shows
        // `reply_exptime`.
        vivify: arith.vivify.map(|exptime| Vivify {
            reply_exptime: signed_exptime(exptime),
            exptime: signed_exptime(exptime),
        }),
        direction: direction(arith.mode),
    })
}

/// Converts the time to live of a frame to that of an operation. In both, a number above thirty
/// days is not relative but a Unix time in seconds. A number above [`i32::MAX`] (a time after
/// January 2038) becomes [`i32::MAX`].
fn signed_exptime(exptime: u32) -> i32 {
    i32::try_from(exptime).unwrap_or(i32::MAX)
}

/// The rejection that the encoder writes as an error of this status. The parsers reject a frame
/// only with the status `Unknown`, `AuthError` or `Invalid`.
pub(crate) fn rejection(status: Status) -> Rejection {
    match status {
        Status::Unknown => Rejection::Unknown,
        Status::AuthError => Rejection::Unauthenticated,
        _ => Rejection::BadFormat,
    }
}

/// Writes the operation of a frame to `prepared`. `len` is the number of bytes of input that the
/// frame consumes, without a value and without a body to skip. It is 0 if the connection closes
/// because of the frame.
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
