//! Parses HTTP/1.1 answers as they arrive (RFC 9112), without keeping their bodies.
//!
//! ```text
//! head ─┬─► no body (HEAD, 204, 304)
//!   ▲   ├─► Content-Length: body
//!  1xx ─┘─► chunked: size ─► chunk ─► line end ─► size … ─► trailer fields
//! ```
//!
//! `httparse` parses heads, sizes of chunks and trailer fields; where a body ends is decided here.
//! An invalid answer, such as one with a folded field or with two different lengths, is a fault. A
//! measured server should not send such answers. A body that ends only with the connection is a
//! fault too: its length is not known, so it cannot be checked.

use std::mem::MaybeUninit;

use httparse::{EMPTY_HEADER, Error, ParserConfig, Response, Status};
use workload::WebFiles;

use super::HttpCounts;
use crate::limits::{
    HTTP_ANSWER_LEN_MAX, HTTP_CHUNK_LINE_LEN_MAX, HTTP_FIELDS_MAX, HTTP_HEAD_LEN_MAX,
    HTTP_INTERIM_MAX,
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
    #[error("a head or a line that is too long, or too many fields")]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    /// Whether the body has another length than the requested file, or other bytes.
    pub(crate) is_wrong: bool,
}

/// The part of an answer to which the next bytes belong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// A body with a Content-Length. The number of its bytes that have not arrived.
    Body(u64),
    ChunkSize,
    /// The bytes of a chunk. The number of them that have not arrived.
    Chunk(u64),
    ChunkEnd,
    Trailers,
}

#[derive(Debug, Clone, Copy, Default)]
struct Head {
    status: u16,
    is_http_1_0: bool,
    length: Option<u64>,
    /// Whether the field `Transfer-Encoding` says that the body comes in chunks.
    is_chunked: bool,
    /// Whether the field `Connection` has the word `close`.
    close: bool,
    /// Whether the field `Connection` has the word `keep-alive`.
    keep_alive: bool,
}

/// The state of parsing the answers on a connection.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    state: State,
    /// The beginning of a head, a line or trailer fields that are incomplete. They are parsed anew
    /// when more has arrived; their lengths are bounded.
    kept: Vec<u8>,
    head_len: usize,
    answer_len: usize,
    /// The number of interim answers (1xx) before this answer.
    interim: u32,
    head: Head,
    body_len: u64,
    differs: bool,
    /// The number of the file that was requested.
    file: u64,
    /// The files whose bytes are compared with the bodies. None: only the lengths are compared.
    verified: Option<WebFiles>,
    pub(crate) counts: HttpCounts,
}

impl AnswerReader {
    pub(crate) fn new(verified: Option<WebFiles>) -> Self {
        Self {
            verified,
            ..Self::default()
        }
    }

    /// Discards an incomplete answer. The counts remain.
    pub(crate) fn reset(&mut self) {
        self.kept.clear();
        self.begin();
        self.interim = 0;
    }

    /// Sets the number of the file that the next answer is expected to contain.
    pub(crate) fn expect(&mut self, file: u64) {
        self.file = file;
    }

    /// Whether the server closes the connection after the last complete answer.
    pub(crate) fn closes(&self) -> bool {
        self.head.close || (self.head.is_http_1_0 && !self.head.keep_alive)
    }

    /// Prepares for the next answer. The head of the previous one remains, for [`Self::closes`].
    fn begin(&mut self) {
        self.state = State::Head;
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
                State::Body(missing) | State::Chunk(missing) => self.body(&mut rest, missing),
                _ => self.text(&mut rest, is_head)?,
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

    /// Takes bytes of a body or of a chunk from the front of `rest`. Returns the answer if the body
    /// is complete.
    fn body(&mut self, rest: &mut &[u8], missing: u64) -> Option<HttpReply> {
        let missing = missing - self.take_body(rest, missing);
        let is_chunk = matches!(self.state, State::Chunk(_));
        self.state = match (is_chunk, missing) {
            (true, 0) => State::ChunkEnd,
            (true, missing) => State::Chunk(missing),
            (false, missing) => State::Body(missing),
        };
        (missing == 0 && !is_chunk).then(|| self.complete(false))
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

    /// Parses a head, a line or trailer fields, if they are complete. Returns the answer if they
    /// complete it.
    fn text(&mut self, rest: &mut &[u8], is_head: bool) -> Result<Option<HttpReply>, HttpFault> {
        let most = match self.state {
            State::ChunkSize => HTTP_CHUNK_LINE_LEN_MAX,
            State::ChunkEnd => LINE_END.len(),
            State::Trailers => HTTP_HEAD_LEN_MAX - self.head_len,
            State::Head | State::Body(_) | State::Chunk(_) => HTTP_HEAD_LEN_MAX,
        };
        let mut kept = std::mem::take(&mut self.kept);
        let (all, kept_len) = (*rest, kept.len());
        let arrived = &all[..all.len().min(most - kept_len)];
        if kept_len > 0 {
            kept.extend_from_slice(arrived);
        }
        let bytes: &[u8] = if kept_len > 0 { &kept } else { arrived };
        let Some((len, reply)) = self.parse(bytes, is_head)? else {
            if arrived.len() < all.len() {
                return Err(HttpFault::TooLong);
            }
            if kept_len == 0 {
                kept.extend_from_slice(arrived);
            }
            (*rest, self.kept) = (&[], kept);
            return Ok(None);
        };
        *rest = &all[len - kept_len..];
        kept.clear();
        self.kept = kept;
        Ok(reply)
    }

    /// Parses what `bytes` begins with, by the state: its length, and the answer if this completes
    /// it. None: it is incomplete. A fault in the first bytes is the same whatever follows them, so
    /// it does not depend on how they are divided.
    fn parse(&mut self, bytes: &[u8], is_head: bool) -> Result<Option<Parsed>, HttpFault> {
        Ok(match self.state {
            State::ChunkSize => chunk_size(bytes)?.map(|(len, size)| {
                self.state = match size {
                    0 => State::Trailers,
                    size => State::Chunk(size),
                };
                (len, None)
            }),
            State::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = State::ChunkSize;
                    Some((LINE_END.len(), None))
                }
                [] | [b'\r'] => None,
                [b'\n', ..] => return Err(HttpFault::Line),
                _ => return Err(HttpFault::Chunk),
            },
            State::Trailers => trailers_len(bytes)?.map(|len| (len, Some(self.complete(false)))),
            State::Head | State::Body(_) | State::Chunk(_) => match Head::parse(bytes)? {
                Some((len, head)) => {
                    (self.head, self.head_len) = (head, len);
                    Some((len, self.end_of_head(is_head)?))
                }
                None => None,
            },
        })
    }

    /// Decides at the end of the head what follows it. Returns the answer if nothing follows.
    fn end_of_head(&mut self, is_head: bool) -> Result<Option<HttpReply>, HttpFault> {
        let head = self.head;
        if head.status < 200 {
            // 101 would switch to another protocol, but none was requested.
            self.interim += 1;
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

/// The length of a part of an answer, and the answer if this part completes it.
type Parsed = (usize, Option<HttpReply>);

impl Head {
    /// Parses a head. Returns its length too. None: the head is incomplete.
    fn parse(bytes: &[u8]) -> Result<Option<(usize, Self)>, HttpFault> {
        // `httparse` skips empty lines before the head.
        if let Some(b'\r' | b'\n') = bytes.first() {
            return Err(HttpFault::StatusLine);
        }
        let lines = lines_of(bytes);
        let mut fields = [const { MaybeUninit::uninit() }; HTTP_FIELDS_MAX];
        let mut response = Response::new(&mut []);
        let config = ParserConfig::default();
        let outcome = config.parse_response_with_uninit_headers(&mut response, lines, &mut fields);
        // The reason is known at the end of the status line.
        let status = response.code.filter(|_| response.reason.is_some());
        if status.is_some_and(|status| !(100..600).contains(&status)) {
            return Err(HttpFault::Status);
        }
        let Some(len) = complete(outcome, lines)? else {
            return Ok(None);
        };
        let mut head = Self {
            status: status.ok_or(HttpFault::StatusLine)?,
            is_http_1_0: response.version == Some(0),
            ..Self::default()
        };
        for field in response.headers.iter() {
            head.add_field(field.name, field.value)?;
        }
        Ok(Some((len, head)))
    }

    /// Records what a field of the head says.
    fn add_field(&mut self, name: &str, value: &[u8]) -> Result<(), HttpFault> {
        if name.eq_ignore_ascii_case("content-length") {
            let length = decimal(value).ok_or(HttpFault::Length)?;
            if self.length.is_some_and(|other| other != length) {
                return Err(HttpFault::Length);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(HttpFault::Encoding);
            }
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= word.eq_ignore_ascii_case(b"close");
                self.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }
}

const LINE_END: &[u8] = b"\r\n";

/// The lines up to the empty one, or up to a line feed without a carriage return, which `httparse`
/// would accept; all bytes if there is neither.
fn lines_of(bytes: &[u8]) -> &[u8] {
    let mut end = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        end += line.len();
        if line == LINE_END || !line.ends_with(LINE_END) {
            break;
        }
    }
    &bytes[..end]
}

/// Returns the length that `httparse` has found, or the fault. `lines` is its input, which ends
/// with the first line feed that no carriage return precedes. None: the input is incomplete.
fn complete(found: Result<Status<usize>, Error>, lines: &[u8]) -> Result<Option<usize>, HttpFault> {
    match found {
        Err(Error::HeaderName) => Err(HttpFault::Field),
        Err(Error::HeaderValue | Error::NewLine) => Err(HttpFault::Line),
        Err(Error::TooManyHeaders) => Err(HttpFault::TooLong),
        Err(Error::Status | Error::Token | Error::Version) => Err(HttpFault::StatusLine),
        Ok(_) if lines.ends_with(b"\n") && !lines.ends_with(LINE_END) => Err(HttpFault::Line),
        Ok(Status::Complete(len)) => Ok(Some(len)),
        Ok(Status::Partial) => Ok(None),
    }
}

/// Returns the length of the trailer fields. None: they are incomplete.
fn trailers_len(bytes: &[u8]) -> Result<Option<usize>, HttpFault> {
    let lines = lines_of(bytes);
    let mut fields = [EMPTY_HEADER; HTTP_FIELDS_MAX];
    let outcome = httparse::parse_headers(lines, &mut fields).map(|status| match status {
        Status::Complete((len, _)) => Status::Complete(len),
        Status::Partial => Status::Partial,
    });
    complete(outcome, lines)
}

/// Returns the length of the line with the size of a chunk, and the size. None: the line is
/// incomplete. Ignores extensions after the size.
fn chunk_size(bytes: &[u8]) -> Result<Option<(usize, u64)>, HttpFault> {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let line = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
    // `httparse` takes a line without digits for the size 0.
    if line.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
        return Err(HttpFault::Chunk);
    }
    match httparse::parse_chunk_size(line).map_err(|_| HttpFault::Chunk)? {
        Status::Complete(parsed) => Ok(Some(parsed)),
        // It would also accept a line feed within an extension.
        Status::Partial if end.is_some() => Err(HttpFault::Line),
        Status::Partial => Ok(None),
    }
}

/// Returns the number that the digits state. None: `digits` is not 1 to 18 decimal digits.
fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let add = |number, &digit: &u8| number * 10 + u64::from(digit - b'0');
    is_number.then(|| digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests;
