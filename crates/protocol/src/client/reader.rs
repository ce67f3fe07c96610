//! Reading replies as their bytes arrive, without keeping the values.

use std::fmt;

use memchr::memchr;

use crate::decimal;
use crate::limits::{REPLY_LINE_MAX, VALUE_LEN_MAX};
use crate::reply::MetaStatus;
use crate::words;

/// The kind of reply to expect. Replies arrive in the order of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    /// The reply to `get`, `gets`, `gat` or `gats`.
    Values,
    /// A reply of one classic line.
    Line,
    /// The reply to any `stats` except `stats reset`.
    Stats,
    /// The reply to a meta command, including `mn`.
    Meta,
}

/// A complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The values of one request.
    Values {
        /// Number of values.
        hits: u32,
        /// Total bytes of the values.
        bytes: u64,
    },
    /// A classic status line.
    Status(Status),
    /// The value of a counter.
    Number(u64),
    /// Statistics.
    Stats {
        /// Number of statistics.
        count: u32,
    },
    /// The reply to a meta command.
    Meta {
        /// The beginning of the reply.
        result: MetaResult,
        /// The opaque number of the request.
        opaque: Option<u64>,
    },
    /// An error line, which can take the place of any reply.
    Error(ErrorClass),
}

/// A classic status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// `OK`
    Ok,
    /// `RESET`
    Reset,
    /// `VERSION …`
    Version,
}

/// The beginning of a meta reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaResult {
    /// `VA`, and the value's length in bytes.
    Value(u32),
    /// `HD`, `NF`, `NS`, `EX`, `EN`
    Status(MetaStatus),
    /// `MN`
    Noop,
}

/// The class of an error line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// `ERROR`: no such command.
    Unknown,
    /// `CLIENT_ERROR`
    Client,
    /// `SERVER_ERROR`
    Server,
}

/// Why bytes cannot be the expected reply. The connection is no longer usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// A line is longer than any reply line.
    LineTooLong,
    /// A line does not fit the expected reply.
    Line,
    /// No line end follows a value.
    Value,
    /// A reply of the binary protocol does not begin as one.
    Frame,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineTooLong => "reply line longer than 2048 bytes",
            Self::Line => "reply line that does not answer the request",
            Self::Value => "value without a line end after it",
            Self::Frame => "bytes that are no frame of the binary protocol",
        })
    }
}

impl std::error::Error for Malformed {}

/// The result of [`ReplyReader::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advance {
    /// Bytes consumed from the front of the input; all of them if no reply is complete.
    pub consumed: usize,
    /// The reply that these bytes completed.
    pub reply: Option<Reply>,
}

/// Parses the replies on one connection. The split of the input does not change the result.
///
/// Values are skipped by their length. Only the beginning of an incomplete line is kept.
#[derive(Debug, Default)]
pub struct ReplyReader {
    /// The beginning of an incomplete line, at most [`REPLY_LINE_MAX`] bytes.
    carry: Vec<u8>,
    /// Bytes of the values of this reply so far.
    bytes: u64,
    /// Opaque of the `VA` line whose value is being skipped.
    opaque: Option<u64>,
    /// Bytes left to skip of the present value, including its line end.
    left: u32,
    /// Number of values or statistics of this reply so far.
    count: u32,
    /// CAS of the last value; 0: it was sent without.
    cas: u64,
}

// A load generator has one per connection, and may have tens of thousands of connections.
const _: () = assert!(size_of::<ReplyReader>() <= 64);

impl ReplyReader {
    /// A reader at the beginning of a reply.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a part of a reply has been read.
    #[must_use]
    pub fn is_mid_reply(&self) -> bool {
        self.left > 0 || self.count > 0 || !self.carry.is_empty()
    }

    /// The CAS of the value read last. None: it was sent without one.
    #[must_use]
    pub fn cas(&self) -> Option<u64> {
        (self.cas > 0).then_some(self.cas)
    }

    /// Reads `input` up to the end of the `expected` reply, or of the input.
    ///
    /// # Errors
    /// The bytes are not such a reply. The reader has lost its position and must be dropped.
    pub fn advance(&mut self, input: &[u8], expected: ReplyKind) -> Result<Advance, Malformed> {
        let mut consumed = 0;
        while consumed < input.len() {
            let rest = &input[consumed..];
            let reply = if self.left > 0 {
                consumed += self.skip_value(rest)?;
                self.finish_value(expected)
            } else if let Some(at) = memchr(b'\n', rest) {
                consumed += at + 1;
                self.end_line(&rest[..=at], expected)?
            } else {
                self.carry_over(rest)?;
                consumed = input.len();
                None
            };
            if reply.is_some() {
                (self.bytes, self.count, self.opaque) = (0, 0, None);
                return Ok(Advance { consumed, reply });
            }
        }
        Ok(Advance {
            consumed,
            reply: None,
        })
    }

    /// Skips the bytes of the present value at the front of `rest`. Returns their number.
    fn skip_value(&mut self, rest: &[u8]) -> Result<usize, Malformed> {
        let left = self.left as usize;
        let here = left.min(rest.len());
        for (from_end, byte) in [(2, b'\r'), (1, b'\n')] {
            let at = left.checked_sub(from_end);
            if at
                .and_then(|at| rest.get(at))
                .is_some_and(|&found| found != byte)
            {
                return Err(Malformed::Value);
            }
        }
        self.left -= here as u32;
        Ok(here)
    }

    fn finish_value(&self, expected: ReplyKind) -> Option<Reply> {
        if self.left > 0 || expected != ReplyKind::Meta {
            return None;
        }
        Some(Reply::Meta {
            result: MetaResult::Value(self.bytes as u32),
            opaque: self.opaque,
        })
    }

    fn carry_over(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.carry.len() + part.len() > REPLY_LINE_MAX {
            return Err(Malformed::LineTooLong);
        }
        self.carry.extend_from_slice(part);
        Ok(())
    }

    /// Parses the line that ends with `part`, which includes the line end.
    fn end_line(&mut self, part: &[u8], expected: ReplyKind) -> Result<Option<Reply>, Malformed> {
        if self.carry.len() + part.len() - 1 > REPLY_LINE_MAX {
            return Err(Malformed::LineTooLong);
        }
        if self.carry.is_empty() {
            return self.line(part, expected);
        }
        let mut line = std::mem::take(&mut self.carry);
        line.extend_from_slice(part);
        let outcome = self.line(&line, expected);
        line.clear();
        self.carry = line;
        outcome
    }

    fn line(&mut self, line: &[u8], expected: ReplyKind) -> Result<Option<Reply>, Malformed> {
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed::Line)?;
        let reply = match expected {
            ReplyKind::Values => self.values_line(line),
            ReplyKind::Stats => self.stats_line(line),
            ReplyKind::Meta => self.meta_line(line),
            ReplyKind::Line => classic_line(line).map(Some),
        };
        reply
            .or_else(|| error_line(line).map(Some))
            .ok_or(Malformed::Line)
    }

    /// Outer none: the line does not fit. Inner none: the reply is not complete.
    fn values_line(&mut self, line: &[u8]) -> Option<Option<Reply>> {
        if line == b"END" {
            return Some(Some(Reply::Values {
                hits: self.count,
                bytes: self.bytes,
            }));
        }
        let mut rest = line.strip_prefix(b"VALUE ")?;
        words::next(&mut rest)?;
        words::next(&mut rest)?;
        self.begin_value(words::next(&mut rest)?)?;
        if let Some(cas) = words::next(&mut rest) {
            self.cas = decimal::unsigned_64(cas)?;
        }
        self.count += 1;
        Some(None)
    }

    fn stats_line(&mut self, line: &[u8]) -> Option<Option<Reply>> {
        if line == b"END" {
            return Some(Some(Reply::Stats { count: self.count }));
        }
        line.strip_prefix(b"STAT ")?;
        self.count += 1;
        Some(None)
    }

    fn meta_line(&mut self, line: &[u8]) -> Option<Option<Reply>> {
        let (letters, mut rest) = line.split_at_checked(2)?;
        // Two letters that begin a longer word, such as `ERROR`, are no status.
        if rest.first().is_some_and(|&byte| byte != b' ') {
            return None;
        }
        let result = match letters {
            b"VA" => {
                self.begin_value(words::next(&mut rest)?)?;
                (self.opaque, self.cas) = opaque_and_cas(rest)?;
                return Some(None);
            }
            b"HD" => MetaResult::Status(MetaStatus::Done),
            b"NF" => MetaResult::Status(MetaStatus::NotFound),
            b"NS" => MetaResult::Status(MetaStatus::NotStored),
            b"EX" => MetaResult::Status(MetaStatus::Exists),
            b"EN" => MetaResult::Status(MetaStatus::Miss),
            b"MN" => MetaResult::Noop,
            _ => return None,
        };
        Some(Some(Reply::Meta {
            result,
            opaque: opaque_and_cas(rest)?.0,
        }))
    }

    fn begin_value(&mut self, len: &[u8]) -> Option<()> {
        let len = decimal::unsigned_32(len).filter(|&len| len <= VALUE_LEN_MAX)?;
        self.left = len + 2;
        self.cas = 0;
        self.bytes += u64::from(len);
        Some(())
    }
}

/// The opaque and the CAS (0: there is none) among the flags of a meta reply. None: one of them is
/// not a number.
fn opaque_and_cas(mut rest: &[u8]) -> Option<(Option<u64>, u64)> {
    let (mut opaque, mut cas) = (None, 0);
    while let Some(word) = words::next(&mut rest) {
        match word {
            [b'O', digits @ ..] => opaque = Some(decimal::unsigned_64(digits)?),
            [b'c', digits @ ..] => cas = decimal::unsigned_64(digits)?,
            _ => {}
        }
    }
    Some((opaque, cas))
}

fn classic_line(line: &[u8]) -> Option<Reply> {
    Some(Reply::Status(match line {
        b"STORED" => Status::Stored,
        b"NOT_STORED" => Status::NotStored,
        b"EXISTS" => Status::Exists,
        b"NOT_FOUND" => Status::NotFound,
        b"DELETED" => Status::Deleted,
        b"TOUCHED" => Status::Touched,
        b"OK" => Status::Ok,
        b"RESET" => Status::Reset,
        [b'0'..=b'9', ..] => return decimal::unsigned_64(line).map(Reply::Number),
        _ if line.starts_with(b"VERSION ") => Status::Version,
        _ => return None,
    }))
}

fn error_line(line: &[u8]) -> Option<Reply> {
    let mut rest = line;
    Some(Reply::Error(match words::next(&mut rest)? {
        b"ERROR" => ErrorClass::Unknown,
        b"CLIENT_ERROR" => ErrorClass::Client,
        b"SERVER_ERROR" | b"SERVER_ERROR:" => ErrorClass::Server,
        _ => return None,
    }))
}
