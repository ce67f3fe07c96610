//! Public traces of requests, as their collections store them.
//!
//! A trace file is read whole: decompressed ([`compression`]), then parsed by its format
//! ([`format`]). Keys become numbers from 0 in the order of their first request, so that an array
//! holds what is known of each. [`catalogue`] lists the traces that hit ratios are measured with,
//! and divides them into those that a change of the store is chosen with and those that judge it.
//!
//! No trace is part of this repository, and nothing here downloads one.

pub mod catalogue;
pub mod compression;
pub mod format;

use std::collections::HashMap;
use std::io;

use thiserror::Error;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Looks the key up. A miss is followed by a write of the same item (cache-aside).
    Read,
    /// Stores the item.
    Write,
    /// Deletes the item.
    Delete,
}

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The number of its key, below [`Trace::keys`].
    pub key: u32,
    /// What it does.
    pub operation: Operation,
    /// Bytes of the item, key included. 0: the trace has no sizes.
    pub bytes: u32,
    /// Seconds after which the item expires. 0: never.
    pub ttl_s: u32,
    /// The second of the request since the first one. 0: the trace has no times.
    pub second: u32,
}

/// The requests of a trace, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// All requests.
    pub requests: Vec<Request>,
    /// Number of distinct keys.
    pub keys: u32,
}

impl Trace {
    /// Whether the trace says how large its items are.
    #[must_use]
    pub fn has_sizes(&self) -> bool {
        self.requests.iter().any(|request| request.bytes > 0)
    }

    /// Whether the trace says when its requests were made.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.requests.iter().any(|request| request.second > 0)
    }

    /// Keeps the first `requests` requests.
    pub fn truncate(&mut self, requests: usize) {
        self.requests.truncate(requests);
        // Keys are numbered in the order of their first requests.
        self.keys = self.requests.iter().map(|it| it.key + 1).max().unwrap_or(0);
    }

    /// Share of the requests that write or delete.
    #[must_use]
    pub fn write_share(&self) -> f64 {
        let is_write = |request: &&Request| request.operation != Operation::Read;
        let writes = self.requests.iter().filter(is_write).count();
        writes as f64 / self.requests.len().max(1) as f64
    }
}

/// The error of reading a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be read, or its compressed data is damaged.
    #[error("read the trace: {0}")]
    Io(#[from] io::Error),
    /// A line has not the fields of the format.
    #[error("parse line {line} of the trace: {expected} is expected")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What the format has there.
        expected: &'static str,
    },
    /// The file ends within a record.
    #[error("parse the trace: its length of {len} bytes is no multiple of {record}")]
    Truncated {
        /// Length of the decompressed file in bytes.
        len: usize,
        /// Length of a record in bytes.
        record: usize,
    },
    /// The trace has more distinct keys than can be numbered.
    #[error("parse the trace: it has more than {} keys", u32::MAX)]
    TooManyKeys,
}

/// Builds a trace from requests whose keys are names of any kind.
#[derive(Debug, Default)]
struct Builder {
    numbers: HashMap<u64, u32>,
    requests: Vec<Request>,
}

impl Builder {
    /// Adds a request. `name` identifies its key in the trace.
    fn add(&mut self, name: u64, request: Request) -> Result<(), TraceError> {
        let next = u32::try_from(self.numbers.len()).map_err(|_| TraceError::TooManyKeys)?;
        let key = *self.numbers.entry(name).or_insert(next);
        self.requests.push(Request { key, ..request });
        Ok(())
    }

    /// Adds a read of which only the key is known.
    fn add_read(&mut self, name: u64) -> Result<(), TraceError> {
        self.add(name, READ)
    }

    fn finish(self) -> Trace {
        let mut trace = Trace {
            requests: self.requests,
            keys: self.numbers.len() as u32,
        };
        let first_s = trace.requests.first().map_or(0, |request| request.second);
        for request in &mut trace.requests {
            request.second = request.second.saturating_sub(first_s);
        }
        fill_reads(&mut trace);
        trace
    }
}

/// A read of an item of unknown size.
const READ: Request = Request {
    key: 0,
    operation: Operation::Read,
    bytes: 0,
    ttl_s: 0,
    second: 0,
};

/// Gives each request without size or expiry those of the last request of its key that has them,
/// or else of the first one. Logs of servers know the size of an item at a hit, and its expiry at a
/// write only, but the write that follows a miss needs both.
fn fill_reads(trace: &mut Trace) {
    let mut known = vec![(0, 0); trace.keys as usize];
    for request in trace.requests.iter().rev() {
        let (bytes, ttl_s) = &mut known[request.key as usize];
        *bytes = if request.bytes > 0 {
            request.bytes
        } else {
            *bytes
        };
        *ttl_s = if request.ttl_s > 0 {
            request.ttl_s
        } else {
            *ttl_s
        };
    }
    for request in &mut trace.requests {
        let (bytes, ttl_s) = &mut known[request.key as usize];
        match request.bytes {
            0 => request.bytes = *bytes,
            present => *bytes = present,
        }
        match (request.operation, request.ttl_s) {
            // A write without expiry stores an item that does not expire.
            (Operation::Write, present) => *ttl_s = present,
            (_, 0) => request.ttl_s = *ttl_s,
            (_, present) => *ttl_s = present,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_has_the_size_and_expiry_of_the_write_that_is_known_of_its_key() {
        let mut builder = Builder::default();
        let write = |bytes, ttl_s| Request {
            operation: Operation::Write,
            bytes,
            ttl_s,
            ..READ
        };
        builder.add_read(7).unwrap();
        builder.add(7, write(100, 60)).unwrap();
        builder.add_read(7).unwrap();
        builder.add(7, write(200, 0)).unwrap();
        builder.add_read(7).unwrap();
        builder.add_read(8).unwrap();
        let trace = builder.finish();
        let known: Vec<(u32, u32)> = trace
            .requests
            .iter()
            .map(|request| (request.bytes, request.ttl_s))
            .collect();
        assert_eq!(
            known,
            [(100, 60), (100, 60), (100, 60), (200, 0), (200, 0), (0, 0)]
        );
        assert_eq!(trace.keys, 2);
        assert!(trace.has_sizes() && !trace.has_times());
        assert!((trace.write_share() - 2.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_truncated_trace_has_only_the_keys_of_its_requests() {
        let mut builder = Builder::default();
        [5, 9, 5, 7]
            .iter()
            .for_each(|&name| builder.add_read(name).unwrap());
        let mut trace = builder.finish();
        trace.truncate(3);
        assert_eq!((trace.requests.len(), trace.keys), (3, 2));
    }

    #[test]
    fn seconds_are_counted_from_the_first_request() {
        let mut builder = Builder::default();
        for second in [100, 100, 107] {
            builder.add(1, Request { second, ..READ }).unwrap();
        }
        let seconds = builder
            .finish()
            .requests
            .iter()
            .map(|it| it.second)
            .collect::<Vec<_>>();
        assert_eq!(seconds, [0, 0, 7]);
    }
}
