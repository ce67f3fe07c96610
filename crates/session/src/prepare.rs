//! The first half of a turn (one pass in which a session answers its input). It prepares requests:
//! decodes them, hashes their keys, and prefetches the memory that their execution will visit.

use store::{KeyHash, Worker};

use crate::limits::PREFETCH_INPUT_MAX;
use crate::lines;
use crate::operation::{Key, Operation};
use crate::protocols::{Decoded, Encoder, Protocol};
use crate::session::{Session, State};
use crate::text::TextEncoder;

/// A decoded request whose key has been hashed, before its execution. Borrows the input.
#[derive(Debug, Clone, Copy)]
pub struct Prepared<'a> {
    pub(crate) operation: Operation<'a>,
    pub(crate) encoder: Encoder<'a>,
    /// Hash of the key, or of the first of several keys. Zero if there is no key, or if it has not
    /// been hashed yet.
    pub(crate) hash: KeyHash,
    // These two are the fields of `Key`. A field of type `Key` would make the struct larger by
    // padding.
    key_bytes: &'a [u8],
    key_base64: bool,
    /// Length of the command line in bytes, without the value that follows it.
    len: u32,
}

// A burst may have thousands of requests. `prepare`, `prefetch` and `answer` each pass over all of
// them, so the requests should stay in the processor's cache between these passes.
const _: () = assert!(size_of::<Prepared<'_>>() <= 136);

impl<'a> Prepared<'a> {
    /// A placeholder, which a decoder overwrites.
    #[inline]
    pub(crate) fn undecoded() -> Self {
        Self::new(
            Operation::Noop,
            Key::NONE,
            Encoder::Text(TextEncoder::default()),
            0,
        )
    }

    /// A request whose key has not been hashed. `len` is the length of its command line in bytes.
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
            // The conversion cannot truncate: the protocol limits a command line to 64 KiB.
            len: len as u32,
        }
    }

    /// The key, or the first key if there are several.
    #[inline]
    pub(crate) fn key(&self) -> Key<'a> {
        Key {
            bytes: self.key_bytes,
            base64: self.key_base64,
        }
    }

    /// Length of the command line in bytes, without the value that follows it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

/// Prefetches the index bucket of the first request in the input of a connection. Returns the hash
/// of the request's key, for [`prefetch_item`](Worker::prefetch_item), or `None` if no complete
/// command line with a key was found.
///
/// This function does not know the state of the session, so `input` may begin within a value. It
/// then decodes part of the value as a request, and the prefetch is useless but harmless.
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

/// Prefetches the items of prepared requests. To find an item, this function reads its index
/// bucket, which [`Session::prepare`] has prefetched. So the caller first prepares all requests of
/// the burst (all connections that it answers together), and the buckets have time to arrive in the
/// processor's cache.
pub fn prefetch_items(prepared: &mut [Prepared<'_>], worker: &Worker) {
    for request in prepared {
        if request.hash != KeyHash::default() {
            worker.prefetch_item(&mut request.hash);
        }
    }
}

impl Session {
    /// Decodes at most `max` requests at the front of `input`, appends them to `prepared`, and
    /// prefetches their index buckets. The command line of each request is complete; the value of
    /// the last request may be incomplete. Returns the number of appended requests. The caller must
    /// pass exactly these requests, with the same input, to [`Session::answer`].
    pub fn prepare<'a>(
        &mut self,
        input: &'a [u8],
        max: usize,
        worker: &Worker,
        prepared: &mut Vec<Prepared<'a>>,
    ) -> usize {
        let (Some(at), Some(&first_byte)) = (self.next_command_at(input), input.first()) else {
            return 0;
        };
        let needs_login = self.needs_login;
        let detect = || Protocol::detect(first_byte).of_new_client(needs_login);
        match *self.protocol.get_or_insert_with(detect) {
            // The compiler generates a loop for the usual protocol alone, with its decoder inlined.
            Protocol::Lines => self.prepare_with(lines::decode, input, at, max, worker, prepared),
            other => {
                let decode = |input: &'a [u8], scanned, request: &mut Prepared<'a>| {
                    other.decode(input, scanned, request)
                };
                self.prepare_with(decode, input, at, max, worker, prepared)
            }
        }
    }

    /// Does the work of [`prepare`](Self::prepare) with the decoder `decode`. The first request is
    /// at offset `at`.
    #[inline]
    fn prepare_with<'a>(
        &mut self,
        decode: impl Fn(&'a [u8], usize, &mut Prepared<'a>) -> Decoded,
        input: &'a [u8],
        mut at: usize,
        max: usize,
        worker: &Worker,
        prepared: &mut Vec<Prepared<'a>>,
    ) -> usize {
        let first = prepared.len();
        while prepared.len() - first < max && at < input.len() {
            prepared.push(Prepared::undecoded());
            let Some(request) = prepared.last_mut() else {
                break;
            };
            let decoded = decode(&input[at..], self.scanned as usize, request);
            if let Decoded::Incomplete { scanned } = decoded {
                prepared.pop();
                // The conversion cannot truncate: see `Prepared::new`.
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
                // The value of this request is incomplete, the connection closes after it, or the
                // grammar may change.
                _ => break,
            }
        }
        prepared.len() - first
    }

    /// Returns the offset of the next command line in `input`. Returns `None` if that offset is
    /// beyond the input so far, if an earlier request is unfinished, or if the connection closes.
    fn next_command_at(&self, input: &[u8]) -> Option<usize> {
        match &self.state {
            State::Command => Some(0),
            State::Swallow { missing } => usize::try_from(*missing)
                .ok()
                .filter(|&missing| missing < input.len()),
            State::Upload(upload) => Some(upload.missing()).filter(|&len| len < input.len()),
            // The unanswered keys of a read of several keys may take the complete turn. So the
            // requests after them are prepared in a later turn. The same holds for requests after a
            // list.
            State::Keys(_)
            | State::Walk(_)
            | State::Sizes(_)
            | State::Connections(_)
            | State::Prefixes(_)
            | State::Watch(_)
            | State::Closed { .. } => None,
        }
    }
}

/// Hashes the key of a request and prefetches its index bucket. Returns zero if the key is empty.
#[inline(always)]
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
    fn early_prefetch_hashes_the_key_of_the_first_complete_command_line() {
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
