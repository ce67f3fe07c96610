//! The wires: how requests become bytes and bytes become answers, one file for each protocol.
//!
//! A wire opens no socket and reads no clock. A further one (HTTP, NUL-terminated text) is a file
//! here and a variant of [`crate::Protocol`].

mod meta;
mod text;

pub(crate) use meta::Meta;
use protocol::client::Malformed;
pub(crate) use text::Text;
use workload::Op;

/// A protocol. The engine is compiled once for each.
pub(crate) trait Wire: 'static {
    /// The state of reading the replies of one connection.
    type Reader: Default + std::fmt::Debug;
    /// A complete reply.
    type Reply: Copy;

    /// Every request has one reply, whatever the number of its keys.
    const ONE_REPLY: bool;

    /// Number of replies to a request for `keys` keys.
    fn replies(op: Op, keys: u16) -> u16;

    /// Appends a get of one key.
    fn encode_get(out: &mut Vec<u8>, key: &[u8], opaque: u64);

    /// Appends any request of one key. The value of an operation that stores follows, then a line
    /// end; the caller appends both.
    fn encode(out: &mut Vec<u8>, request: &Encoding<'_>);

    /// Appends a request of several keys.
    fn encode_multiget<'k>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'k [u8]>, opaque: u64);

    /// Reads `input` up to the end of one reply, or of the input. `op` is the operation of the
    /// oldest request without an answer.
    ///
    /// # Errors
    /// The bytes are no reply; the reader has lost its position.
    fn read(
        reader: &mut Self::Reader,
        input: &[u8],
        op: Op,
    ) -> Result<Step<Self::Reply>, Malformed>;

    /// The token of the request that the reply answers. None: it answers the oldest one.
    fn opaque(reply: Self::Reply) -> Option<u64>;

    /// The outcome of a request that a reply states. None: no such request has this reply.
    fn answer(reply: Self::Reply, op: Op) -> Option<Answer>;

    /// The CAS of the value read last; 0: it had none.
    fn cas(reader: &Self::Reader) -> u64;
}

/// A request of one key, to be encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding<'a> {
    pub(crate) op: Op,
    pub(crate) key: &'a [u8],
    /// 0: no expiry.
    pub(crate) ttl_s: u32,
    /// Of operations that store.
    pub(crate) value_len: usize,
    /// Of [`Op::Cas`].
    pub(crate) cas: u64,
    /// The token of the request, where the wire has one.
    pub(crate) opaque: u64,
}

/// The result of [`Wire::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<R> {
    /// Bytes consumed from the front of the input; all of them if no reply is complete.
    pub(crate) consumed: usize,
    /// The reply that these bytes completed.
    pub(crate) reply: Option<R>,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Number of items found.
    pub(crate) hits: u16,
}

/// The kind of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The item was found and read, deleted, touched or counted; of several, at least one.
    Found,
    /// The value was stored.
    Stored,
    /// The item was not found.
    Missed,
    /// The item was there, or had changed: an add or a cas was not carried out.
    Conflicted,
    /// An error reply, or a set that was not stored.
    Error,
}

impl Answer {
    pub(crate) const ERROR: Self = Self::without_hit(Outcome::Error);

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

    pub(crate) const fn without_hit(outcome: Outcome) -> Self {
        Self { outcome, hits: 0 }
    }

    pub(crate) const fn stored() -> Self {
        Self {
            outcome: Outcome::Stored,
            hits: 1,
        }
    }
}

/// The answer of an operation that did not find its item.
fn not_found(op: Op) -> Answer {
    match op {
        Op::Set | Op::Fill | Op::Add => Answer::ERROR,
        _ => Answer::without_hit(Outcome::Missed),
    }
}

/// The answer of an operation whose value was not stored.
fn not_stored(op: Op) -> Answer {
    match op {
        Op::Add => Answer::without_hit(Outcome::Conflicted),
        Op::Replace | Op::Append | Op::Prepend => Answer::without_hit(Outcome::Missed),
        _ => Answer::ERROR,
    }
}

/// The answer of an operation whose item has another CAS.
fn exists(op: Op) -> Answer {
    match op {
        Op::Cas => Answer::without_hit(Outcome::Conflicted),
        _ => Answer::ERROR,
    }
}
