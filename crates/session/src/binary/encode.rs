//! Encoding of outcomes as frames of the binary protocol.

use protocol::binary::{Command, Status, reply, sasl};
use protocol::limits::COUNTER_MAX;
use protocol::{Rejection, SetMode, decimal};
use service::Output;

use super::BinaryEncoder;
use crate::control::StatWriter;
use crate::encode::{Encode, EncodedItem, push_value};
use crate::login::LoginOutcome;
use crate::outcome::{
    ArithOutcome, DeleteOutcome, FoundItem, Outcome, Restricted, ServerOutcome, StoreOutcome,
};
use crate::prefixes::PrefixSums;
use crate::text::TextEncoder;

impl Encode for BinaryEncoder {
    const VALUE_END: &'static [u8] = b"";

    // The request `touch` of this protocol is a read that omits the value. That is an option of a
    // read.
    const HAS_READ_OPTIONS: bool = true;

    type Stats<'o> = BinaryStats<'o>;

    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()> {
        let item = found.item;
        let key = if self.shows_key() { found.key } else { b"" };
        let fields = (item.cas(), item.flags());
        if !found.with_value {
            reply::found(out.bytes_mut(), self.head, fields, key, 0);
            return Some(());
        }
        let header = |bytes: &mut Vec<u8>| {
            reply::found(bytes, self.head, fields, key, item.value_len());
        };
        push_value(item, header, b"", out)
    }

    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>) {
        let error = match outcome {
            // The item was the reply, and has been written.
            Outcome::Read { found: true } => return,
            Outcome::Read { found: false } if self.head.opcode.is_quiet() => return,
            Outcome::Read { found: false } if self.shows_key() => {
                return reply::missed_key(out, self.head, key);
            }
            Outcome::Read { found: false } => Status::NotFound,
            Outcome::Store(StoreOutcome::Stored { cas, .. }) => return self.done(cas, out),
            Outcome::Store(outcome) => return self.not_stored(outcome, out),
            Outcome::Delete(outcome) => match outcome {
                DeleteOutcome::Done => return self.done(0, out),
                DeleteOutcome::NotFound => Status::NotFound,
                DeleteOutcome::Exists => Status::Exists,
                DeleteOutcome::NoMemory => Status::NoMemory,
            },
            Outcome::Arith(outcome) => match outcome {
                ArithOutcome::Counted { .. } if self.head.opcode.is_quiet() => return,
                ArithOutcome::Counted { value, cas, .. } => {
                    return reply::counted(out, self.head, cas, value);
                }
                ArithOutcome::NotFound => Status::NotFound,
                ArithOutcome::NotNumeric => Status::NotNumeric,
                ArithOutcome::Exists => Status::Exists,
                ArithOutcome::NoMemory => {
                    let text = reply::NO_MEMORY_TO_COUNT;
                    return reply::error_text(out, self.head, Status::NoMemory, text);
                }
            },
            Outcome::Server(ServerOutcome::Version(version)) => {
                return reply::text(out, self.head, version);
            }
            Outcome::Server(
                ServerOutcome::Done | ServerOutcome::StatsEnd | ServerOutcome::StatsReset,
            )
            | Outcome::Noop
            | Outcome::Quit => return self.done(0, out),
            Outcome::Server(ServerOutcome::NotAllowed(Restricted::Flush)) => Status::AuthError,
            // The other outcomes of commands to the server occur only for a `stat` request.
            Outcome::Server(_) => Status::NotFound,
            Outcome::Rejected(Rejection::Silent) => return,
            Outcome::Rejected(Rejection::Unknown) => Status::Unknown,
            Outcome::Rejected(Rejection::Unauthenticated) => Status::AuthError,
            Outcome::Rejected(_) => Status::Invalid,
            Outcome::Failed { reply } => return self.failed(reply, out),
            Outcome::Mechanisms => return reply::text(out, self.head, sasl::MECHANISMS),
            Outcome::Login(LoginOutcome::Accepted) => {
                return reply::text(out, self.head, sasl::AUTHENTICATED);
            }
            Outcome::Login(LoginOutcome::Continues) => Status::AuthContinue,
            Outcome::Login(LoginOutcome::Refused) => Status::AuthError,
            // No request of the binary protocol has these outcomes.
            Outcome::ReadMany | Outcome::Touch { .. } => Status::Internal,
        };
        reply::error(out, self.head, error);
    }

    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> BinaryStats<'o> {
        BinaryStats {
            opaque: self.head.opaque,
            out,
        }
    }

    /// Writes the counts as one statistic, whose value is the text of `stats detail dump`.
    fn prefixes(&self, sums: &PrefixSums, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        TextEncoder::default().prefixes(sums, &mut text);
        text.extend_from_slice(protocol::reply::END);
        reply::stat(out, self.head.opaque, b"detailed", &text);
    }
}

impl BinaryEncoder {
    /// Whether the reply to a read contains the key, for a hit and for a miss.
    fn shows_key(&self) -> bool {
        matches!(
            self.head.opcode.command(),
            Some((
                Command::Get { with_key: true } | Command::GetAndTouch { with_key: true },
                _
            ))
        )
    }

    /// Writes the reply to a command that succeeded, unless it is quiet.
    fn done(&self, cas: u64, out: &mut Vec<u8>) {
        if !self.head.opcode.is_quiet() {
            reply::done(out, self.head, cas);
        }
    }

    /// Writes the reply to a storage command that stored no value.
    fn not_stored(&self, outcome: StoreOutcome, out: &mut Vec<u8>) {
        let status = match outcome {
            StoreOutcome::NotStored { .. } => match self.head.opcode.command() {
                Some((Command::Set(SetMode::Add), _)) => Status::Exists,
                Some((Command::Set(SetMode::Replace), _)) => Status::NotFound,
                _ => Status::NotStored,
            },
            StoreOutcome::Exists { .. } => Status::Exists,
            StoreOutcome::NotFound { .. } => Status::NotFound,
            StoreOutcome::TooLarge => Status::TooLarge,
            StoreOutcome::NoMemory => {
                let text = reply::NO_MEMORY_TO_STORE;
                return reply::error_text(out, self.head, Status::NoMemory, text);
            }
            // Neither outcome comes here: in this protocol no line end follows a value, and the
            // caller has handled stored values.
            StoreOutcome::BadDataChunk | StoreOutcome::Stored { .. } => Status::Internal,
        };
        reply::error(out, self.head, status);
    }

    /// Writes an error of a memory pool. `line` is the reply of the text protocol.
    fn failed(&self, line: &[u8], out: &mut Vec<u8>) {
        if line == protocol::reply::NO_MEMORY {
            let text = reply::NO_MEMORY_TO_STORE;
            return reply::error_text(out, self.head, Status::NoMemory, text);
        }
        let line = line.strip_suffix(protocol::reply::LINE_END).unwrap_or(line);
        let (status, text) = if let Some(text) = line.strip_prefix(b"SERVER_ERROR ") {
            (Status::Internal, text)
        } else {
            let text = line.strip_prefix(b"CLIENT_ERROR ").unwrap_or(line);
            (Status::NotSupported, text)
        };
        reply::error_text(out, self.head, status, text);
    }
}

/// Writes each statistic as a frame.
#[derive(Debug)]
pub(crate) struct BinaryStats<'a> {
    opaque: u32,
    out: &'a mut Vec<u8>,
}

impl StatWriter for BinaryStats<'_> {
    fn number(&mut self, name: &[u8], value: u64) {
        self.text(name, decimal::render(value, &mut [0; COUNTER_MAX]));
    }

    fn text(&mut self, name: &[u8], value: &[u8]) {
        reply::stat(self.out, self.opaque, name, value);
    }
}

#[cfg(test)]
mod tests {
    use protocol::binary::reply::Reply;
    use protocol::binary::{Head, Opcode};

    use super::*;

    /// A failure that is an error line in the text protocol becomes a status and the text of that
    /// line. Quiet opcodes report it too. The page `docs/guide/migrate.md` lists the statuses.
    #[test]
    fn failure_is_a_status_with_the_text_of_the_line() {
        // The error line, and the expected status and text.
        let cases: [(&[u8], u16, &[u8]); 4] = [
            (b"SERVER_ERROR busy\r\n", 0x84, b"busy"),
            (b"CLIENT_ERROR not here\r\n", 0x83, b"not here"),
            (b"ERROR\r\n", 0x83, b"ERROR"),
            (
                protocol::reply::NO_MEMORY,
                0x82,
                b"Out of memory allocating item",
            ),
        ];
        // `set` and its quiet form.
        for opcode in [Opcode(0x01), Opcode(0x11)] {
            for (line, status, text) in cases {
                let head = Head { opcode, opaque: 7 };
                let mut out = Vec::new();
                BinaryEncoder { head }.failed(line, &mut out);
                let (reply, len) = Reply::read(&out).unwrap().unwrap();
                assert_eq!(len, out.len());
                assert_eq!((reply.header.status, reply.value), (status, text));
                assert_eq!(reply.header.head, head);
                assert_eq!(reply.header.cas, 0);
            }
        }
    }
}
