//! The store itself and memcached itself, asked what the policies are asked.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::TcpStream;

use rivals::memcached::Memcached;
use rivals::ours;
use rivals::policy::Policy;
use store::{Config, ConfigError, Expiry, Read, Store, Worker};

use crate::workloads::{Request, Workload};

const KEY_LEN: usize = 30;
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

/// A value that makes up a record of so many bytes.
fn value(bytes: u32) -> Vec<u8> {
    vec![b'v'; bytes as usize - KEY_LEN]
}

/// Our store as a policy; what it spends besides is in its capacity.
pub(crate) struct Ours {
    /// Asked one after the other, as the connections of a server are spread over its workers.
    workers: Vec<Worker>,
    requests: usize,
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
        })
    }

    /// How its eviction leans.
    pub(crate) fn leaning(&self) -> &'static str {
        self.workers[0].store().statistics().eviction_policy
    }

    /// The worker of this request, and its second.
    fn next(&mut self) -> (&mut Worker, u32) {
        let number = self.requests;
        self.requests += 1;
        let count = self.workers.len();
        let worker = &mut self.workers[number % count];
        (worker, 1 + (number / SECOND) as u32)
    }
}

fn set(worker: &mut Worker, record: u32, bytes: u32, now_s: u32) {
    ours::set(worker, &key(record), &value(bytes), Expiry::NEVER, now_s);
}

impl Policy for Ours {
    fn request(&mut self, record: u32, bytes: u32) -> bool {
        let (worker, now_s) = self.next();
        let key = key(record);
        let hash = worker.hash(&key);
        let shown = worker.read(&key, hash, now_s, Read::default(), |_| Some(()));
        if shown.is_err() {
            set(worker, record, bytes, now_s);
        }
        // It sleeps while the others work: none of them waits for it.
        worker.offline();
        shown.is_ok()
    }

    fn write(&mut self, record: u32, bytes: u32) {
        let (worker, now_s) = self.next();
        set(worker, record, bytes, now_s);
        worker.offline();
    }

    fn used(&self) -> u64 {
        self.workers[0].store().statistics().bytes_used()
    }
}

/// The hit ratio of a memcached with `capacity` bytes for items, its hash table and what else it
/// needs not counted. None: it is not installed, or the memory is too little for it.
pub(crate) fn memcached(workload: &Workload, capacity: u64) -> Option<f64> {
    if capacity < MEMCACHED_LEAST {
        return None;
    }
    let server = Memcached::start(capacity >> 20).ok()??;
    let stream = server.connect().ok()?;
    ask(workload, stream).ok()
}

fn ask(workload: &Workload, mut stream: TcpStream) -> io::Result<f64> {
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let warm = workload.requests.len() / 2;
    let (mut reads, mut hits) = (0_u32, 0_u32);
    let mut out = Vec::new();
    let mut line = Vec::new();
    for (burst, requests) in workload.requests.chunks(BURST).enumerate() {
        for &Request { record, is_write } in requests {
            if is_write {
                push_set(&mut out, workload, record)?;
            } else {
                out.extend_from_slice(b"mg ");
                out.extend_from_slice(&key(record));
                out.extend_from_slice(b"\r\n");
            }
        }
        stream.write_all(&out)?;
        out.clear();
        for (at, &Request { record, .. }) in requests
            .iter()
            .enumerate()
            .filter(|(_, request)| !request.is_write)
        {
            line.clear();
            answers.read_until(b'\n', &mut line)?;
            // A refused set speaks up although it is to be quiet.
            while line.starts_with(b"NS") || line.starts_with(b"SERVER_ERROR") {
                line.clear();
                answers.read_until(b'\n', &mut line)?;
            }
            let is_hit = line.starts_with(b"HD");
            if !is_hit && !line.starts_with(b"EN") {
                let text = String::from_utf8_lossy(&line).into_owned();
                return Err(io::Error::other(text));
            }
            if !is_hit {
                push_set(&mut out, workload, record)?;
            }
            if burst * BURST + at >= warm {
                reads += 1;
                hits += u32::from(is_hit);
            }
        }
    }
    Ok(f64::from(hits) / f64::from(reads))
}

fn push_set(out: &mut Vec<u8>, workload: &Workload, record: u32) -> io::Result<()> {
    let value = value(workload.lens[record as usize]);
    out.extend_from_slice(b"ms ");
    out.extend_from_slice(&key(record));
    write!(out, " {} q\r\n", value.len())?;
    out.extend_from_slice(&value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}
