//! Encodes requests and interprets replies.

use std::io::{self, IoSlice};
use std::iter;
use std::sync::Arc;

use protocol::client::{self, MetaResult, Reply, ReplyKind, Status};
use protocol::reply::MetaStatus;
use protocol::{MetaKey, Set, SetMode};
use sys::socket::Stream;
use workload::{KeyBuffer, Keyspace, Op};

use crate::config::Protocol;
use crate::limits::{COPIED_VALUE_LEN_MAX, SEND_BYTES_MAX, SPLICES_MAX};

/// Requests of one connection that leave in one send.
///
/// Short values are copied after their request lines. Long values are sent from the shared filler;
/// a splice records the position of such a value.
pub(crate) struct Batch {
    keyspace: Keyspace,
    protocol: Protocol,
    filler: Arc<[u8]>,
    key: KeyBuffer,
    bytes: Vec<u8>,
    splices: Vec<Splice>,
    spliced_len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Splice {
    /// The position of the value in `bytes`.
    at: usize,
    len: usize,
}

/// The shared bytes: every value is a prefix of them.
pub(crate) fn filler(len_max: u32) -> Arc<[u8]> {
    (0..len_max as usize)
        .map(|i| b'a' + (i % 26) as u8)
        .collect()
}

impl Batch {
    pub(crate) fn new(keyspace: Keyspace, protocol: Protocol, filler: Arc<[u8]>) -> Self {
        Self {
            keyspace,
            protocol,
            filler,
            key: [0; workload::limits::KEY_LEN_MAX],
            bytes: Vec::with_capacity(SEND_BYTES_MAX + COPIED_VALUE_LEN_MAX + 512),
            splices: Vec::with_capacity(SPLICES_MAX),
            spliced_len: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.splices.clear();
        self.spliced_len = 0;
    }

    /// Number of bytes of all requests.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.spliced_len
    }

    /// Whether no further request should be added.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= SEND_BYTES_MAX || self.splices.len() == SPLICES_MAX
    }

    /// Adds one request.
    pub(crate) fn push(&mut self, op: Op, record: u64, opaque: u64) {
        let key = self.keyspace.key(record, &mut self.key);
        match op {
            Op::Get => encode_get(&mut self.bytes, self.protocol, key, opaque),
            Op::Set => {
                let len = self.keyspace.value_len(record);
                encode_set(&mut self.bytes, self.protocol, key, len, opaque);
                if len <= COPIED_VALUE_LEN_MAX {
                    self.bytes.extend_from_slice(&self.filler[..len]);
                } else {
                    self.splices.push(Splice {
                        at: self.bytes.len(),
                        len,
                    });
                    self.spliced_len += len;
                }
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Sends as many bytes as the socket accepts. Returns their number.
    pub(crate) fn send(&self, stream: &Stream) -> io::Result<usize> {
        if self.splices.is_empty() {
            return stream.send(&self.bytes);
        }
        let mut pieces = [IoSlice::new(&[]); 2 * SPLICES_MAX + 1];
        let mut count = 0;
        self.each_piece(|piece| {
            pieces[count] = IoSlice::new(piece);
            count += 1;
        });
        stream.send_vectored(&pieces[..count])
    }

    /// Appends the bytes after the first `sent` to `rest`.
    pub(crate) fn append_from(&self, sent: usize, rest: &mut Vec<u8>) {
        let mut skip = sent;
        self.each_piece(|piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            rest.extend_from_slice(&piece[skipped..]);
        });
    }

    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.append_from(0, &mut all);
        all
    }

    fn each_piece<'a>(&'a self, mut each: impl FnMut(&'a [u8])) {
        let mut from = 0;
        for splice in &self.splices {
            each(&self.bytes[from..splice.at]);
            each(&self.filler[..splice.len]);
            from = splice.at;
        }
        each(&self.bytes[from..]);
    }
}

fn encode_get(out: &mut Vec<u8>, protocol: Protocol, key: &[u8], opaque: u64) {
    match protocol {
        Protocol::Text => client::get(out, iter::once(key), false),
        Protocol::Meta => {
            let key = MetaKey {
                raw: key,
                base64: false,
            };
            client::meta_get(out, &key, b"v", Some(opaque));
        }
    }
}

fn encode_set(out: &mut Vec<u8>, protocol: Protocol, key: &[u8], value_len: usize, opaque: u64) {
    match protocol {
        Protocol::Text => {
            let set = Set {
                key,
                flags: 0,
                exptime: 0,
                value_len: value_len as u32,
                mode: SetMode::Set,
                cas: None,
                noreply: false,
            };
            client::set_line(out, &set);
        }
        Protocol::Meta => {
            let key = MetaKey {
                raw: key,
                base64: false,
            };
            client::meta_set_line(out, &key, b"", Some(opaque), value_len as u64);
        }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A get found its value.
    Hit,
    /// A get found nothing.
    Miss,
    /// A set was carried out.
    Stored,
    /// An error reply, or a set that was not stored.
    Error,
}

/// The kind of reply that a request receives.
#[inline]
pub(crate) fn expected_reply(protocol: Protocol, op: Op) -> ReplyKind {
    match (protocol, op) {
        (Protocol::Meta, _) => ReplyKind::Meta,
        (Protocol::Text, Op::Get) => ReplyKind::Values,
        (Protocol::Text, Op::Set) => ReplyKind::Line,
    }
}

/// The outcome that a reply states, and its opaque token.
#[inline]
pub(crate) fn interpret(reply: Reply) -> (Answer, Option<u64>) {
    match reply {
        Reply::Values { hits: 0, .. } => (Answer::Miss, None),
        Reply::Values { .. } => (Answer::Hit, None),
        Reply::Status(Status::Stored) => (Answer::Stored, None),
        Reply::Meta { result, opaque } => {
            let answer = match result {
                MetaResult::Value(_) => Answer::Hit,
                MetaResult::Status(MetaStatus::Miss) => Answer::Miss,
                MetaResult::Status(MetaStatus::Done) => Answer::Stored,
                MetaResult::Status(_) | MetaResult::Noop => Answer::Error,
            };
            (answer, opaque)
        }
        Reply::Status(_) | Reply::Number(_) | Reply::Stats { .. } | Reply::Error(_) => {
            (Answer::Error, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Distribution;

    fn batch(values: Distribution, protocol: Protocol) -> Batch {
        let keyspace = Keyspace::new(1000, Distribution::Fixed(8.0), values, 100_000, 1).unwrap();
        Batch::new(keyspace, protocol, filler(100_000))
    }

    #[test]
    fn requests_follow_the_memcached_protocols() {
        let mut text = batch(Distribution::Fixed(3.0), Protocol::Text);
        text.push(Op::Get, 1, 7);
        text.push(Op::Set, 1, 8);
        let bytes = String::from_utf8(text.to_vec()).unwrap();
        let key = &bytes[4..12];
        assert_eq!(bytes, format!("get {key}\r\nset {key} 0 0 3\r\nabc\r\n"));

        let mut meta = batch(Distribution::Fixed(3.0), Protocol::Meta);
        meta.push(Op::Get, 1, 7);
        meta.push(Op::Set, 1, 8);
        let bytes = String::from_utf8(meta.to_vec()).unwrap();
        assert_eq!(bytes, format!("mg {key} v O7\r\nms {key} 3 O8\r\nabc\r\n"));
    }

    #[test]
    fn long_values_are_spliced_at_their_positions() {
        let mut batch = batch(Distribution::Fixed(70_000.0), Protocol::Text);
        batch.push(Op::Set, 5, 0);
        assert!(batch.is_full());
        batch.push(Op::Get, 6, 0);
        let all = batch.to_vec();
        assert_eq!(all.len(), batch.len());
        let line_len = all.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        assert_eq!(all[line_len..line_len + 70_000], filler(100_000)[..70_000]);
        assert_eq!(all[line_len + 70_000..line_len + 70_006], *b"\r\nget ");
        let mut rest = Vec::new();
        batch.append_from(line_len + 10, &mut rest);
        assert_eq!(rest, all[line_len + 10..]);
    }
}
