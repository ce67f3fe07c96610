//! Encoding of replies in the binary protocol: found items, and outcomes of operations.

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

/// The CAS of a reply that shows no item.
const NO_CAS: u64 = 0;

impl Encode for BinaryEncoder {
    // The frame contains the length of the value, and nothing follows the value.
    const VALUE_END: &'static [u8] = b"";

    // The request `touch` of this protocol is executed as a read with an option: without the value.
    const HAS_READ_OPTIONS: bool = true;

    type Stats<'o> = BinaryStats<'o>;

    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()> {
        let item = found.item;
        let key = if self.shows_key() { found.key } else { b"" };
        let cas_and_flags = (item.cas(), item.flags());
        if !found.with_value {
            let value_len = 0;
            reply::found(out.bytes_mut(), self.head, cas_and_flags, key, value_len);
            return Some(());
        }
        let header = |bytes: &mut Vec<u8>| {
            reply::found(bytes, self.head, cas_and_flags, key, item.value_len());
        };
        push_value(item, header, b"", out)
    }

    fn outcome(&self, key: &[u8], outcome: Outcome, out: &mut Vec<u8>) {
        let error = match outcome {
            // `item` has written the complete reply.
            Outcome::Read { found: true } => return,
            Outcome::Read { found: false } if self.head.opcode.is_quiet() => return,
            // The reply to a miss contains the key if the reply to a hit would contain it.
            Outcome::Read { found: false } if self.shows_key() => {
                return reply::missed_key(out, self.head, key);
            }
            Outcome::Read { found: false } => Status::NotFound,
            Outcome::Store(StoreOutcome::Stored { cas, .. }) => return self.done(cas, out),
            Outcome::Store(outcome) => return self.not_stored(outcome, out),
            Outcome::Delete(outcome) => match outcome {
                DeleteOutcome::Done => return self.done(NO_CAS, out),
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
            | Outcome::Quit => return self.done(NO_CAS, out),
            Outcome::Server(ServerOutcome::NotAllowed(Restricted::Flush)) => Status::AuthError,
            // In this protocol, the other outcomes of commands to the server are refusals of a
            // `stat`.
            Outcome::Server(_) => Status::NotFound,
            Outcome::Rejected(Rejection::Silent) => return,
            Outcome::Rejected(Rejection::Unknown) => Status::Unknown,
            Outcome::Rejected(Rejection::Unauthenticated) => Status::AuthError,
            Outcome::Rejected(_) => Status::Invalid,
            Outcome::Failed { reply: line } => return self.pool_error(line, out),
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

    /// Writes the counts of accesses by key prefix as one statistic. Its value is the complete
    /// reply of the text protocol to `stats detail dump`.
    fn prefixes(&self, sums: &PrefixSums, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        TextEncoder::default().prefixes(sums, &mut text);
        text.extend_from_slice(protocol::reply::END);
        reply::stat(out, self.head.opaque, b"detailed", &text);
    }
}

impl BinaryEncoder {
    /// Whether the request is a read whose reply contains the key.
    fn shows_key(&self) -> bool {
        matches!(
            self.head.opcode.command(),
            Some((
                Command::Get { with_key: true } | Command::GetAndTouch { with_key: true },
                _
            ))
        )
    }

    /// Writes the reply to a command that succeeded. `cas` is the CAS of the item that the command
    /// wrote, or [`NO_CAS`]. A quiet command has no such reply.
    fn done(&self, cas: u64, out: &mut Vec<u8>) {
        if !self.head.opcode.is_quiet() {
            reply::done(out, self.head, cas);
        }
    }

    /// Writes the error of a storage command that did not store its value.
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
            // Both are impossible here: a bad data chunk is a value without its line end, which
            // this protocol does not have, and the caller has handled `Stored`.
            StoreOutcome::BadDataChunk | StoreOutcome::Stored { .. } => Status::Internal,
        };
        reply::error(out, self.head, status);
    }

    /// Writes an error of a memory pool. `line` is the error line of the text protocol.
    fn pool_error(&self, line: &[u8], out: &mut Vec<u8>) {
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

/// Writes each statistic as a frame of its own.
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

    /// The page `docs/guide/migrate.md` lists the statuses for the errors of a memory pool. A quiet
    /// request is answered too, because a quiet opcode leaves out only the reply to a success.
    #[test]
    fn error_of_a_memory_pool_is_a_status_and_the_text_of_the_error_line() {
        // The error line, and the expected status and text. The statuses are 0x82 (no memory),
        // 0x83 (not supported) and 0x84 (internal error).
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
        let (set, quiet_set) = (Opcode(0x01), Opcode(0x11));
        for opcode in [set, quiet_set] {
            for (line, status, text) in cases {
                let head = Head { opcode, opaque: 7 };
                let mut out = Vec::new();
                BinaryEncoder { head }.pool_error(line, &mut out);
                let (reply, len) = Reply::read(&out).unwrap().unwrap();
                assert_eq!(len, out.len());
                assert_eq!((reply.header.status, reply.value), (status, text));
                assert_eq!(reply.header.head, head);
                assert_eq!(reply.header.cas, 0);
            }
        }
    }
}
