//! The first command of a client to a server with a password file (memcached's `-Y`): a `set` of
//! any key, whose value is a user and a password.
//!
//! ```text
//! set KEY FLAGS EXPTIME LEN\r\n
//! USER PASSWORD\r\n
//! ```
//!
//! Replies are those of memcached 1.6.45 (`try_read_command_asciiauth`). A line that ends in a line
//! feed alone is read as other lines are; memcached loses its last character.

use std::fmt;

use memchr::memchr;

use crate::limits::{LINE_MAX, LOGIN_LINE_MIN, LOGIN_TOKEN_MAX};
use crate::words::Words;
use crate::{Rejection, decimal};

/// The end of a token.
const TOKEN_END: &[u8] = b"\r\n";

/// A user and a password, as a client sent them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

/// Shows no password.
impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Credentials");
        shown.finish_non_exhaustive()
    }
}

/// The result of parsing the front of the input of a client that has not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedLogin<'a> {
    /// The line or the token has not arrived completely.
    Incomplete,
    /// A user and a password.
    Credentials {
        /// The user and the password.
        credentials: Credentials<'a>,
        /// Bytes of the line and the token.
        len: usize,
    },
    /// Another command, or a token of another form.
    Rejected {
        /// The error to reply.
        rejection: Rejection,
        /// Bytes of the line, and of the token if it has been read.
        len: usize,
    },
    /// The connection is closed without a reply.
    Fatal,
}

/// Parses the command at the front of the input of a client that has not logged in.
///
/// The split of the input does not change the result.
#[must_use]
pub fn parse_login(input: &[u8]) -> ParsedLogin<'_> {
    let searched = &input[..input.len().min(LINE_MAX + 1)];
    let Some(line_len) = memchr(b'\n', searched) else {
        return match input.len() > LINE_MAX {
            true => ParsedLogin::Fatal,
            false => ParsedLogin::Incomplete,
        };
    };
    if line_len < LOGIN_LINE_MIN {
        return ParsedLogin::Fatal;
    }
    let (line, rest) = input.split_at(line_len + 1);
    let token_len = match token_len(&line[..line_len]) {
        Ok(token_len) => token_len,
        Err(rejection) => {
            let len = line.len();
            return ParsedLogin::Rejected { rejection, len };
        }
    };
    let Some(token) = rest.get(..token_len + TOKEN_END.len()) else {
        return ParsedLogin::Incomplete;
    };
    let len = line.len() + token.len();
    match credentials(token) {
        Ok(credentials) => ParsedLogin::Credentials { credentials, len },
        Err(rejection) => ParsedLogin::Rejected { rejection, len },
    }
}

/// The length of the token that follows a line.
fn token_len(line: &[u8]) -> Result<usize, Rejection> {
    let words = Words::of(line.strip_suffix(b"\r").unwrap_or(line));
    if words.count < 5 || !line.starts_with(b"set") {
        return Err(Rejection::Unauthenticated);
    }
    let len = decimal::unsigned_32(words.at(4)).ok_or(Rejection::Unauthenticated)?;
    match len as usize {
        len if len > LOGIN_TOKEN_MAX => Err(Rejection::LoginTooLong),
        len => Ok(len),
    }
}

/// The user and the password in a token with its end.
fn credentials(token: &[u8]) -> Result<Credentials<'_>, Rejection> {
    let token = token
        .strip_suffix(TOKEN_END)
        .ok_or(Rejection::BadLoginEnd)?;
    let space = memchr(b' ', token).ok_or(Rejection::BadLogin)?;
    Ok(Credentials {
        user: &token[..space],
        password: &token[space + 1..],
    })
}
