//! The meta protocol. Every request has an opaque token, which its replies repeat.

use protocol::MetaKey;
use protocol::client::{self, Malformed, MetaResult, Reply, ReplyKind, ReplyReader};
use protocol::reply::MetaStatus;
use workload::Op;

use super::{Answer, Encoding, Outcome, Step, exists, not_found, not_stored};

#[inline]
pub(super) fn encode_get(out: &mut Vec<u8>, key: &[u8], opaque: u64) {
    let key = MetaKey {
        raw: key,
        base64: false,
    };
    client::meta_get(out, &key, b"v", Some(opaque));
}

pub(super) fn encode(out: &mut Vec<u8>, request: &Encoding<'_>) {
    let key = MetaKey {
        raw: request.key,
        base64: false,
    };
    let opaque = Some(request.opaque);
    let mut flags = Flags::EMPTY;
    match request.op {
        Op::Get | Op::MultiGet | Op::ReadThrough | Op::Head => {
            encode_get(out, request.key, request.opaque);
        }
        Op::Gets => client::meta_get(out, &key, b"v c", opaque),
        Op::GetAndTouch => {
            flags.word(b"v").number(b'T', request.ttl_s.into());
            client::meta_get(out, &key, flags.text(), opaque);
        }
        Op::Touch => {
            flags.number(b'T', request.ttl_s.into());
            client::meta_get(out, &key, flags.text(), opaque);
        }
        Op::Delete => client::meta_delete(out, &key, b"", opaque),
        Op::Increment => client::meta_arith(out, &key, b"", opaque),
        Op::Decrement => client::meta_arith(out, &key, b"MD", opaque),
        Op::Set | Op::Fill | Op::Add | Op::Replace | Op::Append | Op::Prepend | Op::Cas => {
            match request.op {
                Op::Add => _ = flags.word(b"ME"),
                Op::Replace => _ = flags.word(b"MR"),
                Op::Append => _ = flags.word(b"MA"),
                Op::Prepend => _ = flags.word(b"MP"),
                Op::Cas => _ = flags.number(b'C', request.cas),
                _ => {}
            }
            if request.ttl_s > 0 {
                flags.number(b'T', request.ttl_s.into());
            }
            let len = request.value_len as u64;
            client::meta_set_line(out, &key, flags.text(), opaque, len);
        }
    }
}

#[inline]
pub(super) fn read(reader: &mut ReplyReader, input: &[u8]) -> Result<Step<Reply>, Malformed> {
    let step = reader.advance(input, ReplyKind::Meta)?;
    Ok(Step {
        consumed: step.consumed,
        reply: step.reply,
    })
}

#[inline]
pub(super) fn answer(reply: Reply, op: Op) -> Option<Answer> {
    match reply {
        Reply::Meta { result, .. } => interpret(result, op),
        _ => Some(Answer::ERROR),
    }
}

/// Returns the meaning of a reply to a request with the operation `op`. None: the operation cannot
/// have this reply. The reply to a no-op, `MN`, is an error for every operation.
#[inline]
fn interpret(result: MetaResult, op: Op) -> Option<Answer> {
    let answer = match result {
        MetaResult::Value(_) if op.reads() => Answer::found(1),
        MetaResult::Status(MetaStatus::Miss) if op.reads() || op == Op::Touch => {
            Answer::without_hit(Outcome::Missed)
        }
        MetaResult::Status(MetaStatus::Done) if op.stores() => Answer::stored(),
        MetaResult::Status(MetaStatus::Done) if !op.reads() => Answer::found(1),
        MetaResult::Value(_) | MetaResult::Status(MetaStatus::Miss | MetaStatus::Done) => {
            return None;
        }
        MetaResult::Status(MetaStatus::NotFound) => not_found(op),
        MetaResult::Status(MetaStatus::NotStored) => not_stored(op),
        MetaResult::Status(MetaStatus::Exists) => exists(op),
        MetaResult::Noop => Answer::ERROR,
    };
    Some(answer)
}

/// The flags of a request as text, separated by spaces. Building them allocates no memory.
struct Flags {
    bytes: [u8; FLAGS_LEN_MAX],
    len: usize,
}

/// The capacity of [`Flags`]. The longest text has 30 bytes: `C` with 20 digits, a space, and `T`
/// with 7 digits, because a TTL is at most 30 days.
const FLAGS_LEN_MAX: usize = 32;

impl Flags {
    const EMPTY: Self = Self {
        bytes: [0; FLAGS_LEN_MAX],
        len: 0,
    };

    /// Appends a word, after a space if there is text before it.
    fn word(&mut self, word: &[u8]) -> &mut Self {
        if self.len > 0 {
            self.push(b" ");
        }
        self.push(word);
        self
    }

    /// Appends a flag letter and its number, such as `T300`.
    fn number(&mut self, letter: u8, number: u64) -> &mut Self {
        let mut digits = [0; 20];
        let mut start = digits.len();
        let mut rest = number;
        while rest > 0 || start == digits.len() {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.word(&[letter]);
        self.push(&digits[start..]);
        self
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
