//! The first half of a burst: parse the requests, hash their keys, prefetch the memory they visit.

use protocol::{MetaKey, Parsed, Rejection, Request, parse};
use store::{KeyHash, Worker};

use crate::limits::PREFETCH_INPUT_MAX;
use crate::session::{Session, State};

/// A command line of a burst, parsed and hashed but not yet executed. Borrows the input.
#[derive(Debug, Clone, Copy)]
pub struct Prepared<'a> {
    pub(crate) action: Action<'a>,
    /// Bytes of the command line, line end included.
    pub(crate) line_len: usize,
    /// Hash of the key, or of the first of several; zero without a key.
    pub(crate) hash: KeyHash,
}

/// The effect of a command line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action<'a> {
    /// Execute a request.
    Request(Request<'a>),
    /// Reply with an error, then skip `swallow` bytes.
    Rejected { rejection: Rejection, swallow: u64 },
    /// Close the connection.
    Fatal,
}

/// Prefetches the index bucket of the first request in the input of a connection, and returns its
/// key's hash for [`prefetch_item`](Worker::prefetch_item). This is a hint: the input may as well
/// be the rest of a value.
#[must_use]
pub fn prefetch_first_bucket(input: &[u8], worker: &Worker) -> Option<KeyHash> {
    let input = &input[..input.len().min(PREFETCH_INPUT_MAX)];
    let Parsed::Request { request, .. } = parse(input, 0) else {
        return None;
    };
    let hash = hash_and_prefetch(&Action::Request(request), worker);
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

/// Empties a list of prepared requests and removes the lifetime of its last burst, so that the
/// next burst reuses its allocation.
#[must_use]
#[expect(
    clippy::unnecessary_filter_map,
    reason = "a filter would keep the old lifetime"
)]
pub fn recycle<'b>(mut prepared: Vec<Prepared<'_>>) -> Vec<Prepared<'b>> {
    prepared.clear();
    // The types differ in the lifetime only, so the standard library collects in place.
    prepared.into_iter().filter_map(|_| None).collect()
}

impl Session {
    /// Parses the complete requests at the front of `input`, at most `max`, appends them to
    /// `burst` and prefetches their buckets. Returns how many it appended. Pass exactly these,
    /// with the same input, to [`Session::answer`].
    pub fn prepare<'a>(
        &mut self,
        input: &'a [u8],
        max: usize,
        worker: &Worker,
        burst: &mut Vec<Prepared<'a>>,
    ) -> usize {
        let first = burst.len();
        let mut at = match self.commands_from(input) {
            Some(at) => at,
            None => return 0,
        };
        while burst.len() - first < max && at < input.len() {
            let (action, line_len) = match parse(&input[at..], self.scanned) {
                Parsed::Incomplete { scanned } => {
                    self.scanned = scanned;
                    break;
                }
                Parsed::Request { request, len } => (Action::Request(request), len),
                Parsed::Rejected {
                    rejection,
                    len,
                    swallow,
                } => (Action::Rejected { rejection, swallow }, len),
                Parsed::Fatal => (Action::Fatal, 0),
            };
            self.scanned = 0;
            burst.push(Prepared {
                action,
                line_len,
                hash: hash_and_prefetch(&action, worker),
            });
            match action.bytes_after_line() {
                Some(bytes) if bytes <= (input.len() - at - line_len) as u64 => {
                    at += line_len + bytes as usize;
                }
                // The next command has not arrived yet, or no command follows.
                _ => break,
            }
        }
        burst.len() - first
    }

    /// The offset in `input` of the next command line; none if it lies beyond the input.
    fn commands_from(&self, input: &[u8]) -> Option<usize> {
        match &self.state {
            State::Command => Some(0),
            State::Swallow { missing } => usize::try_from(*missing)
                .ok()
                .filter(|&missing| missing < input.len()),
            State::Upload(upload) => Some(upload.missing()).filter(|&len| len < input.len()),
            // The keys are answered first, and the next command may have to wait for another turn.
            State::Keys(_) | State::Closed => None,
        }
    }
}

impl Action<'_> {
    /// Bytes between this line and the next command; none if no command follows.
    fn bytes_after_line(&self) -> Option<u64> {
        match self {
            Self::Request(Request::Set(set)) => Some(u64::from(set.value_len) + 2),
            Self::Request(Request::MetaSet(set)) => Some(u64::from(set.value_len) + 2),
            Self::Request(Request::Quit) | Self::Fatal => None,
            Self::Request(_) => Some(0),
            Self::Rejected { swallow, .. } => Some(*swallow),
        }
    }
}

/// Hashes the key of a request and prefetches its bucket. The hash is zero if there is no key.
fn hash_and_prefetch(action: &Action<'_>, worker: &Worker) -> KeyHash {
    let of_meta = |key: &MetaKey<'_>| worker.hash(key.decode(&mut [0; protocol::limits::KEY_MAX]));
    let Action::Request(request) = action else {
        return KeyHash::default();
    };
    let hash = match request {
        Request::Get(get) => {
            let mut keys = get.keys;
            keys.next()
        }
        .map_or(KeyHash::default(), |key| worker.hash(key)),
        Request::Set(set) => worker.hash(set.key),
        Request::Delete(delete) => worker.hash(delete.key),
        Request::Arith(arith) => worker.hash(arith.key),
        Request::Touch(touch) => worker.hash(touch.key),
        Request::MetaGet(get) => of_meta(&get.key),
        Request::MetaSet(set) => of_meta(&set.key),
        Request::MetaDelete(delete) => of_meta(&delete.key),
        Request::MetaArith(arith) => of_meta(&arith.key),
        Request::MetaDebug(key) => of_meta(key),
        Request::FlushAll(_)
        | Request::Version
        | Request::Verbosity { .. }
        | Request::CacheMemlimit { .. }
        | Request::Stats(_)
        | Request::Shutdown { .. }
        | Request::Watch
        | Request::Quit
        | Request::MetaNoop => return KeyHash::default(),
    };
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
