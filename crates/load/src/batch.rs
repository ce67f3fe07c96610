//! The encoded requests of one send.

use std::io::{self, IoSlice};
use std::sync::Arc;

use sys::socket::Stream;
use workload::{KeyBuffer, Keyspace, Op, RecordSampler, Request, WebFiles};

use crate::config::Protocol;
use crate::limits::{APPEND_LEN_MAX, COPIED_VALUE_LEN_MAX, SEND_BYTES_MAX, SPLICES_MAX};
use crate::script::ScriptItems;
use crate::wire::Encoding;

/// A buffer of encoded requests that are sent on one connection with one call.
///
/// Short values are copied into the buffer after their request lines. Long values are not copied
/// but sent directly from the *filler*, the shared memory from which all values are taken. For each
/// long value, a *splice* records the position in the buffer at which it belongs.
pub(crate) struct Batch {
    pub(crate) protocol: Protocol,
    keys: Keys,
    /// The bytes of all values ([`filler`]).
    filler: Arc<[u8]>,
    /// The space in which a record's key is written.
    key: KeyBuffer,
    /// The encoded requests, without their long values.
    bytes: Vec<u8>,
    /// The long values, by ascending position.
    splices: Vec<Splice>,
    /// The sum of the lengths of the long values.
    spliced_len: usize,
    /// The keys of the last multiget, concatenated, and the position at which each key ends.
    multiget_keys: (Vec<u8>, Vec<usize>),
}

/// The source of the keys and of the lengths of values.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each thread, and the large variant is the usual one"
)]
pub(crate) enum Keys {
    /// Keys and value lengths are computed from the number of the record.
    Records {
        /// The records.
        keyspace: Keyspace,
        /// Draws all records of a multiget except the first.
        sampler: RecordSampler,
    },
    /// The key is the path of a file of a file set.
    Files,
    /// Keys and value lengths are read from a script, the user's list of requests.
    Script(ScriptItems),
}

impl Keys {
    /// Returns the key of a get. `buffer` is the space in which a record's key is written.
    #[inline]
    fn key<'a>(&'a self, request: &Request, buffer: &'a mut KeyBuffer) -> &'a [u8] {
        match self {
            Self::Records { keyspace, .. } => keyspace.key(request.record, buffer),
            Self::Files => WebFiles::path(request.record, buffer),
            Self::Script(items) => items.keys_and_value_len(request).0,
        }
    }

    /// Returns the key of a request and the length of its value. The length is 0 if the request has
    /// no value. `buffer` is the space in which a record's key is written.
    fn key_and_value_len<'a>(
        &'a self,
        request: &Request,
        buffer: &'a mut KeyBuffer,
    ) -> (&'a [u8], usize) {
        match self {
            Self::Records { keyspace, .. } => {
                let value_len = if request.op.stores() {
                    value_len(request.op, keyspace.value_len(request.record))
                } else {
                    0
                };
                // `counts` selects increments and decrements. They change the record's counter,
                // which is an item with a key of its own.
                let key = if request.op.counts() {
                    keyspace.counter_key(request.record, buffer)
                } else {
                    keyspace.key(request.record, buffer)
                };
                (key, value_len)
            }
            Self::Files => (WebFiles::path(request.record, buffer), 0),
            Self::Script(items) => items.keys_and_value_len(request),
        }
    }

    /// Appends the keys of a multiget and their end positions to `multiget_keys`.
    fn append_multiget_keys(
        &self,
        request: &Request,
        buffer: &mut KeyBuffer,
        multiget_keys: &mut (Vec<u8>, Vec<usize>),
    ) {
        match self {
            Self::Records { keyspace, sampler } => {
                for record in request.records(sampler) {
                    multiget_keys
                        .0
                        .extend_from_slice(keyspace.key(record, buffer));
                    multiget_keys.1.push(multiget_keys.0.len());
                }
            }
            // A workload of files has no multigets.
            Self::Files => {}
            Self::Script(items) => {
                for key in workload::words(items.keys_and_value_len(request).0) {
                    multiget_keys.0.extend_from_slice(key);
                    multiget_keys.1.push(multiget_keys.0.len());
                }
            }
        }
    }
}

/// The length of the value that an operation sends for a record whose value has length `len`. The
/// values of append and prepend are short, so that records grow slowly.
#[inline]
fn value_len(op: Op, len: usize) -> usize {
    match op {
        Op::Append | Op::Prepend => len.min(APPEND_LEN_MAX),
        _ => len,
    }
}

/// A long value, which is sent from the filler instead of the buffer.
#[derive(Debug, Clone, Copy)]
struct Splice {
    /// The number of bytes of [`Batch::bytes`] that are sent before the value.
    at: usize,
    /// The length of the value.
    len: usize,
}

/// Returns `len_max` letters, which all threads share. Every value is a prefix of them. Letters are
/// safe in every protocol, because no protocol uses a letter as the end mark of a value.
pub(crate) fn filler(len_max: u32) -> Arc<[u8]> {
    (0..len_max as usize)
        .map(|i| b'a' + (i % 26) as u8)
        .collect()
}

impl Batch {
    pub(crate) fn new(protocol: Protocol, keys: Keys, filler: Arc<[u8]>) -> Self {
        Self {
            protocol,
            keys,
            filler,
            key: [0; workload::limits::KEY_LEN_MAX],
            // No request is added once the batch has `SEND_BYTES_MAX` bytes. The last request may
            // exceed them by a copied value and by a request line of usually less than 512 bytes.
            bytes: Vec::with_capacity(SEND_BYTES_MAX + COPIED_VALUE_LEN_MAX + 512),
            splices: Vec::with_capacity(SPLICES_MAX),
            spliced_len: 0,
            multiget_keys: (Vec::new(), Vec::new()),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.splices.clear();
        self.spliced_len = 0;
    }

    /// The number of bytes of all requests, long values included.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.spliced_len
    }

    /// Whether no further request should be added.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= SEND_BYTES_MAX || self.splices.len() == SPLICES_MAX
    }

    /// The keys and value lengths of a script's requests. None: the requests are not from a script.
    pub(crate) fn script_items(&mut self) -> Option<&mut ScriptItems> {
        match &mut self.keys {
            Keys::Script(items) => Some(items),
            Keys::Records { .. } | Keys::Files => None,
        }
    }

    /// Appends a request. `cas` is the CAS number of an [`Op::Cas`]; other operations ignore it.
    /// `opaque` is the number that identifies the request. In the meta protocol, it is sent and the
    /// reply repeats it; the other protocols ignore it.
    #[inline]
    pub(crate) fn push(&mut self, request: &Request, cas: u64, opaque: u64) {
        match request.op {
            Op::Get => {
                let key = self.keys.key(request, &mut self.key);
                self.protocol.encode_get(&mut self.bytes, key, opaque);
            }
            Op::MultiGet => self.push_multiget(request, opaque),
            _ => self.push_one_key(request, cas, opaque),
        }
    }

    /// Appends a request with one key.
    fn push_one_key(&mut self, request: &Request, cas: u64, opaque: u64) {
        let (key, value_len) = self.keys.key_and_value_len(request, &mut self.key);
        let encoding = Encoding {
            op: request.op,
            key,
            ttl_s: request.ttl_s(),
            value_len,
            cas,
            opaque,
        };
        self.protocol.encode(&mut self.bytes, &encoding);
        if request.op.stores() {
            self.push_value(value_len, self.protocol.value_end());
        }
    }

    /// Appends a request that sets a record's counter to 0. Appends nothing if the keys are not
    /// those of records.
    pub(crate) fn push_counter(&mut self, record: u64, opaque: u64) {
        let Keys::Records { keyspace, .. } = &self.keys else {
            return;
        };
        let encoding = Encoding {
            op: Op::Set,
            key: keyspace.counter_key(record, &mut self.key),
            ttl_s: 0,
            value_len: 1,
            cas: 0,
            opaque,
        };
        self.protocol.encode(&mut self.bytes, &encoding);
        self.bytes.push(b'0');
        self.bytes.extend_from_slice(self.protocol.value_end());
    }

    /// Appends the value of a request and the bytes `end` after it.
    #[inline]
    fn push_value(&mut self, len: usize, end: &[u8]) {
        if len <= COPIED_VALUE_LEN_MAX {
            self.bytes.extend_from_slice(&self.filler[..len]);
        } else {
            self.splices.push(Splice {
                at: self.bytes.len(),
                len,
            });
            self.spliced_len += len;
        }
        self.bytes.extend_from_slice(end);
    }

    fn push_multiget(&mut self, request: &Request, opaque: u64) {
        let (keys, ends) = &mut self.multiget_keys;
        keys.clear();
        ends.clear();
        self.keys
            .append_multiget_keys(request, &mut self.key, &mut self.multiget_keys);
        let (keys, ends) = &self.multiget_keys;
        let mut from = 0;
        let each = ends.iter().map(|&end| {
            let key = &keys[from..end];
            from = end;
            key
        });
        self.protocol.encode_multiget(&mut self.bytes, each, opaque);
    }

    /// Calls `send` once, with `header` (which may be empty) followed by all requests, and returns
    /// the result of `send`.
    pub(crate) fn send_with_header(
        &self,
        header: &[u8],
        send: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        // The header, a section of the buffer before each long value, the long values, and the
        // section after the last long value.
        let mut pieces = [IoSlice::new(&[]); 2 * SPLICES_MAX + 2];
        pieces[0] = IoSlice::new(header);
        let mut count = 1;
        self.each_piece(|piece| {
            pieces[count] = IoSlice::new(piece);
            count += 1;
        });
        send(&pieces[..count])
    }

    /// Sends as many bytes as the socket accepts, and returns their number.
    #[inline]
    pub(crate) fn send(&self, stream: &Stream) -> io::Result<usize> {
        if self.splices.is_empty() {
            return stream.send(&self.bytes);
        }
        self.send_with_header(&[], |pieces| stream.send_vectored(pieces))
    }

    /// Appends all bytes except the first `sent` to `rest`.
    pub(crate) fn append_from(&self, sent: usize, rest: &mut Vec<u8>) {
        let mut skip = sent;
        self.each_piece(|piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            rest.extend_from_slice(&piece[skipped..]);
        });
    }

    /// All bytes, long values included.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.append_from(0, &mut all);
        all
    }

    /// Calls `each` with the pieces of all requests in order: a section of the buffer, a long
    /// value, the next section of the buffer, and so on.
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

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{Distribution, Popularity};

    /// An empty batch, for records with these value lengths and keys of 8 bytes.
    fn batch(protocol: Protocol, values: Distribution) -> Batch {
        let (records, value_len_max, seed) = (1000, 100_000, 1);
        let keys = Distribution::Fixed(8.0);
        let keyspace = Keyspace::new(records, keys, values, value_len_max, seed).unwrap();
        let sampler = RecordSampler::new(Popularity::Uniform, records, seed);
        let keys = Keys::Records { keyspace, sampler };
        Batch::new(protocol, keys, filler(value_len_max))
    }

    /// The bytes of a request with CAS number 99, `opaque` 7 and a value of 3 bytes. The key in the
    /// result is replaced by `K`.
    fn encoded(protocol: Protocol, request: Request) -> String {
        let mut batch = batch(protocol, Distribution::Fixed(3.0));
        batch.push(&request, 99, 7);
        let mut buffer = [0; workload::limits::KEY_LEN_MAX];
        let Keys::Records { keyspace, .. } = &batch.keys else {
            panic!("this batch has the keys of records");
        };
        let key = String::from_utf8(keyspace.key(request.record, &mut buffer).to_vec()).unwrap();
        let bytes = String::from_utf8(batch.to_vec()).unwrap();
        assert_eq!(bytes.len(), batch.len());
        bytes.replace(&key, "K")
    }

    #[test]
    fn every_cache_operation_is_encoded_in_protocols_text_and_meta() {
        // `#K` is the key of the record's counter.
        for (op, text, meta) in [
            (Op::Get, "get K\r\n", "mg K v O7\r\n"),
            (Op::ReadThrough, "get K\r\n", "mg K v O7\r\n"),
            (Op::Gets, "gets K\r\n", "mg K v c O7\r\n"),
            (Op::GetAndTouch, "gat 60 K\r\n", "mg K v T60 O7\r\n"),
            (Op::Touch, "touch K 60\r\n", "mg K T60 O7\r\n"),
            (Op::Delete, "delete K\r\n", "md K O7\r\n"),
            (Op::Increment, "incr #K 1\r\n", "ma #K O7\r\n"),
            (Op::Decrement, "decr #K 1\r\n", "ma #K MD O7\r\n"),
            (
                Op::Set,
                "set K 0 60 3\r\nabc\r\n",
                "ms K 3 T60 O7\r\nabc\r\n",
            ),
            (
                Op::Fill,
                "set K 0 60 3\r\nabc\r\n",
                "ms K 3 T60 O7\r\nabc\r\n",
            ),
            (
                Op::Add,
                "add K 0 60 3\r\nabc\r\n",
                "ms K 3 ME T60 O7\r\nabc\r\n",
            ),
            (
                Op::Replace,
                "replace K 0 60 3\r\nabc\r\n",
                "ms K 3 MR T60 O7\r\nabc\r\n",
            ),
            (
                Op::Append,
                "append K 0 0 3\r\nabc\r\n",
                "ms K 3 MA O7\r\nabc\r\n",
            ),
            (
                Op::Prepend,
                "prepend K 0 0 3\r\nabc\r\n",
                "ms K 3 MP O7\r\nabc\r\n",
            ),
            (
                Op::Cas,
                "cas K 0 60 3 99\r\nabc\r\n",
                "ms K 3 C99 T60 O7\r\nabc\r\n",
            ),
        ] {
            let request = Request::new(op, 1).with_ttl(60);
            assert_eq!(encoded(Protocol::Text, request), text, "{op}");
            assert_eq!(encoded(Protocol::Meta, request), meta, "{op}");
        }
        let without_ttl = Request::new(Op::Set, 1);
        assert_eq!(
            encoded(Protocol::Text, without_ttl),
            "set K 0 0 3\r\nabc\r\n"
        );
        assert_eq!(encoded(Protocol::Meta, without_ttl), "ms K 3 O7\r\nabc\r\n");
    }

    #[test]
    fn requests_of_protocol_textile_end_with_a_nul_byte() {
        let encoded = |op| encoded(Protocol::Textile, Request::new(op, 1));
        assert_eq!(encoded(Op::Get), "GET /K\0");
        assert_eq!(encoded(Op::Set), "PUT /K/abc\0");
        assert_eq!(encoded(Op::Delete), "DELETE /K\0");
        // The NUL follows a long value too, and no other byte is NUL.
        let mut long = batch(Protocol::Textile, Distribution::Fixed(70_000.0));
        long.push(&Request::new(Op::Set, 5), 0, 0);
        let all = long.to_vec();
        assert_eq!(all.iter().position(|&byte| byte == 0), Some(all.len() - 1));
    }

    #[test]
    fn multiget_is_encoded_with_all_its_keys() {
        let (first_record, keys, seed) = (1, 3, 5);
        let request = Request::multiget(first_record, keys, seed);
        let text = encoded(Protocol::Text, request);
        assert!(
            text.starts_with("get K ") && text.split(' ').count() == 4,
            "{text}"
        );
        let meta = encoded(Protocol::Meta, request);
        assert!(meta.starts_with("mg K v O7\r\nmg "), "{meta}");
        assert_eq!(
            (
                meta.lines().count(),
                Protocol::Meta.replies(Op::MultiGet, 3)
            ),
            (3, 3)
        );
    }

    #[test]
    fn long_values_are_sent_at_their_positions() {
        let mut batch = batch(Protocol::Text, Distribution::Fixed(70_000.0));
        batch.push(&Request::new(Op::Set, 5), 0, 0);
        assert!(batch.is_full());
        batch.push(&Request::new(Op::Get, 6), 0, 0);
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
