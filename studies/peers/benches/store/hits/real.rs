//! The store itself and memcached itself, asked what the policies are asked.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::TcpStream;

use peers::memcached;
use peers::ours;
use peers::policy::Policy;
use peers::replay::{Cache, Pace, replay};
use peers::trace::{Operation, Request};
use store::{Config, ConfigError, Expiry, Read, Store, Worker};

use crate::workloads::Workload;

pub(crate) const KEY_LEN: usize = 30;
/// Requests that make a second: an item's requests are counted once in each.
const SECOND: usize = 100_000;
/// Requests to memcached in one send; of what is missing the sets follow in the next.
const BURST: usize = 64;
/// Items of the largest size that a store has room for, at least.
const ITEMS_LEAST: u64 = 16;
/// Less memory than this memcached's pages of a mebibyte do not serve.
const MEMCACHED_LEAST: u64 = 8 << 20;

fn key(record: u32) -> [u8; KEY_LEN] {
    let mut key = [b'k'; KEY_LEN];
    let mut rest = record;
    for byte in key.iter_mut().rev().take(10) {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The value of a record of so many bytes, from `values`, which becomes as long as it must.
fn value(values: &mut Vec<u8>, bytes: u32) -> &[u8] {
    let len = (bytes as usize).saturating_sub(KEY_LEN);
    if values.len() < len {
        values.resize(len, b'v');
    }
    &values[..len]
}

/// Our store as a policy; what it spends besides is in its capacity.
pub(crate) struct Ours {
    /// Asked one after the other, as the connections of a server are spread over its workers.
    workers: Vec<Worker>,
    requests: usize,
    values: Vec<u8>,
}

impl Ours {
    /// In `capacity` bytes, index and names of what left included, with so many workers.
    ///
    /// # Errors
    /// No store is so small.
    pub(crate) fn new(capacity: u64, workers: usize) -> Result<Self, ConfigError> {
        let config = Config {
            memory_bytes: capacity,
            workers,
            item_max: (capacity / ITEMS_LEAST).min(Config::DEFAULT.item_max.into()) as u32,
            hash_seed: 7,
            ..Config::DEFAULT
        };
        let store = Store::new(config)?;
        Ok(Self {
            workers: (0..workers).map(|_| store.worker()).collect(),
            requests: 0,
            values: Vec::new(),
        })
    }

    /// The name of its eviction policy.
    pub(crate) fn eviction_policy(&self) -> &'static str {
        self.workers[0].store().statistics().eviction_policy
    }

    /// The worker of this request, its second, and the bytes of values.
    fn next(&mut self) -> (&mut Worker, u32, &mut Vec<u8>) {
        let number = self.requests;
        self.requests += 1;
        let count = self.workers.len();
        let worker = &mut self.workers[number % count];
        (worker, 1 + (number / SECOND) as u32, &mut self.values)
    }

    /// Stores the item of a request of a trace.
    fn store(&mut self, request: &Request) {
        let now_s = trace_second(request);
        let expiry = match request.ttl_s {
            0 => Expiry::NEVER,
            ttl_s => Expiry::at(now_s.saturating_add(ttl_s)),
        };
        let value = value(&mut self.values, request.bytes);
        ours::set(
            &mut self.workers[0],
            &key(request.key),
            value,
            expiry,
            now_s,
        );
    }
}

/// The second of a request, from 1.
fn trace_second(request: &Request) -> u32 {
    request.second + 1
}

fn is_there(worker: &mut Worker, record: u32, now_s: u32) -> bool {
    let key = key(record);
    let hash = worker.hash(&key);
    let shown = worker.read(&key, hash, now_s, Read::default(), |_| Some(()));
    shown.is_ok()
}

impl Policy for Ours {
    fn lookup(&mut self, record: u32) -> bool {
        let (worker, now_s, _) = self.next();
        let is_there = is_there(worker, record, now_s);
        // It sleeps while the others work: none of them waits for it.
        worker.offline();
        is_there
    }

    fn insert(&mut self, record: u32, bytes: u32) {
        // The worker that looked it up.
        self.requests -= 1;
        self.write(record, bytes);
    }

    fn write(&mut self, record: u32, bytes: u32) {
        let (worker, now_s, values) = self.next();
        let value = value(values, bytes);
        ours::set(worker, &key(record), value, Expiry::NEVER, now_s);
        worker.offline();
    }

    fn used(&self) -> u64 {
        self.workers[0].store().statistics().bytes_used()
    }
}

impl Cache for Ours {
    fn perform(&mut self, burst: &[Request], hits: &mut Vec<bool>) {
        for request in burst {
            let now_s = trace_second(request);
            hits.push(match request.operation {
                Operation::Read => is_there(&mut self.workers[0], request.key, now_s),
                Operation::Write => {
                    self.store(request);
                    false
                }
                Operation::Delete => {
                    let (worker, key) = (&mut self.workers[0], key(request.key));
                    let hash = worker.hash(&key);
                    worker.delete(&key, hash, None, now_s);
                    false
                }
            });
        }
        self.workers[0].quiescent();
    }

    fn fill(&mut self, request: &Request) {
        self.store(request);
        self.workers[0].quiescent();
    }

    fn items(&self) -> u64 {
        self.workers[0].store().statistics().items
    }
}

/// The hit ratio of a memcached with `capacity` bytes for items, its hash table and what else it
/// needs not counted. None: it is not installed, or the memory is too little for it.
pub(crate) fn memcached(workload: &Workload, capacity: u64) -> Option<f64> {
    let request = |request: &crate::workloads::Request| Request {
        key: request.record,
        operation: match request.is_write {
            true => Operation::Write,
            false => Operation::Read,
        },
        bytes: workload.lens[request.record as usize],
        ttl_s: 0,
        second: 0,
    };
    let requests: Vec<Request> = workload.requests.iter().map(request).collect();
    let pace = Pace {
        burst: BURST,
        counted_from: requests.len() / 2,
    };
    replay_on_memcached(&requests, capacity, pace)
}

/// The hit ratio of a memcached that gets the requests of a trace. Its clock is the machine's,
/// so its items do not expire as those of the trace do.
pub(crate) fn replay_on_memcached(requests: &[Request], capacity: u64, pace: Pace) -> Option<f64> {
    if capacity < MEMCACHED_LEAST {
        return None;
    }
    let server = memcached::Memcached::start(capacity >> 20).ok()??;
    let mut client = MemcachedClient::new(server.connect().ok()?).ok()?;
    let outcome = replay(requests, &mut client, pace);
    client.error.is_none().then(|| outcome.ratio())
}

/// A connection to memcached. The sets of a burst's misses are sent with the next burst.
struct MemcachedClient {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    out: Vec<u8>,
    line: Vec<u8>,
    values: Vec<u8>,
    /// What ended the conversation.
    error: Option<io::Error>,
}

impl MemcachedClient {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            replies: BufReader::new(stream.try_clone()?),
            stream,
            out: Vec::new(),
            line: Vec::new(),
            values: Vec::new(),
            error: None,
        })
    }

    fn push_set(&mut self, request: &Request) -> io::Result<()> {
        let value = value(&mut self.values, request.bytes);
        self.out.extend_from_slice(b"ms ");
        self.out.extend_from_slice(&key(request.key));
        write!(self.out, " {} q\r\n", value.len())?;
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn push(&mut self, request: &Request) -> io::Result<()> {
        let (command, end): (&[u8], &[u8]) = match request.operation {
            Operation::Write => return self.push_set(request),
            Operation::Read => (b"mg ", b"\r\n"),
            Operation::Delete => (b"md ", b" q\r\n"),
        };
        self.out.extend_from_slice(command);
        self.out.extend_from_slice(&key(request.key));
        self.out.extend_from_slice(end);
        Ok(())
    }

    /// Sends a burst and reads its replies.
    fn converse(&mut self, burst: &[Request], hits: &mut Vec<bool>) -> io::Result<()> {
        for request in burst {
            self.push(request)?;
        }
        self.stream.write_all(&self.out)?;
        self.out.clear();
        for request in burst {
            let is_read = request.operation == Operation::Read;
            hits.push(is_read && self.read_reply()?);
        }
        Ok(())
    }

    /// Reads the reply to one read.
    fn read_reply(&mut self) -> io::Result<bool> {
        loop {
            self.line.clear();
            self.replies.read_until(b'\n', &mut self.line)?;
            // A refused set speaks up although it is to be quiet.
            if !self.line.starts_with(b"NS") && !self.line.starts_with(b"SERVER_ERROR") {
                break;
            }
        }
        let is_hit = self.line.starts_with(b"HD");
        if !is_hit && !self.line.starts_with(b"EN") {
            let text = String::from_utf8_lossy(&self.line).into_owned();
            return Err(io::Error::other(text));
        }
        Ok(is_hit)
    }
}

impl Cache for MemcachedClient {
    fn perform(&mut self, burst: &[Request], hits: &mut Vec<bool>) {
        if self.error.is_none() {
            self.error = self.converse(burst, hits).err();
        }
        hits.resize(burst.len(), false);
    }

    fn fill(&mut self, request: &Request) {
        if self.error.is_none() {
            self.error = self.push_set(request).err();
        }
    }
}
