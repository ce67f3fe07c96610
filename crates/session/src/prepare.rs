//! The first half of a burst: decode the requests, hash their keys, prefetch the memory they visit.

use store::{KeyHash, Worker};

use crate::limits::PREFETCH_INPUT_MAX;
use crate::operation::{Key, Operation};
use crate::protocols::{Decoded, Encoder, Protocol};
use crate::session::{Session, State};
use crate::text::TextEncoder;

/// A request of a burst, decoded and hashed but not yet executed. Borrows the input.
#[derive(Debug, Clone, Copy)]
pub struct Prepared<'a> {
    pub(crate) operation: Operation<'a>,
    pub(crate) encoder: Encoder<'a>,
    /// Hash of the key, or of the first of several; zero without a key.
    pub(crate) hash: KeyHash,
    // The fields of the key stand here, not in a `Key`, whose padding would make requests larger.
    key_bytes: &'a [u8],
    key_base64: bool,
    /// Bytes of the command line, without the value that follows it.
    len: u32,
}

// A burst has thousands of requests, which should stay in the processor's cache from one pass to
// the next.
const _: () = assert!(size_of::<Prepared<'_>>() <= 136);

impl<'a> Prepared<'a> {
    /// A request that has not been decoded.
    #[inline]
    fn undecoded() -> Self {
        Self::new(
            Operation::Noop,
            Key::NONE,
            Encoder::Text(TextEncoder::default()),
            0,
        )
    }

    /// A request without a hash. `len` is the length of its command line.
    #[inline]
    pub(crate) fn new(
        operation: Operation<'a>,
        key: Key<'a>,
        encoder: Encoder<'a>,
        len: usize,
    ) -> Self {
        Self {
            operation,
            encoder,
            hash: KeyHash::default(),
            key_bytes: key.bytes,
            key_base64: key.base64,
            // Bounded by the protocol, to about a million.
            len: len as u32,
        }
    }

    /// The key, or the first of several.
    #[inline]
    pub(crate) fn key(&self) -> Key<'a> {
        Key {
            bytes: self.key_bytes,
            base64: self.key_base64,
        }
    }

    /// Bytes of the command line, without the value that follows it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

/// Prefetches the index bucket of the first request in the input of a connection, and returns the
/// hash of its key for [`prefetch_item`](Worker::prefetch_item). Does not know the session, so the
/// input may be the remainder of a value. Such input is decoded as a request all the same; the
/// prefetch is useless but harmless.
#[must_use]
pub fn prefetch_first_bucket(input: &[u8], worker: &Worker) -> Option<KeyHash> {
    let input = &input[..input.len().min(PREFETCH_INPUT_MAX)];
    let protocol = Protocol::detect(*input.first()?);
    let mut request = Prepared::undecoded();
    if let Decoded::Incomplete { .. } = protocol.decode(input, 0, &mut request) {
        return None;
    }
    let hash = hash_and_prefetch(request.key(), worker);
    (hash != KeyHash::default()).then_some(hash)
}

/// Prefetches the items of all requests of a burst. Call this after their buckets had time to
/// arrive in the cache.
pub fn prefetch_items(prepared: &mut [Prepared<'_>], worker: &Worker) {
    for request in prepared {
        if request.hash != KeyHash::default() {
            worker.prefetch_item(&mut request.hash);
        }
    }
}

impl Session {
    /// Decodes requests at the front of `input`, at most `max`, appends them to `prepared` and
    /// prefetches their buckets. The command line of each request is complete; the value of the
    /// last one may be still to come. Returns the number of appended requests. Pass exactly these,
    /// with the same input, to [`Session::answer`].
    pub fn prepare<'a>(
        &mut self,
        input: &'a [u8],
        max: usize,
        worker: &Worker,
        prepared: &mut Vec<Prepared<'a>>,
    ) -> usize {
        let first = prepared.len();
        let (Some(mut at), Some(&first_byte)) = (self.next_command_at(input), input.first()) else {
            return 0;
        };
        let detect = || Protocol::detect(first_byte);
        let protocol = *self.protocol.get_or_insert_with(detect);
        while prepared.len() - first < max && at < input.len() {
            prepared.push(Prepared::undecoded());
            let Some(request) = prepared.last_mut() else {
                break;
            };
            let decoded = protocol.decode(&input[at..], self.scanned as usize, request);
            if let Decoded::Incomplete { scanned } = decoded {
                prepared.pop();
                // Bounded by the protocol, to about a million.
                self.scanned = scanned as u32;
                break;
            }
            self.scanned = 0;
            request.hash = hash_and_prefetch(request.key(), worker);
            at += request.len();
            match decoded {
                Decoded::Command { data_len } if data_len <= (input.len() - at) as u64 => {
                    at += data_len as usize;
                }
                // The value of this request is incomplete, or no request may follow.
                _ => break,
            }
        }
        prepared.len() - first
    }

    /// The offset in `input` of the next command line. `None` if the line lies beyond the input, if
    /// the input begins with remaining keys of a request that was interrupted, or if the connection
    /// closes.
    fn next_command_at(&self, input: &[u8]) -> Option<usize> {
        match &self.state {
            State::Command => Some(0),
            State::Swallow { missing } => usize::try_from(*missing)
                .ok()
                .filter(|&missing| missing < input.len()),
            State::Upload(upload) => Some(upload.missing()).filter(|&len| len < input.len()),
            // The remaining keys of the interrupted request are answered first. The requests behind
            // it are prepared in a later turn.
            State::Keys(_) | State::Closed => None,
        }
    }
}

/// Hashes the key of a request and prefetches its bucket. The hash is zero if there is no key.
#[inline]
fn hash_and_prefetch(key: Key<'_>, worker: &Worker) -> KeyHash {
    if key.bytes.is_empty() {
        return KeyHash::default();
    }
    let mut buffer = None;
    let hash = worker.hash(key.decode(&mut buffer));
    worker.prefetch(hash);
    hash
}

#[cfg(test)]
mod tests {
    use store::{Config, Store};

    use super::*;

    #[test]
    fn the_bucket_of_the_first_request_is_prefetched() {
        let store = Store::new(Config {
            memory_bytes: 8 << 20,
            ..Config::DEFAULT
        });
        let worker = store.map(|store| store.worker());
        let Ok(worker) = worker else {
            panic!("no memory for the smallest store")
        };
        let hash_of = |input: &[u8]| prefetch_first_bucket(input, &worker);
        let key = Some(worker.hash(b"key"));
        for input in [
            &b"get key\r\n"[..],
            b"get key other\r\nget another\r\n",
            b"set key 0 0 5\r\nva",
            b"mg key v\r\n",
            b"mg a2V5 v b\r\n",
            b"md key\n",
        ] {
            assert_eq!(hash_of(input), key, "{input:?}");
        }
        let mut long = b"get key".to_vec();
        long.resize(2 * PREFETCH_INPUT_MAX, b' ');
        long.extend(b"\r\n");
        for input in [&b""[..], b"get key", b"mn\r\n", b"\xff\0\r\n", &long] {
            assert_eq!(hash_of(input), None, "{input:?}");
        }
    }
}
