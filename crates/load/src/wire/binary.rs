//! The binary protocol. Its field `opaque` is always 0, because a request's opaque token has 64
//! bits and the field only 32. Each reply answers the oldest outstanding request.

use protocol::binary::{
    Arith, Get, Head, Header, Opcode, REPLY_MAGIC, Request, Set, Status, write,
};
use protocol::client::Malformed;
use protocol::limits::BINARY_HEADER_LEN;
use protocol::{ArithMode, SetMode};
use workload::Op;

use super::{Answer, Encoding, Outcome, Step, exists, not_found, not_stored};

/// The reply that is being read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    header: [u8; BINARY_HEADER_LEN],
    /// The number of bytes of the header that have arrived.
    header_len: usize,
    /// The number of bytes of the body that have arrived.
    body_len: u32,
    /// The CAS number of the last complete reply.
    pub(super) cas: u64,
}

/// The opcode and the status of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    opcode: Opcode,
    status: u16,
}

impl Reader {
    #[inline]
    pub(super) fn read(&mut self, input: &[u8]) -> Result<Step<Reply>, Malformed> {
        let (header, consumed) = self.advance(input)?;
        let reply = header.map(|header| Reply {
            opcode: header.head.opcode,
            status: header.status,
        });
        Ok(Step { consumed, reply })
    }

    /// Adds the bytes at the front of `input` to the reply. Returns the reply's header if the reply
    /// is now complete, and the number of bytes that were added.
    fn advance(&mut self, input: &[u8]) -> Result<(Option<Header>, usize), Malformed> {
        let missing = BINARY_HEADER_LEN - self.header_len;
        let mut consumed = missing.min(input.len());
        let end = self.header_len + consumed;
        self.header[self.header_len..end].copy_from_slice(&input[..consumed]);
        self.header_len = end;
        if self.header_len > 0 && self.header[0] != REPLY_MAGIC {
            return Err(Malformed::Frame);
        }
        if self.header_len < BINARY_HEADER_LEN {
            return Ok((None, consumed));
        }
        let header = Header::read(&self.header);
        let rest = header.body_len.saturating_sub(self.body_len) as usize;
        let body = rest.min(input.len() - consumed);
        consumed += body;
        self.body_len += body as u32;
        if self.body_len < header.body_len {
            return Ok((None, consumed));
        }
        (self.header_len, self.body_len, self.cas) = (0, 0, header.cas);
        Ok((Some(header), consumed))
    }
}

impl Reply {
    #[inline]
    pub(super) fn answer(self, op: Op) -> Option<Answer> {
        (self.opcode == opcode(op)).then(|| interpret(self.status, op))
    }
}

#[inline]
pub(super) fn encode_get(out: &mut Vec<u8>, key: &[u8]) {
    write(out, head(Op::Get), 0, &get(key, Op::Get, None));
}

pub(super) fn encode(out: &mut Vec<u8>, request: &Encoding<'_>) {
    let &Encoding { op, key, .. } = request;
    let frame = match op {
        Op::Get | Op::MultiGet | Op::ReadThrough | Op::Head | Op::Gets => get(key, op, None),
        Op::GetAndTouch | Op::Touch => get(key, op, Some(request.ttl_s)),
        Op::Delete => Request::Delete { key },
        Op::Increment => arith(key, ArithMode::Increment),
        Op::Decrement => arith(key, ArithMode::Decrement),
        Op::Set | Op::Fill | Op::Cas => store(request, SetMode::Set),
        Op::Add => store(request, SetMode::Add),
        Op::Replace => store(request, SetMode::Replace),
        Op::Append => store(request, SetMode::Append),
        Op::Prepend => store(request, SetMode::Prepend),
    };
    let cas = if op == Op::Cas { request.cas } else { 0 };
    write(out, head(op), cas, &frame);
}

const fn opcode(op: Op) -> Opcode {
    Opcode(match op {
        Op::Get | Op::MultiGet | Op::ReadThrough | Op::Head | Op::Gets => 0x00,
        Op::Set | Op::Fill | Op::Cas => 0x01,
        Op::Add => 0x02,
        Op::Replace => 0x03,
        Op::Delete => 0x04,
        Op::Increment => 0x05,
        Op::Decrement => 0x06,
        Op::Append => 0x0e,
        Op::Prepend => 0x0f,
        Op::Touch => 0x1c,
        Op::GetAndTouch => 0x1d,
    })
}

const fn head(op: Op) -> Head {
    Head {
        opcode: opcode(op),
        opaque: 0,
    }
}

/// Returns a get or, if `exptime` (a TTL) is given, a get-and-touch or touch that sets this TTL.
/// The reply to a touch has no value.
#[inline]
fn get(key: &[u8], op: Op, exptime: Option<u32>) -> Request<'_> {
    Request::Get(Get {
        key,
        exptime,
        with_key: false,
        with_value: op != Op::Touch,
    })
}

/// Returns the request that stores a value.
fn store<'a>(request: &Encoding<'a>, mode: SetMode) -> Request<'a> {
    Request::Set(Set {
        key: request.key,
        mode,
        flags: 0,
        exptime: request.ttl_s,
        value_len: request.value_len as u32,
    })
}

/// Returns the request that adds 1 to an existing counter, or subtracts 1 from it.
fn arith(key: &[u8], mode: ArithMode) -> Request<'_> {
    Request::Arith(Arith {
        key,
        mode,
        delta: 1,
        initial: 0,
        vivify: None,
    })
}

/// Returns the meaning of a reply's status for a request with the operation `op`.
#[inline]
fn interpret(status: u16, op: Op) -> Answer {
    const OK: u16 = Status::Ok as u16;
    const NOT_FOUND: u16 = Status::NotFound as u16;
    const EXISTS: u16 = Status::Exists as u16;
    const NOT_STORED: u16 = Status::NotStored as u16;
    match status {
        OK if op.stores() => Answer::stored(),
        OK => Answer::found(1),
        NOT_FOUND => not_found(op),
        EXISTS if op == Op::Add => Answer::without_hit(Outcome::Conflicted),
        EXISTS => exists(op),
        NOT_STORED => not_stored(op),
        _ => Answer::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use protocol::binary::reply;

    use super::*;

    /// Reads replies that arrive in pieces of `piece_len` bytes.
    fn read_all(input: &[u8], piece_len: usize) -> Vec<Reply> {
        let mut reader = Reader::default();
        let mut replies = Vec::new();
        for mut piece in input.chunks(piece_len) {
            while !piece.is_empty() {
                let step = reader.read(piece).unwrap();
                piece = &piece[step.consumed..];
                replies.extend(step.reply);
            }
        }
        replies
    }

    #[test]
    fn replies_do_not_depend_on_how_the_input_is_divided() {
        let mut input = Vec::new();
        let (cas, client_flags, no_key, value) = (7, 0, b"", b"value");
        let head_of_get = head(Op::Get);
        reply::found(
            &mut input,
            head_of_get,
            (cas, client_flags),
            no_key,
            value.len(),
        );
        input.extend_from_slice(value);
        reply::error(&mut input, head(Op::Get), Status::NotFound);
        reply::done(&mut input, head(Op::Set), cas);
        let reply = |op, status| Reply {
            opcode: opcode(op),
            status,
        };
        let expected = [reply(Op::Get, 0), reply(Op::Get, 1), reply(Op::Set, 0)];
        for piece_len in 1..=input.len() {
            assert_eq!(read_all(&input, piece_len), expected, "{piece_len}");
        }
        assert!(Reader::default().read(b"VALUE").is_err());
    }

    #[test]
    fn status_and_operation_determine_the_answer() {
        let answer = |op, status: Status| {
            let reply = Reply {
                opcode: opcode(op),
                status: status as u16,
            };
            reply.answer(op).map(|it| it.outcome)
        };
        for (op, status, outcome) in [
            (Op::Get, Status::Ok, Outcome::Found),
            (Op::Get, Status::NotFound, Outcome::Missed),
            (Op::Set, Status::Ok, Outcome::Stored),
            (Op::Set, Status::NoMemory, Outcome::Error),
            (Op::Add, Status::Exists, Outcome::Conflicted),
            (Op::Cas, Status::Exists, Outcome::Conflicted),
            (Op::Replace, Status::NotFound, Outcome::Missed),
            (Op::Append, Status::NotStored, Outcome::Missed),
            (Op::Delete, Status::NotFound, Outcome::Missed),
            (Op::Increment, Status::Ok, Outcome::Found),
            (Op::Increment, Status::NotNumeric, Outcome::Error),
            (Op::Get, Status::AuthError, Outcome::Error),
        ] {
            assert_eq!(answer(op, status), Some(outcome), "{op:?} {status:?}");
        }
        let other = Reply {
            opcode: opcode(Op::Set),
            status: 0,
        };
        assert_eq!(other.answer(Op::Get), None);
    }
}
