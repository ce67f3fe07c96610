//! One client connection to a [`Cache`], with the replies of memcached 1.6.45.

mod administration;
mod binary;
mod classic;
mod meta;

use protocol::{AfterKeys, Get, NextKeys, Parsed, Rejection, Request, next_keys, parse};

use crate::Cache;

/// The reply to `version`: the memcached release whose replies the model gives.
pub const VERSION: &str = "1.6.45";

/// The state of one client connection.
#[derive(Debug, Clone, Default)]
pub struct ModelSession {
    input: Vec<u8>,
    /// The line of a storage command whose data block is incomplete, and the length of that block
    /// with its line end.
    waiting: Option<(Vec<u8>, usize)>,
    /// Bytes left to skip of the data block of a rejected command.
    swallow: u64,
    /// The command of a long line of keys, whose rest is at the front of the input.
    long_get: Option<LongGet>,
    closed: bool,
    /// Whether the first byte was that of a binary frame. `None` before that byte.
    is_binary: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
struct LongGet {
    with_cas: bool,
    exptime: Option<i32>,
    /// A key of the line was too long.
    is_skipped: bool,
}

impl ModelSession {
    /// A new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the server has closed the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Receives `bytes` in the Unix second `now_s` and returns the replies.
    pub fn receive(&mut self, cache: &mut Cache, now_s: u64, bytes: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        self.input.extend_from_slice(bytes);
        while !self.closed && self.step(cache, now_s, &mut answer) {}
        if self.closed {
            self.input.clear();
        }
        answer
    }

    /// Processes one command or one data block. Returns false if that needs more input.
    fn step(&mut self, cache: &mut Cache, now_s: u64, answer: &mut Vec<u8>) -> bool {
        if self.swallow > 0 {
            let len = usize::try_from(self.swallow)
                .map_or(self.input.len(), |swallow| self.input.len().min(swallow));
            self.input.drain(..len);
            self.swallow -= len as u64;
            return len > 0;
        }
        if self.is_binary.is_none() {
            self.is_binary = self.input.first().map(|&first| first == 0x80);
        }
        if self.is_binary == Some(true) {
            return self.frame(cache, now_s, answer);
        }
        if let Some((line, len)) = &self.waiting {
            if self.input.len() < *len {
                return false;
            }
            let data: Vec<u8> = self.input.drain(..len).collect();
            if let Parsed::Request { request, .. } = parse(line, 0) {
                store(cache, now_s, &request, &data, answer);
            }
            self.waiting = None;
            return true;
        }
        let input = std::mem::take(&mut self.input);
        let len = match self.long_get {
            Some(command) => self.more_keys(command, cache, now_s, &input, answer),
            None => self.line(cache, now_s, &input, answer),
        };
        self.input = input;
        self.input.drain(..len);
        len > 0
    }

    /// Executes the command line at the front of `input` and returns its length.
    fn line(&mut self, cache: &mut Cache, now_s: u64, input: &[u8], answer: &mut Vec<u8>) -> usize {
        match parse(input, 0) {
            Parsed::Incomplete { .. } => 0,
            Parsed::Fatal { rejection } => {
                answer.extend_from_slice(error_reply(rejection).as_bytes());
                self.closed = true;
                0
            }
            Parsed::LongGet { get, len } => {
                answer.extend(classic::items(cache, now_s, get));
                self.long_get = Some(LongGet {
                    with_cas: get.with_cas,
                    exptime: get.exptime,
                    is_skipped: false,
                });
                len
            }
            Parsed::Rejected {
                rejection,
                len,
                swallow,
            } => {
                answer.extend_from_slice(error_reply(rejection).as_bytes());
                self.swallow = swallow;
                len
            }
            Parsed::Request { request, len } => {
                self.request(cache, now_s, &request, &input[..len], answer);
                len
            }
        }
    }

    /// Answers the keys at the front of `input` and returns their length.
    fn more_keys(
        &mut self,
        command: LongGet,
        cache: &mut Cache,
        now_s: u64,
        input: &[u8],
        answer: &mut Vec<u8>,
    ) -> usize {
        if command.is_skipped {
            let end = input.iter().position(|&byte| byte == b'\n');
            if end.is_some() {
                self.long_get = None;
            }
            return end.map_or(input.len(), |at| at + 1);
        }
        let Some(NextKeys { keys, after }) = next_keys(input) else {
            return 0;
        };
        let get = Get {
            keys,
            with_cas: command.with_cas,
            exptime: command.exptime,
        };
        answer.extend(classic::items(cache, now_s, get));
        let len = keys.as_bytes().len();
        match after {
            AfterKeys::More => len,
            AfterKeys::LineEnd(line_end_len) => {
                answer.extend_from_slice(b"END\r\n");
                self.long_get = None;
                len + usize::from(line_end_len)
            }
            AfterKeys::BadKey => {
                answer.extend_from_slice(error_reply(Rejection::BadGetKey).as_bytes());
                self.long_get = Some(LongGet {
                    is_skipped: true,
                    ..command
                });
                // At least a byte, or the caller would wait for more input.
                len + 1
            }
        }
    }

    fn request(
        &mut self,
        cache: &mut Cache,
        now_s: u64,
        request: &Request<'_>,
        line: &[u8],
        answer: &mut Vec<u8>,
    ) {
        let (value_len, error) = match request {
            Request::Set(set) => (set.value_len, classic::too_large(cache, now_s, set)),
            Request::MetaSet(set) => (set.value_len, meta::too_large(cache, now_s, set)),
            Request::Quit => {
                self.closed = true;
                return;
            }
            request => {
                answer.extend(plain(cache, now_s, request));
                return;
            }
        };
        let block_len = value_len as usize + 2;
        match error {
            Some(error) => {
                answer.extend_from_slice(error.as_bytes());
                self.swallow = block_len as u64;
            }
            None => self.waiting = Some((line.to_vec(), block_len)),
        }
    }
}

/// Executes a command without a data block.
fn plain(cache: &mut Cache, now_s: u64, request: &Request<'_>) -> Vec<u8> {
    match *request {
        Request::Get(get) => classic::get(cache, now_s, get),
        Request::Delete(delete) => classic::delete(cache, now_s, &delete),
        Request::Arith(arith) => classic::arith(cache, now_s, &arith),
        Request::Touch(touch) => classic::touch(cache, now_s, &touch),
        Request::FlushAll(flush) => classic::flush_all(cache, now_s, flush),
        Request::Stats(stats) => classic::stats(cache, now_s, stats),
        Request::Version => format!("VERSION {VERSION}\r\n").into_bytes(),
        Request::Verbosity { noreply: true, .. } => Vec::new(),
        Request::Verbosity { noreply: false, .. } => b"OK\r\n".to_vec(),
        Request::CacheMemlimit { noreply: true, .. } => Vec::new(),
        // The model never evicts, so the limit has no effect.
        Request::CacheMemlimit { megabytes, .. } => match megabytes {
            0..8 => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n".to_vec(),
            8..=1_000_000_000 => b"OK\r\n".to_vec(),
            _ => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n".to_vec(),
        },
        Request::MetaGet(get) => meta::get(cache, now_s, &get),
        Request::MetaDelete(delete) => meta::delete(cache, now_s, &delete),
        Request::MetaArith(arith) => meta::arith(cache, now_s, &arith),
        Request::MetaDebug(key) => meta::debug(cache, now_s, key),
        Request::MetaNoop => b"MN\r\n".to_vec(),
        Request::Shutdown { noreply: true, .. } => Vec::new(),
        Request::Shutdown { .. } => b"SERVER_ERROR: shutdown not enabled\r\n".to_vec(),
        Request::Watch(_) | Request::DebugTime(_) | Request::Prefix(_) => b"ERROR\r\n".to_vec(),
        Request::Crawler(crawler) => administration::crawler(cache, now_s, crawler),
        Request::Tune(_) => b"OK\r\n".to_vec(),
        // These are handled by the caller.
        Request::Set(_) | Request::MetaSet(_) | Request::Quit => Vec::new(),
    }
}

/// Executes a storage command. `data` is its data block, including the line end.
fn store(cache: &mut Cache, now_s: u64, request: &Request<'_>, data: &[u8], answer: &mut Vec<u8>) {
    let value = data.strip_suffix(b"\r\n");
    answer.extend(match request {
        Request::Set(set) => classic::set(cache, now_s, set, value),
        Request::MetaSet(set) => meta::set(cache, now_s, set, value),
        _ => Vec::new(),
    });
}

fn error_reply(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Silent => "",
        Rejection::Unknown => "ERROR\r\n",
        Rejection::BadFormat => "CLIENT_ERROR bad command line format\r\n",
        Rejection::BadLine => "CLIENT_ERROR bad command line\r\n",
        Rejection::LineTooLong => "CLIENT_ERROR line too long, the limit is 2048 bytes\r\n",
        Rejection::NothingToCrawl => "NOTSTARTED no items to crawl\r\n",
        Rejection::BadSlabId => "CLIENT_ERROR Illegal slab id\r\n",
        Rejection::BadGetKey => "CLIENT_ERROR bad command line format\r\n\r\n",
        Rejection::BadExptime => "CLIENT_ERROR invalid exptime argument\r\n",
        Rejection::BadDelta => "CLIENT_ERROR invalid numeric delta argument\r\n",
        Rejection::TooManyFlags => "CLIENT_ERROR options flags are too long\r\n",
        Rejection::DuplicateFlag => "CLIENT_ERROR duplicate flag\r\n",
        Rejection::InvalidFlag => "CLIENT_ERROR invalid flag\r\n",
        Rejection::BadArithFlag => "CLIENT_ERROR invalid or duplicate flag\r\n",
        Rejection::OpaqueTooLong => "CLIENT_ERROR opaque token too long\r\n",
        Rejection::BadToken => "CLIENT_ERROR bad token in command line format\r\n",
        Rejection::BadInitialToken => "CLIENT_ERROR invalid numeric initial value\r\n",
        Rejection::BadDeltaToken => "CLIENT_ERROR invalid numeric delta value\r\n",
        Rejection::BadClass => "BADCLASS invalid class id\r\n",
        Rejection::BadClasses => "BADCLASS invalid src or dst class id\r\n",
        Rejection::SameClass => "SAME src and dst class are identical\r\n",
        Rejection::NoSparePage => "NOSPARE source class has no spare pages\r\n",
        Rejection::BadAutomoveWindow => "CLIENT_ERROR automove window too low or too high\r\n",
        Rejection::LruSharesTooLarge => "ERROR hot and warm pcts must not exceed 80\r\n",
        Rejection::LruFactorsTooSmall => "ERROR hot/warm age factors must be greater than 0\r\n",
        Rejection::SleepTooLong => "CLIENT_ERROR sleep must be one second or less\r\n",
        Rejection::CrawlerFailed => "ERROR an unknown error happened\r\n",
        Rejection::BadKeyEncoding => "CLIENT_ERROR error decoding key\r\n",
        Rejection::BadSetMode => "CLIENT_ERROR invalid mode for ms M token\r\n",
        Rejection::BadArithMode => "CLIENT_ERROR invalid mode for ma M token\r\n",
        Rejection::Unauthenticated => "CLIENT_ERROR unauthenticated\r\n",
        Rejection::LoginTooLong => "CLIENT_ERROR auth token too long\r\n",
        Rejection::BadLoginEnd => "CLIENT_ERROR bad command line termination\r\n",
        Rejection::BadLogin => "CLIENT_ERROR bad authentication token format\r\n",
    }
}

const BAD_DATA_CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";
const NON_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
