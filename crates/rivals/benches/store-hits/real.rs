//! The store itself and memcached itself, asked what the policies are asked.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::TcpStream;

use rivals::memcached::Memcached;
use rivals::ours;
use store::{Config, Expiry, Read, Store};

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

/// Hits among the gets behind the first half.
#[derive(Default)]
struct Tally {
    reads: u32,
    hits: u32,
}

impl Tally {
    fn ratio(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.reads)
    }
}

fn key(record: u32) -> [u8; KEY_LEN] {
    let mut key = [b'k'; KEY_LEN];
    let mut rest = record;
    for byte in key.iter_mut().rev().take(10) {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A value that makes up the record's length.
fn value(workload: &Workload, record: u32) -> Vec<u8> {
    vec![b'v'; workload.lens[record as usize] as usize - KEY_LEN]
}

/// The hit ratio of our store in `capacity` bytes, index and names of what left included.
pub(crate) fn store(workload: &Workload, capacity: u64) -> f64 {
    let config = Config {
        memory_bytes: capacity,
        item_max: (capacity / ITEMS_LEAST).min(Config::DEFAULT.item_max.into()) as u32,
        hash_seed: 7,
        ..Config::DEFAULT
    };
    let Ok(store) = Store::new(config) else {
        return f64::NAN;
    };
    let mut worker = store.worker();
    let warm = workload.requests.len() / 2;
    let mut tally = Tally::default();
    for (number, &Request { record, is_write }) in workload.requests.iter().enumerate() {
        let key = key(record);
        let now_s = 1 + (number / SECOND) as u32;
        let is_hit = !is_write && {
            let hash = worker.hash(&key);
            let shown = worker.read(&key, hash, now_s, Read::default(), |_| Some(()));
            shown.is_ok()
        };
        if !is_hit {
            ours::set(
                &worker,
                &key,
                &value(workload, record),
                Expiry::NEVER,
                now_s,
            );
        }
        worker.quiescent();
        if !is_write && number >= warm {
            tally.reads += 1;
            tally.hits += u32::from(is_hit);
        }
    }
    tally.ratio()
}

/// The hit ratio of a memcached with `capacity` bytes for items, its hash table and what else it
/// needs not counted. None: it is not installed, or the memory is too little for it.
pub(crate) fn memcached(workload: &Workload, capacity: u64) -> Option<f64> {
    if capacity < MEMCACHED_LEAST {
        return None;
    }
    let server = Memcached::start(capacity >> 20).ok()??;
    let stream = server.connect().ok()?;
    ask(workload, stream).ok().map(|tally| tally.ratio())
}

fn ask(workload: &Workload, mut stream: TcpStream) -> io::Result<Tally> {
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let warm = workload.requests.len() / 2;
    let mut tally = Tally::default();
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
                tally.reads += 1;
                tally.hits += u32::from(is_hit);
            }
        }
    }
    Ok(tally)
}

fn push_set(out: &mut Vec<u8>, workload: &Workload, record: u32) -> io::Result<()> {
    let value = value(workload, record);
    out.extend_from_slice(b"ms ");
    out.extend_from_slice(&key(record));
    write!(out, " {} q\r\n", value.len())?;
    out.extend_from_slice(&value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}
