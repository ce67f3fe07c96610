//! Parsing the command line at the front of the input.

mod administration;
mod classic;
mod meta;

use memchr::memchr;

pub use classic::next_keys;

use crate::limits::{KEYS_LINE_MAX, LINE_MAX};
use crate::{Parsed, Rejection, Request, word_end};

/// Parses the command line at the front of `input`. The first `scanned` bytes are known to contain
/// no line end, from [`Parsed::Incomplete`] for a shorter part of the same input.
///
/// The split of the input does not change the result.
#[must_use]
pub fn parse(input: &[u8], scanned: usize) -> Parsed<'_> {
    if let Some((request, len)) = classic::single_get(input) {
        return Parsed::Request { request, len };
    }
    let from = scanned.min(input.len());
    let found = memchr(b'\n', &input[from..]).map(|at| from + at);
    let line_len = found.unwrap_or(input.len());
    if line_len > LINE_MAX {
        if !classic::is_key_list(input) {
            return fatal(Rejection::LineTooLong);
        }
        if line_len > KEYS_LINE_MAX {
            return classic::long_get(&input[..KEYS_LINE_MAX]).unwrap_or_else(fatal);
        }
    }
    let Some(line_len) = found else {
        return Parsed::Incomplete {
            scanned: input.len(),
        };
    };
    let len = line_len + 1;
    let line = &input[..line_len];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match command(line, len) {
        Ok(request) => Parsed::Request { request, len },
        Err(ParseError {
            rejection: Some(rejection),
            swallow,
        }) => Parsed::Rejected {
            rejection,
            len,
            swallow,
        },
        Err(ParseError {
            rejection: None, ..
        }) => fatal(Rejection::Silent),
    }
}

fn fatal<'a>(rejection: Rejection) -> Parsed<'a> {
    Parsed::Fatal { rejection }
}

/// Why a line is no valid request.
struct ParseError {
    /// None closes the connection.
    rejection: Option<Rejection>,
    /// Bytes of the data block to skip.
    swallow: u64,
}

impl ParseError {
    fn fatal() -> Self {
        Self {
            rejection: None,
            swallow: 0,
        }
    }
}

impl From<Rejection> for ParseError {
    fn from(rejection: Rejection) -> Self {
        Self {
            rejection: Some(rejection),
            swallow: 0,
        }
    }
}

impl Rejection {
    /// This rejection, or [`Rejection::Silent`] if the client sent `noreply`.
    fn silent_if(self, noreply: bool) -> Self {
        if noreply { Self::Silent } else { self }
    }
}

/// Parses a complete line. `len` includes its line end.
fn command(line: &[u8], len: usize) -> Result<Request<'_>, ParseError> {
    if let Some(keys) = line.strip_prefix(b"get ") {
        return classic::get(keys, false);
    }
    // memcached's shortest command has two letters and a full line end.
    if len < 4 {
        return Err(Rejection::BadFormat.into());
    }
    let word_len = word_end::find(line, b' ').unwrap_or(line.len());
    let (word, rest) = line.split_at(word_len);
    if let [b'm', letter] = word {
        return meta::command(*letter, line, rest);
    }
    classic::command(word, line, rest)
}
