//! The messages of SASL (RFC 4422), by which a client of the binary protocol logs in. The mechanism
//! is PLAIN (RFC 4616).

use std::fmt;

use super::{Command, Head, Header, Opcode, REQUEST_MAGIC, Status};
use crate::limits::{
    BINARY_BODY_MAX, BINARY_HEADER_LEN, KEY_MAX, LOGIN_TOKEN_MAX, SASL_MECHANISM_MAX,
};
use crate::login::Credentials;

/// The mechanisms, separated by spaces.
pub const MECHANISMS: &[u8] = b"PLAIN";
/// The text of the reply to a message with a right password.
pub const AUTHENTICATED: &[u8] = b"Authenticated";

/// The result of looking for a message of SASL at the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedSasl<'a> {
    /// The front is, or will be, no message of SASL. [`parse`](super::parse) reads it. The client
    /// may use this command.
    Other,
    /// The message has not arrived completely.
    Incomplete,
    /// A request for the mechanisms.
    List {
        /// The parts that the reply repeats.
        head: Head,
        /// Bytes of the frame.
        len: usize,
    },
    /// A message.
    Message {
        /// The parts that the reply repeats.
        head: Head,
        /// The message.
        message: Message<'a>,
        /// Bytes of the frame.
        len: usize,
    },
    /// A message that is longer than any of PLAIN.
    Rejected {
        /// The parts that the reply repeats.
        head: Head,
        /// The error to reply.
        status: Status,
        /// Bytes of the body, which are to be skipped.
        swallow: u64,
    },
    /// The connection must be closed after the reply.
    Fatal {
        /// The parts that the reply repeats.
        head: Head,
        /// The error to reply.
        status: Status,
    },
}

/// A message of SASL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Whether it is the first message (`sasl_auth`), or a further one (`sasl_step`).
    pub is_first: bool,
    /// The name of the mechanism.
    pub mechanism: &'a [u8],
    /// The message. Its form depends on the mechanism.
    pub bytes: &'a [u8],
}

/// Shows no password.
impl fmt::Debug for Message<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Message");
        shown.field("is_first", &self.is_first);
        shown.finish_non_exhaustive()
    }
}

/// Looks for a message of SASL at the front of `input`. A client that has not logged in may use no
/// command but these and `version`.
///
/// The split of the input does not change the result, except that a frame is
/// [`Other`](ParsedSasl::Other) until its header is complete.
#[must_use]
pub fn parse(input: &[u8], is_logged_in: bool) -> ParsedSasl<'_> {
    let Some(bytes) = input.first_chunk::<BINARY_HEADER_LEN>() else {
        return ParsedSasl::Other;
    };
    let header = Header::read(bytes);
    let head = header.head;
    let Some(value_len) = header.value_len() else {
        return ParsedSasl::Other;
    };
    if header.magic != REQUEST_MAGIC || header.body_len > BINARY_BODY_MAX {
        return ParsedSasl::Other;
    }
    let fatal = |status| ParsedSasl::Fatal { head, status };
    match head.opcode.command() {
        Some((Command::SaslList, _)) if header.body_len == 0 => ParsedSasl::List {
            head,
            len: BINARY_HEADER_LEN,
        },
        Some((Command::SaslList, _)) => fatal(Status::Invalid),
        Some((Command::SaslMessage, _)) => message(input, &header, value_len),
        Some((Command::Version, _)) => ParsedSasl::Other,
        _ if is_logged_in => ParsedSasl::Other,
        _ => fatal(Status::AuthError),
    }
}

fn message<'a>(input: &'a [u8], header: &Header, value_len: u32) -> ParsedSasl<'a> {
    let head = header.head;
    let key_len = usize::from(header.key_len);
    if header.extras_len != 0 || key_len == 0 || key_len > KEY_MAX {
        let status = Status::Invalid;
        return ParsedSasl::Fatal { head, status };
    }
    let rejected = |status| ParsedSasl::Rejected {
        head,
        status,
        swallow: header.body_len.into(),
    };
    if key_len > SASL_MECHANISM_MAX {
        return rejected(Status::Invalid);
    }
    if value_len as usize > LOGIN_TOKEN_MAX {
        return rejected(Status::AuthError);
    }
    let len = BINARY_HEADER_LEN + header.body_len as usize;
    let Some(body) = input.get(BINARY_HEADER_LEN..len) else {
        return ParsedSasl::Incomplete;
    };
    let (mechanism, bytes) = body.split_at(key_len);
    let message = Message {
        is_first: head.opcode == Opcode::SASL_AUTH,
        mechanism,
        bytes,
    };
    ParsedSasl::Message { head, message, len }
}

impl<'a> Credentials<'a> {
    /// The user and the password in a message of PLAIN: `[user to act as] NUL user NUL password`.
    /// `None` if it has another form, or the client names another user to act as.
    #[must_use]
    pub fn from_plain(message: &'a [u8]) -> Option<Self> {
        let mut parts = message.split(|&byte| byte == 0);
        let (acts_as, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        let is_plain = parts.next().is_none() && (acts_as.is_empty() || acts_as == user);
        is_plain.then_some(Self { user, password })
    }
}
