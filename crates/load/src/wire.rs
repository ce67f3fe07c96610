//! The wires. A wire encodes requests to bytes and parses bytes to answers, for one protocol. Each
//! wire has its own file.
//!
//! A wire opens no socket and reads no clock. To add a protocol, add a file here and a variant of
//! [`crate::Protocol`].

mod binary;
pub(crate) mod http;
mod meta;
mod text;
mod textile;

pub(crate) use binary::Binary;
pub(crate) use http::{Http, HttpCounts};
pub(crate) use meta::Meta;
use protocol::client::Malformed;
pub(crate) use text::Text;
pub(crate) use textile::Textile;
use workload::{Op, Request, WebFiles};

use crate::opening::Probe;

/// The encoding of requests and the parser of replies of one protocol. The engine is compiled
/// separately for each wire.
pub(crate) trait Wire: 'static {
    /// The state of the parser for the replies on one connection.
    type Reader: Default + std::fmt::Debug;
    /// A complete reply, without the values that it contains.
    type Reply: Copy;

    /// Whether every request has one reply. If not, a multiget has a reply for each of its keys.
    const ONE_REPLY: bool;

    /// The bytes after the value of a request.
    const VALUE_END: &'static [u8] = b"\r\n";

    /// The protocol in which `version` is sent. The answer shows before the run that a connection
    /// works. None: the protocol has no `version`.
    const PROBE: Option<Probe> = Some(Probe::Text);

    /// Returns a reader for the replies on a new connection. `verified` are the files with whose
    /// bytes the replies are compared. None: bytes are not compared.
    fn reader(_verified: Option<WebFiles>) -> Self::Reader {
        Self::Reader::default()
    }

    /// Discards an incomplete reply, so that the reader can be used for a new connection.
    fn reset(reader: &mut Self::Reader) {
        *reader = Self::Reader::default();
    }

    /// Tells the reader which request the next reply answers.
    #[inline]
    fn expect(_reader: &mut Self::Reader, _request: &Request) {}

    /// Whether the server ends the connection after the reply that was parsed last.
    fn closes(_reader: &Self::Reader) -> bool {
        false
    }

    /// Over HTTP, counts one fault: bytes after an answer while no other answer is expected.
    fn count_surplus(_reader: &mut Self::Reader) {}

    /// Returns the counts of the replies so far. None: the protocol is not HTTP.
    fn http_counts(_reader: &Self::Reader) -> Option<HttpCounts> {
        None
    }

    /// Returns the number of replies to a request for `keys` keys.
    fn replies(op: Op, keys: u16) -> u16;

    /// Appends a get of one key to `out`.
    fn encode_get(out: &mut Vec<u8>, key: &[u8], opaque: u64);

    /// Appends a request for one key to `out`. If the operation stores a value, the caller appends
    /// the value and [`Wire::VALUE_END`] after it.
    fn encode(out: &mut Vec<u8>, request: &Encoding<'_>);

    /// Appends a get of several keys to `out`.
    fn encode_multiget<'k>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'k [u8]>, opaque: u64);

    /// Parses `input` to the end of one reply, or to the end of `input` if the reply is incomplete.
    /// `op` is the operation of the oldest outstanding request.
    ///
    /// # Errors
    /// The bytes are not a reply. The reader cannot continue after them.
    fn read(
        reader: &mut Self::Reader,
        input: &[u8],
        op: Op,
    ) -> Result<Step<Self::Reply>, Malformed>;

    /// Returns the opaque token of the request that the reply answers. None: the reply answers the
    /// oldest outstanding request.
    fn opaque(reply: Self::Reply) -> Option<u64>;

    /// Returns the outcome that a reply states for a request with the operation `op`. None: a
    /// request of this operation cannot have this reply.
    fn answer(reply: Self::Reply, op: Op) -> Option<Answer>;

    /// Returns the CAS number of the value that was parsed last. 0: the value had none.
    fn cas(reader: &Self::Reader) -> u64;
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

/// The result of [`Wire::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<R> {
    /// The number of bytes consumed from the front of the input. If the reply is incomplete, this
    /// is the length of the input.
    pub(crate) consumed: usize,
    /// The reply that ends with the consumed bytes. None: the reply is incomplete.
    pub(crate) reply: Option<R>,
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
