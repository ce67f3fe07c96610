//! Properties of the parsers of logins.

use super::COMMANDS_MAX;
use crate::binary::sasl::{self, ParsedSasl};
use crate::binary::{Parsed, Request, parse};
use crate::limits::{BINARY_HEADER_LEN, LINE_MAX, LOGIN_TOKEN_MAX};
use crate::{Credentials, ParsedLogin, parse_login};

/// Longest input that is not a complete login, in bytes: a line, its end, and a token with its end.
const INCOMPLETE_MAX: usize = LINE_MAX + 1 + LOGIN_TOKEN_MAX + 2;

/// Checks [`parse_login`], login by login: the bytes of a login alone give the same result, no part
/// of it gives one, and the input that has to be kept is bounded.
pub(super) fn check_lines(mut input: &[u8]) {
    for _ in 0..COMMANDS_MAX {
        let parsed = parse_login(input);
        let len = match parsed {
            ParsedLogin::Incomplete => {
                assert!(input.len() < INCOMPLETE_MAX);
                return;
            }
            ParsedLogin::Fatal => return,
            ParsedLogin::Credentials { credentials, len } => {
                assert!(!credentials.user.contains(&b' '));
                len
            }
            ParsedLogin::Rejected { rejection, len } => {
                assert!(rejection.reply().ends_with(b"\r\n"));
                len
            }
        };
        assert_eq!(parse_login(&input[..len]), parsed);
        for part in [0, len / 2, len - 1] {
            assert_eq!(parse_login(&input[..part]), ParsedLogin::Incomplete);
        }
        input = &input[len..];
    }
}

/// Checks [`sasl::parse`], frame by frame: a client that has not logged in has no request but
/// `version`, and the split of a message does not change the result.
pub(super) fn check_frames(mut input: &[u8], is_logged_in: bool) {
    for _ in 0..COMMANDS_MAX {
        let parsed = sasl::parse(input, is_logged_in);
        let (len, skipped) = match parsed {
            ParsedSasl::Other => match other(input, is_logged_in) {
                Some(lens) => lens,
                None => return,
            },
            ParsedSasl::Incomplete | ParsedSasl::Fatal { .. } => return,
            ParsedSasl::List { len, .. } => (len, 0),
            ParsedSasl::Message { message, len, .. } => {
                if let Some(Credentials { user, password }) = Credentials::from_plain(message.bytes)
                {
                    let end = [b"\0", user, b"\0", password].concat();
                    assert!(message.bytes.ends_with(&end));
                }
                (len, 0)
            }
            ParsedSasl::Rejected { swallow, .. } => (BINARY_HEADER_LEN, swallow),
        };
        if parsed != ParsedSasl::Other {
            assert_eq!(sasl::parse(&input[..len], is_logged_in), parsed);
            for part in BINARY_HEADER_LEN..len {
                let early = sasl::parse(&input[..part], is_logged_in);
                assert_eq!(early, ParsedSasl::Incomplete);
            }
        }
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        input = input[len..].get(skipped..).unwrap_or(&[]);
    }
}

/// The length of a frame that is no message of SASL, and of its value. `None` if another does not
/// follow.
fn other(input: &[u8], is_logged_in: bool) -> Option<(usize, u64)> {
    match parse(input) {
        Parsed::Incomplete | Parsed::Fatal { .. } => None,
        Parsed::Rejected { len, swallow, .. } => Some((len, swallow)),
        Parsed::Request { request, len, .. } => {
            assert!(is_logged_in || matches!(request, Request::Version));
            let value_len = match request {
                Request::Set(set) => set.value_len,
                _ => 0,
            };
            Some((len, value_len.into()))
        }
    }
}
