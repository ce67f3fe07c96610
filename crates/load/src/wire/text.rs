//! The classic text protocol. Replies come in the order of the requests, so each reply answers the
//! oldest outstanding request.

use std::iter;

use protocol::client::{self, Malformed, Reply, ReplyKind, ReplyReader, Status};
use protocol::{Arith, ArithMode, Delete, Set, SetMode, Touch};
use workload::Op;

use super::{Answer, Encoding, Step, exists, not_found, not_stored};

#[inline]
pub(super) fn encode_get(out: &mut Vec<u8>, key: &[u8]) {
    client::get(out, iter::once(key), false);
}

pub(super) fn encode(out: &mut Vec<u8>, request: &Encoding<'_>) {
    let key = request.key;
    let exptime = request.ttl_s.cast_signed();
    match request.op {
        // The code here does not call `encode_get`, whose only caller is the loop that sends
        // gets. Therefore the compiler inlines `encode_get` into that loop.
        Op::Get | Op::MultiGet | Op::ReadThrough | Op::Head => {
            client::get(out, Some(key), false);
        }
        Op::Gets => client::get(out, Some(key), true),
        Op::GetAndTouch => client::get_and_touch(out, exptime, iter::once(key), false),
        Op::Touch => client::touch(
            out,
            &Touch {
                key,
                exptime,
                noreply: false,
            },
        ),
        Op::Delete => client::delete(
            out,
            &Delete {
                key,
                noreply: false,
            },
        ),
        Op::Increment => arith(out, key, ArithMode::Increment),
        Op::Decrement => arith(out, key, ArithMode::Decrement),
        Op::Set | Op::Fill | Op::Cas => store(out, request, SetMode::Set),
        Op::Add => store(out, request, SetMode::Add),
        Op::Replace => store(out, request, SetMode::Replace),
        Op::Append => store(out, request, SetMode::Append),
        Op::Prepend => store(out, request, SetMode::Prepend),
    }
}

#[inline]
pub(super) fn read(
    reader: &mut ReplyReader,
    input: &[u8],
    op: Op,
) -> Result<Step<Reply>, Malformed> {
    let kind = if op.reads() {
        ReplyKind::Values
    } else {
        ReplyKind::Line
    };
    let step = reader.advance(input, kind)?;
    Ok(Step {
        consumed: step.consumed,
        reply: step.reply,
    })
}

/// Appends the command line of an operation that stores a value.
#[inline]
fn store(out: &mut Vec<u8>, request: &Encoding<'_>, mode: SetMode) {
    let set = Set {
        key: request.key,
        flags: 0,
        exptime: request.ttl_s.cast_signed(),
        value_len: request.value_len as u32,
        mode,
        cas: (request.op == Op::Cas).then_some(request.cas),
        noreply: false,
    };
    client::set_line(out, &set);
}

/// Appends an `incr` or `decr` by 1.
fn arith(out: &mut Vec<u8>, key: &[u8], mode: ArithMode) {
    let arith = Arith {
        key,
        delta: 1,
        mode,
        noreply: false,
    };
    client::arith(out, &arith);
}

/// Returns the meaning of a reply to the operation `op`. A reply that `op` cannot have is an error.
#[inline]
pub(super) fn answer(reply: Reply, op: Op) -> Answer {
    match reply {
        Reply::Values { hits, .. } => Answer::found(hits.min(u16::MAX.into()) as u16),
        Reply::Status(status) => match status {
            Status::Stored if op.stores() => Answer::stored(),
            Status::Deleted if op == Op::Delete => Answer::found(1),
            Status::Touched if op == Op::Touch => Answer::found(1),
            Status::NotFound => not_found(op),
            Status::NotStored => not_stored(op),
            Status::Exists => exists(op),
            _ => Answer::ERROR,
        },
        Reply::Number(_) if op.counts() => Answer::found(1),
        _ => Answer::ERROR,
    }
}
