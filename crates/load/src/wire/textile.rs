//! The protocol textile, from the multithreaded-cache study akosik/TextileCache (2016), files
//! `client.c`, `tcp.c` and `udp.c`. Requests and answers are text that ends with a NUL byte.
//!
//! | operation | over | request | answer |
//! |---|---|---|---|
//! | get | UDP | `GET /KEY` | `{ "key" : "KEY", "val" : "VALUE" }`; the value is `NULL` on a miss |
//! | set | TCP | `PUT /KEY/VALUE` | `Value set in cache.` and a line end |
//! | delete | TCP | `DELETE /KEY` | `Value deleted.` and a line end, also if there was no such key |
//!
//! Nothing is escaped, so a stored value `NULL` cannot be told from a miss. The values of this
//! generator consist of lower-case letters, so they are never `NULL`. An answer does not state its
//! length. So if a datagram in its middle is lost, the answer is accepted with a shorter value.
//!
//! The carrier chooses between UDP and TCP ([`crate::carrier::PerOperation`]).

use protocol::client::Malformed;
use workload::Op;
use workload::limits::KEY_LEN_MAX;

use super::{Answer, Encoding, Step};
use crate::limits::TEXTILE_ANSWER_LEN_MAX;

const BEFORE_KEY: &[u8] = br#"{ "key" : ""#;
const BEFORE_VALUE: &[u8] = br#"", "val" : ""#;
const AFTER_VALUE: &[u8] = br#"" }"#;
/// The value of a miss.
const NO_VALUE: &[u8] = b"NULL";
const STORED: &[u8] = b"Value set in cache.\n";
const DELETED: &[u8] = b"Value deleted.\n";

/// The number of bytes that are kept of the beginning of an answer. This is enough for the longest
/// key and for the value of a miss.
const HEAD_LEN: usize = BEFORE_KEY.len() + KEY_LEN_MAX + BEFORE_VALUE.len() + NO_VALUE.len();

/// The state of parsing an answer. It keeps the beginning and the end of the text, not the value.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    /// The first bytes of the answer.
    head: [u8; HEAD_LEN],
    /// The last bytes of the answer.
    tail: [u8; AFTER_VALUE.len()],
    /// The length of the answer so far.
    len: u32,
}

impl Default for AnswerReader {
    fn default() -> Self {
        Self {
            head: [0; HEAD_LEN],
            tail: [0; AFTER_VALUE.len()],
            len: 0,
        }
    }
}

impl AnswerReader {
    pub(crate) fn read(&mut self, input: &[u8]) -> Result<Step<TextileReply>, Malformed> {
        let end = input.iter().position(|&byte| byte == 0);
        self.add(&input[..end.unwrap_or(input.len())])?;
        Ok(Step {
            consumed: end.map_or(input.len(), |end| end + 1),
            reply: end.map(|_| std::mem::take(self).reply()),
        })
    }

    /// Adds the next bytes of the answer.
    fn add(&mut self, part: &[u8]) -> Result<(), Malformed> {
        let old_len = self.len as usize;
        if part.len() > TEXTILE_ANSWER_LEN_MAX as usize - old_len {
            return Err(Malformed::Line);
        }
        if let Some(free) = self.head.get_mut(old_len..) {
            let count = free.len().min(part.len());
            free[..count].copy_from_slice(&part[..count]);
        }
        // The tail becomes its own last `kept` bytes, and the last `added` bytes of `part`.
        let kept = AFTER_VALUE.len().saturating_sub(part.len());
        let added = AFTER_VALUE.len() - kept;
        self.tail.copy_within(added.., 0);
        self.tail[kept..].copy_from_slice(&part[part.len() - added..]);
        self.len += part.len() as u32;
        Ok(())
    }

    /// Returns what the complete answer says.
    fn reply(&self) -> TextileReply {
        let len = self.len as usize;
        let head = &self.head[..len.min(HEAD_LEN)];
        if head == STORED {
            return TextileReply::Stored;
        }
        if head == DELETED {
            return TextileReply::Deleted;
        }
        let Some(key) = head.strip_prefix(BEFORE_KEY) else {
            return TextileReply::Other;
        };
        let is_before_value = |at: &[u8]| at == BEFORE_VALUE;
        let key_len = key.windows(BEFORE_VALUE.len()).position(is_before_value);
        // After a longer key, the head would not have the whole value of a miss.
        let Some(key_len) = key_len.filter(|&len| len <= KEY_LEN_MAX) else {
            return TextileReply::Other;
        };
        let value_at = BEFORE_KEY.len() + key_len + BEFORE_VALUE.len();
        let value_len = len.checked_sub(value_at + AFTER_VALUE.len());
        match value_len {
            Some(len) if self.tail == AFTER_VALUE => {
                let is_miss = len == NO_VALUE.len() && head[value_at..].starts_with(NO_VALUE);
                TextileReply::Value { is_miss }
            }
            _ => TextileReply::Other,
        }
    }
}

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextileReply {
    /// The answer to a get.
    Value {
        /// Whether the value is [`NO_VALUE`].
        is_miss: bool,
    },
    /// The answer to a set.
    Stored,
    /// The answer to a delete.
    Deleted,
    /// Any other text, such as the answer to a request that the server cannot parse.
    Other,
}

impl TextileReply {
    pub(crate) fn answer(self, op: Op) -> Answer {
        match (self, op) {
            (Self::Value { is_miss }, Op::Get) => Answer::found(u16::from(!is_miss)),
            (Self::Stored, Op::Set) => Answer::stored(),
            (Self::Deleted, Op::Delete) => Answer::found(1),
            _ => Answer::ERROR,
        }
    }
}

#[inline]
pub(super) fn encode_get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"GET /");
    out.extend_from_slice(key);
    out.push(0);
}

/// `Config::validate` and the reader of scripts allow only get, set and delete.
pub(super) fn encode(out: &mut Vec<u8>, request: &Encoding<'_>) {
    match request.op {
        Op::Set => {
            out.extend_from_slice(b"PUT /");
            out.extend_from_slice(request.key);
            out.push(b'/');
        }
        Op::Delete => {
            out.extend_from_slice(b"DELETE /");
            out.extend_from_slice(request.key);
            out.push(0);
        }
        _ => encode_get(out, request.key),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Outcome;

    /// Parses an answer that arrives in parts of `part_len` bytes. Returns the outcome, and the
    /// number of bytes that follow the answer.
    fn read(answer: &[u8], op: Op, part_len: usize) -> (Outcome, usize) {
        let mut reader = AnswerReader::default();
        let mut rest = answer;
        while !rest.is_empty() {
            let part = &rest[..part_len.min(rest.len())];
            let step = reader.read(part).unwrap();
            rest = &rest[step.consumed..];
            if let Some(reply) = step.reply {
                return (reply.answer(op).outcome, rest.len());
            }
        }
        panic!("the answer is incomplete");
    }

    #[test]
    fn text_of_an_answer_and_operation_determine_the_outcome() {
        for (answer, op, outcome) in [
            (r#"{ "key" : "k", "val" : "v" }"#, Op::Get, Outcome::Found),
            (r#"{ "key" : "k", "val" : "" }"#, Op::Get, Outcome::Found),
            (
                r#"{ "key" : "", "val" : "NULL" }"#,
                Op::Get,
                Outcome::Missed,
            ),
            (
                r#"{ "key" : "k", "val" : "NULLS" }"#,
                Op::Get,
                Outcome::Found,
            ),
            (r#"{ "key" : "k", "val" : "NULL }"#, Op::Get, Outcome::Error),
            (r#"{ "key" : "k", "val" : "#, Op::Get, Outcome::Error),
            (r#"{ "key" : "k" }"#, Op::Get, Outcome::Error),
            ("", Op::Get, Outcome::Error),
            ("Value set in cache.\n", Op::Set, Outcome::Stored),
            ("Value set in cache.\n", Op::Get, Outcome::Error),
            ("Value deleted.\n", Op::Delete, Outcome::Found),
            ("Value deleted.\n", Op::Set, Outcome::Error),
            ("Malformed requested.\n", Op::Set, Outcome::Error),
        ] {
            let bytes = [answer.as_bytes(), b"\0x"].concat();
            for part_len in [1, 2, 7, 1024] {
                assert_eq!(read(&bytes, op, part_len), (outcome, 1), "{answer} {op}");
            }
        }
    }

    #[test]
    fn answer_that_never_ends_is_malformed() {
        let mut reader = AnswerReader::default();
        let part = vec![b'v'; 1 << 16];
        let is_malformed = |_: &u32| reader.read(&part).is_err();
        let count = (0_u32..).find(is_malformed).unwrap();
        assert_eq!(count, TEXTILE_ANSWER_LEN_MAX >> 16);
    }

    proptest! {
        #[test]
        fn outcome_of_a_get_does_not_depend_on_how_its_answer_is_divided(
            key in "[a-zA-Z0-9]{1,250}",
            value in "[a-z\"N]{0,40}|NULL|[a-z]{2000,3000}",
            part_len in 1_usize..2000,
        ) {
            let text = format!("{{ \"key\" : \"{key}\", \"val\" : \"{value}\" }}\0");
            let outcome = if value == "NULL" { Outcome::Missed } else { Outcome::Found };
            prop_assert_eq!(read(text.as_bytes(), Op::Get, part_len), (outcome, 0));
        }

        #[test]
        fn any_bytes_are_an_answer_if_they_contain_a_nul_byte(
            bytes in proptest::collection::vec(any::<u8>(), 0..600)
        ) {
            let mut reader = AnswerReader::default();
            let step = reader.read(&bytes).unwrap();
            prop_assert_eq!(step.reply.is_some(), bytes.contains(&0));
            prop_assert!(step.consumed <= bytes.len());
        }
    }
}
