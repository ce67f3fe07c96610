//! Parses HTTP/1.1 answers as they arrive (RFC 9112), without keeping their bodies.
//!
//! ```text
//! status line ─► fields ─┬─► no body (HEAD, 204, 304)
//!     ▲            │     ├─► Content-Length: body
//!     └─── 1xx ────┘     └─► chunked: size ─► chunk ─► line end ─► size … ─► trailer fields
//! ```
//!
//! An invalid answer, such as one with a folded field or with two different lengths, is a fault. A
//! measured server should not send such answers. A body that ends only with the connection is a
//! fault too: its length is not known, so it cannot be checked.

use workload::WebFiles;

use super::HttpCounts;
use crate::limits::{
    HTTP_ANSWER_LEN_MAX, HTTP_CHUNK_LINE_LEN_MAX, HTTP_HEAD_LEN_MAX, HTTP_INTERIM_MAX,
};
use crate::wire::Step;

/// Why an answer cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpFault {
    #[error("a status line that is not of HTTP/1.0 or 1.1")]
    StatusLine,
    #[error("a status that does not answer a GET or HEAD")]
    Status,
    #[error("a line without a carriage return at its end, or with a control character in it")]
    Line,
    #[error("a field without a name, or with a space in or after its name")]
    Field,
    #[error("a head or a line that is too long")]
    TooLong,
    #[error("a Content-Length that is not a number, or two different ones")]
    Length,
    #[error("a Transfer-Encoding that is not `chunked`, or one beside a Content-Length")]
    Encoding,
    #[error("a body without a length, whose end would be that of the connection")]
    NoLength,
    #[error("a chunk whose size is not a number, or without a line end after it")]
    Chunk,
    #[error("bytes after an answer, such as a body after the answer to a HEAD")]
    Surplus,
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    /// Whether the body has another length than the requested file, or other bytes.
    pub(crate) is_wrong: bool,
}

/// The part of an answer to which the next bytes belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    StatusLine,
    Fields,
    /// A body with a Content-Length. The number of its bytes that have not arrived.
    Body(u64),
    /// The line with the size of a chunk.
    ChunkSize,
    /// The bytes of a chunk. The number of them that have not arrived.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// The trailer fields after the last chunk.
    Trailers,
}

/// What the head of an answer says.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    status: u16,
    is_http_1_0: bool,
    /// The value of the field `Content-Length`.
    length: Option<u64>,
    /// Whether the field `Transfer-Encoding` says that the body comes in chunks.
    is_chunked: bool,
    /// Whether the field `Connection` has the word `close`.
    close: bool,
    /// Whether the field `Connection` has the word `keep-alive`.
    keep_alive: bool,
}

/// The state of parsing the answers on a connection.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    state: State,
    /// The beginning of a line that is incomplete.
    line: Vec<u8>,
    /// The number of bytes of the head and of the trailer fields so far.
    head_len: usize,
    /// The number of bytes of the answer so far.
    answer_len: usize,
    /// The number of interim answers (1xx) before this answer.
    interim: u32,
    head: Head,
    /// The number of bytes of the body so far.
    body_len: u64,
    /// Whether the body differs from the file.
    differs: bool,
    /// The number of the file that was requested.
    file: u64,
    /// The files whose bytes are compared with the bodies. None: only the lengths are compared.
    verified: Option<WebFiles>,
    pub(super) counts: HttpCounts,
}

impl Default for AnswerReader {
    fn default() -> Self {
        Self::new(None)
    }
}

impl AnswerReader {
    pub(crate) fn new(verified: Option<WebFiles>) -> Self {
        Self {
            state: State::StatusLine,
            line: Vec::new(),
            head_len: 0,
            answer_len: 0,
            interim: 0,
            head: Head::default(),
            body_len: 0,
            differs: false,
            file: 0,
            verified,
            counts: HttpCounts::default(),
        }
    }

    /// Discards an incomplete answer. The counts remain.
    pub(super) fn reset(&mut self) {
        self.line.clear();
        self.begin();
        self.interim = 0;
    }

    /// Sets the number of the file that the next answer is expected to contain.
    pub(super) fn expect(&mut self, file: u64) {
        self.file = file;
    }

    /// Whether the server closes the connection after the last complete answer.
    pub(super) fn closes(&self) -> bool {
        self.head.close || (self.head.is_http_1_0 && !self.head.keep_alive)
    }

    /// Prepares for the next answer. The head of the previous one remains, for [`Self::closes`].
    fn begin(&mut self) {
        self.state = State::StatusLine;
        (self.head_len, self.answer_len, self.body_len) = (0, 0, 0);
        self.differs = false;
    }

    /// Parses `input` to the end of one answer or, if the answer is incomplete, to the end of
    /// `input`. `is_head`: the request was a HEAD, so the answer has no body.
    ///
    /// # Errors
    /// The bytes are not an answer. The reader cannot continue after them.
    pub(crate) fn advance(
        &mut self,
        input: &[u8],
        is_head: bool,
    ) -> Result<Step<HttpReply>, HttpFault> {
        let mut rest = input;
        let mut reply = None;
        while reply.is_none() && !rest.is_empty() {
            reply = match self.state {
                State::Body(missing) => self.body(&mut rest, missing),
                State::Chunk(missing) => self.chunk(&mut rest, missing),
                _ => self.line(&mut rest, is_head)?,
            };
        }
        let consumed = input.len() - rest.len();
        self.answer_len += consumed;
        if self.answer_len > HTTP_ANSWER_LEN_MAX {
            return Err(HttpFault::TooLong);
        }
        if let Some(reply) = reply {
            self.counts.by_class[usize::from(reply.status / 100 - 2)] += 1;
            self.counts.wrong_bodies += u64::from(reply.is_wrong);
            self.interim = 0;
            self.begin();
        }
        Ok(Step { consumed, reply })
    }

    /// Takes bytes of a body from the front of `rest`. Returns the answer if the body is complete.
    fn body(&mut self, rest: &mut &[u8], missing: u64) -> Option<HttpReply> {
        let missing = missing - self.take_body(rest, missing);
        self.state = State::Body(missing);
        (missing == 0).then(|| self.complete(false))
    }

    /// Takes bytes of a chunk from the front of `rest`. This never completes an answer.
    fn chunk(&mut self, rest: &mut &[u8], missing: u64) -> Option<HttpReply> {
        let missing = missing - self.take_body(rest, missing);
        self.state = match missing {
            0 => State::ChunkEnd,
            _ => State::Chunk(missing),
        };
        None
    }

    /// Takes at most `most` bytes of a body from the front of `rest`. Returns their number.
    fn take_body(&mut self, rest: &mut &[u8], most: u64) -> u64 {
        let len = rest.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let (part, after) = rest.split_at(len);
        if let Some(files) = &self.verified
            && self.head.status == 200
            && !self.differs
        {
            self.differs = !files.matches(self.file, self.body_len, part);
        }
        self.body_len += len as u64;
        *rest = after;
        len as u64
    }

    /// Returns the answer, which is now complete.
    fn complete(&mut self, is_head: bool) -> HttpReply {
        let len = match is_head {
            true => self.head.length,
            false => Some(self.body_len),
        };
        // The answer to a HEAD need not state the length of the file.
        let has_other_len = len.is_some_and(|len| len != WebFiles::size(self.file));
        HttpReply {
            status: self.head.status,
            is_wrong: self.head.status == 200 && (self.differs || has_other_len),
        }
    }

    /// Parses the next line, if it is complete. Returns the answer if this line completes it.
    fn line(&mut self, rest: &mut &[u8], is_head: bool) -> Result<Option<HttpReply>, HttpFault> {
        let most = match self.state {
            State::ChunkSize | State::ChunkEnd => HTTP_CHUNK_LINE_LEN_MAX,
            _ => HTTP_HEAD_LEN_MAX - self.head_len,
        };
        let Some(part) = take_line(&mut self.line, rest, most)? else {
            return Ok(None);
        };
        if self.line.is_empty() {
            return self.parse_line(text(part)?, is_head);
        }
        self.line.extend_from_slice(part);
        let line = std::mem::take(&mut self.line);
        let outcome = text(&line).and_then(|text| self.parse_line(text, is_head));
        // The memory is kept for the next line that arrives in parts.
        self.line = line;
        self.line.clear();
        outcome
    }

    /// Parses the text of a line. Returns the answer if this line completes it.
    fn parse_line(&mut self, text: &[u8], is_head: bool) -> Result<Option<HttpReply>, HttpFault> {
        match self.state {
            State::StatusLine => {
                self.head = status_line(text)?;
                self.head_len = text.len() + 2;
                self.state = State::Fields;
            }
            State::Fields if text.is_empty() => return self.end_of_head(is_head),
            State::Fields => {
                self.head_len += text.len() + 2;
                self.head.add_field(text)?;
            }
            State::ChunkSize => {
                self.state = match chunk_size(text)? {
                    0 => State::Trailers,
                    size => State::Chunk(size),
                };
            }
            State::ChunkEnd if text.is_empty() => self.state = State::ChunkSize,
            State::Trailers if text.is_empty() => return Ok(Some(self.complete(false))),
            State::Trailers => {
                self.head_len += text.len() + 2;
                field(text)?;
            }
            State::ChunkEnd | State::Body(_) | State::Chunk(_) => return Err(HttpFault::Chunk),
        }
        Ok(None)
    }

    /// Decides at the end of the head what follows it. Returns the answer if nothing follows.
    fn end_of_head(&mut self, is_head: bool) -> Result<Option<HttpReply>, HttpFault> {
        let head = self.head;
        if head.status < 200 {
            // 101 would switch to another protocol, but none was requested.
            self.interim += 1;
            self.state = State::StatusLine;
            return match head.status != 101 && self.interim <= HTTP_INTERIM_MAX {
                true => Ok(None),
                false => Err(HttpFault::Status),
            };
        }
        if head.is_chunked && (head.length.is_some() || head.is_http_1_0) {
            return Err(HttpFault::Encoding);
        }
        if is_head || head.status == 204 || head.status == 304 {
            return Ok(Some(self.complete(is_head)));
        }
        self.state = match head.length {
            Some(0) => return Ok(Some(self.complete(false))),
            Some(len) => State::Body(len),
            None if head.is_chunked => State::ChunkSize,
            None => return Err(HttpFault::NoLength),
        };
        Ok(None)
    }
}

impl Head {
    /// Parses a field of the head and records what it says.
    fn add_field(&mut self, line: &[u8]) -> Result<(), HttpFault> {
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = decimal(value).ok_or(HttpFault::Length)?;
            if self.length.is_some_and(|other| other != length) {
                return Err(HttpFault::Length);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(HttpFault::Encoding);
            }
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= word.eq_ignore_ascii_case(b"close");
                self.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}

/// Takes the bytes up to the end of a line from the front of `rest`, and returns them. `kept` has
/// the bytes of the line that arrived earlier. The line may have at most `most` bytes. None: the
/// line is incomplete, and its bytes are now in `kept`.
fn take_line<'a>(
    kept: &mut Vec<u8>,
    rest: &mut &'a [u8],
    most: usize,
) -> Result<Option<&'a [u8]>, HttpFault> {
    let end = rest.iter().position(|&byte| byte == b'\n');
    let (part, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
    *rest = after;
    if kept.len() + part.len() > most {
        return Err(HttpFault::TooLong);
    }
    if end.is_none() {
        kept.extend_from_slice(part);
    }
    Ok(end.map(|_| part))
}

/// Returns the text of a line, which is the line without its end.
fn text(line: &[u8]) -> Result<&[u8], HttpFault> {
    let text = line.strip_suffix(b"\r\n").ok_or(HttpFault::Line)?;
    let is_control = |&byte: &u8| byte.is_ascii_control() && byte != b'\t';
    match text.iter().any(is_control) {
        true => Err(HttpFault::Line),
        false => Ok(text),
    }
}

/// Parses a status line: the version, a status of three digits and any text.
fn status_line(line: &[u8]) -> Result<Head, HttpFault> {
    let after = line.strip_prefix(b"HTTP/1.").ok_or(HttpFault::StatusLine)?;
    let (minor, after) = match after {
        [minor @ (b'0' | b'1'), b' ', after @ ..] => (*minor, after),
        _ => return Err(HttpFault::StatusLine),
    };
    let status = match after {
        [a, b, c] | [a, b, c, b' ', ..] => decimal(&[*a, *b, *c]),
        _ => None,
    };
    let status = status.and_then(|status| u16::try_from(status).ok());
    match status.ok_or(HttpFault::StatusLine)? {
        status @ 100..=599 => Ok(Head {
            status,
            is_http_1_0: minor == b'0',
            ..Head::default()
        }),
        _ => Err(HttpFault::Status),
    }
}

/// Divides a field into its name and its value.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), HttpFault> {
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = line.split_at(colon.ok_or(HttpFault::Field)?);
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !name.is_empty() && name.iter().all(is_token) {
        true => Ok((name, value[1..].trim_ascii())),
        false => Err(HttpFault::Field),
    }
}

/// Returns the number that the digits state. None: `digits` is not 1 to 18 decimal digits.
fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let add = |number, &digit: &u8| number * 10 + u64::from(digit - b'0');
    is_number.then(|| digits.iter().fold(0, add))
}

/// Parses the size of a chunk. Ignores extensions after the size.
fn chunk_size(line: &[u8]) -> Result<u64, HttpFault> {
    let end = line.iter().position(|&byte| byte == b';');
    let digits = line[..end.unwrap_or(line.len())].trim_ascii_end();
    let text = core::str::from_utf8(digits).map_err(|_| HttpFault::Chunk)?;
    let is_number = (1..=15).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit());
    match is_number {
        true => u64::from_str_radix(text, 16).map_err(|_| HttpFault::Chunk),
        false => Err(HttpFault::Chunk),
    }
}

#[cfg(test)]
mod tests;
