//! The wires. A wire encodes requests to bytes and parses bytes to answers, for one protocol. Each
//! wire has its own file.
//!
//! A wire opens no socket and reads no clock. To add a protocol, add a file here and a variant of
//! [`Protocol`], of [`Reader`] and of [`Reply`].

mod binary;
pub(crate) mod http;
mod meta;
mod text;
pub(crate) mod textile;

pub(crate) use http::HttpCounts;
use protocol::client::{self, Malformed, ReplyReader};
use workload::{Op, Request, WebFiles};

use crate::config::Protocol;
use crate::opening::Probe;

impl Protocol {
    /// The number of replies to a request for `keys` keys.
    #[inline]
    pub(crate) fn replies(self, op: Op, keys: u16) -> u16 {
        match self {
            Self::Meta | Self::Binary if op == Op::MultiGet => keys,
            _ => 1,
        }
    }

    /// The bytes after the value of a request.
    #[inline]
    pub(crate) fn value_end(self) -> &'static [u8] {
        match self {
            Self::Text | Self::Meta => b"\r\n",
            Self::Textile => b"\0",
            Self::Binary | Self::Http => b"",
        }
    }

    /// The protocol in which `version` is sent. The answer shows before the run that a connection
    /// works. None: the protocol has no `version`.
    pub(crate) fn probe(self) -> Option<Probe> {
        match self {
            Self::Text | Self::Meta => Some(Probe::Text),
            Self::Binary => Some(Probe::Binary),
            Self::Textile | Self::Http => None,
        }
    }

    /// Appends a get of one key to `out`.
    #[inline]
    pub(crate) fn encode_get(self, out: &mut Vec<u8>, key: &[u8], opaque: u64) {
        match self {
            Self::Text => text::encode_get(out, key),
            Self::Meta => meta::encode_get(out, key, opaque),
            Self::Binary => binary::encode_get(out, key),
            Self::Textile => textile::encode_get(out, key),
            Self::Http => http::encode_get(out, key),
        }
    }

    /// Appends a request for one key to `out`. If the operation stores a value, the caller appends
    /// the value and [`Protocol::value_end`] after it.
    pub(crate) fn encode(self, out: &mut Vec<u8>, request: &Encoding<'_>) {
        match self {
            Self::Text => text::encode(out, request),
            Self::Meta => meta::encode(out, request),
            Self::Binary => binary::encode(out, request),
            Self::Textile => textile::encode(out, request),
            Self::Http => http::encode(out, request),
        }
    }

    /// Appends a get of several keys to `out`: one request in the protocol text, and one for each
    /// key in the others.
    pub(crate) fn encode_multiget<'k>(
        self,
        out: &mut Vec<u8>,
        keys: impl Iterator<Item = &'k [u8]>,
        opaque: u64,
    ) {
        match self {
            Self::Text => client::get(out, keys, false),
            _ => keys.for_each(|key| self.encode_get(out, key, opaque)),
        }
    }
}

/// The parser of the replies on one connection. What parses the answers of studies is boxed: it is
/// several times as long as what parses those of a cache, of which there may be 16 384.
#[derive(Debug)]
pub(crate) enum Reader {
    Text(ReplyReader),
    Meta(ReplyReader),
    Binary(binary::Reader),
    Textile(Box<textile::AnswerReader>),
    Http(Box<http::AnswerReader>),
}

/// A complete reply, without the values that it contains.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Text(client::Reply),
    Meta(client::Reply),
    Binary(binary::Reply),
    Textile(textile::TextileReply),
    Http(http::HttpReply),
}

impl Reader {
    /// A reader of the replies on a new connection. `verified` are the files with whose bytes the
    /// replies of [`Protocol::Http`] are compared. None: bytes are not compared.
    pub(crate) fn new(protocol: Protocol, verified: Option<WebFiles>) -> Self {
        match protocol {
            Protocol::Text => Self::Text(ReplyReader::default()),
            Protocol::Meta => Self::Meta(ReplyReader::default()),
            Protocol::Binary => Self::Binary(binary::Reader::default()),
            Protocol::Textile => Self::Textile(Box::default()),
            Protocol::Http => Self::Http(Box::new(http::AnswerReader::new(verified))),
        }
    }

    /// Discards an incomplete reply, so that the reader can be used for a new connection.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Text(reader) | Self::Meta(reader) => *reader = ReplyReader::default(),
            Self::Binary(reader) => *reader = binary::Reader::default(),
            Self::Textile(reader) => **reader = textile::AnswerReader::default(),
            Self::Http(reader) => reader.reset(),
        }
    }

    /// Tells the reader which request the next reply answers.
    #[inline]
    pub(crate) fn expect(&mut self, request: &Request) {
        if let Self::Http(reader) = self {
            reader.expect(request.record);
        }
    }

    /// Whether the server ends the connection after the reply that was parsed last.
    pub(crate) fn closes(&self) -> bool {
        match self {
            Self::Http(reader) => reader.closes(),
            _ => false,
        }
    }

    /// Over HTTP, counts one fault: bytes after an answer while no other answer is expected.
    pub(crate) fn count_surplus(&mut self) {
        if let Self::Http(reader) = self {
            reader.counts.count_fault(http::HttpFault::Surplus);
        }
    }

    /// The counts of the replies so far. None: the protocol is not HTTP.
    pub(crate) fn http_counts(&self) -> Option<HttpCounts> {
        match self {
            Self::Http(reader) => Some(reader.counts),
            _ => None,
        }
    }

    /// Parses `input` to the end of one reply, or to the end of `input` if the reply is incomplete.
    /// `op` is the operation of the oldest outstanding request.
    ///
    /// # Errors
    /// The bytes are not a reply. The reader cannot continue after them.
    #[inline]
    pub(crate) fn read(&mut self, input: &[u8], op: Op) -> Result<Step<Reply>, Malformed> {
        Ok(match self {
            Self::Text(reader) => text::read(reader, input, op)?.map(Reply::Text),
            Self::Meta(reader) => meta::read(reader, input)?.map(Reply::Meta),
            Self::Binary(reader) => reader.read(input)?.map(Reply::Binary),
            Self::Textile(reader) => reader.read(input)?.map(Reply::Textile),
            Self::Http(reader) => reader.read(input, op)?.map(Reply::Http),
        })
    }

    /// The CAS number of the value that was parsed last. 0: the value had none.
    #[inline]
    pub(crate) fn cas(&self) -> u64 {
        match self {
            Self::Text(reader) | Self::Meta(reader) => reader.cas().unwrap_or(0),
            Self::Binary(reader) => reader.cas,
            Self::Textile(_) | Self::Http(_) => 0,
        }
    }
}

impl Reply {
    /// The opaque token of the request that the reply answers. None: the reply answers the oldest
    /// outstanding request.
    #[inline]
    pub(crate) fn opaque(self) -> Option<u64> {
        match self {
            Self::Meta(client::Reply::Meta { opaque, .. }) => opaque,
            _ => None,
        }
    }

    /// The outcome that the reply states for a request with the operation `op`. None: a request of
    /// this operation cannot have this reply.
    #[inline]
    pub(crate) fn answer(self, op: Op) -> Option<Answer> {
        match self {
            Self::Text(reply) => Some(text::answer(reply, op)),
            Self::Meta(reply) => meta::answer(reply, op),
            Self::Binary(reply) => reply.answer(op),
            Self::Textile(reply) => Some(reply.answer(op)),
            Self::Http(reply) => Some(reply.answer()),
        }
    }
}

/// A request for one key, to be encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding<'a> {
    pub(crate) op: Op,
    pub(crate) key: &'a [u8],
    /// The TTL in seconds. 0: the item does not expire.
    pub(crate) ttl_s: u32,
    /// The length of the value. Only operations that store use it.
    pub(crate) value_len: usize,
    /// The CAS number that the item must have. Only [`Op::Cas`] uses it.
    pub(crate) cas: u64,
    /// The opaque token, which identifies the request. Only the meta protocol sends it.
    pub(crate) opaque: u64,
}

/// The result of [`Reader::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<R> {
    /// The number of bytes consumed from the front of the input. If the reply is incomplete, this
    /// is the length of the input.
    pub(crate) consumed: usize,
    /// The reply that ends with the consumed bytes. None: the reply is incomplete.
    pub(crate) reply: Option<R>,
}

impl<R> Step<R> {
    fn map<S>(self, reply: impl FnOnce(R) -> S) -> Step<S> {
        Step {
            consumed: self.consumed,
            reply: self.reply.map(reply),
        }
    }
}

/// What a reply, or all replies to a multiget together, say about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// The number of items found. A stored value counts as 1. The sum of an operation's hits,
    /// misses, conflicts and errors is therefore the number of keys of its requests.
    pub(crate) hits: u16,
}

/// The kind of a request's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The item was found and read, deleted, touched, incremented or decremented. For a multiget:
    /// at least one item was found.
    Found,
    /// The value was stored.
    Stored,
    /// The item was not found. For a multiget: no item was found.
    Missed,
    /// An `add` failed because the item exists, or a `cas` because the item has changed.
    Conflicted,
    /// An error reply, or a set that was not stored.
    Error,
}

impl Answer {
    pub(crate) const ERROR: Self = Self::without_hit(Outcome::Error);

    /// Returns the answer to a request that found `hits` items.
    pub(crate) const fn found(hits: u16) -> Self {
        Self {
            outcome: if hits == 0 {
                Outcome::Missed
            } else {
                Outcome::Found
            },
            hits,
        }
    }

    /// Returns an answer with no items found.
    pub(crate) const fn without_hit(outcome: Outcome) -> Self {
        Self { outcome, hits: 0 }
    }

    /// Returns the answer to a request that stored its value.
    pub(crate) const fn stored() -> Self {
        Self {
            outcome: Outcome::Stored,
            hits: 1,
        }
    }
}

/// Returns the answer to an operation if the server replied that the item was not found.
fn not_found(op: Op) -> Answer {
    match op {
        Op::Set | Op::Fill | Op::Add => Answer::ERROR,
        _ => Answer::without_hit(Outcome::Missed),
    }
}

/// Returns the answer to an operation if the server replied that the value was not stored.
fn not_stored(op: Op) -> Answer {
    match op {
        Op::Add => Answer::without_hit(Outcome::Conflicted),
        Op::Replace | Op::Append | Op::Prepend => Answer::without_hit(Outcome::Missed),
        _ => Answer::ERROR,
    }
}

/// Returns the answer to an operation if the server replied that the item exists.
fn exists(op: Op) -> Answer {
    match op {
        Op::Cas => Answer::without_hit(Outcome::Conflicted),
        _ => Answer::ERROR,
    }
}
