//! Replays a trace on a cache, as a client with the cache-aside pattern would: look-ups come in
//! bursts, and each miss is followed by a write after its burst.

use crate::policy::Policy;
use crate::trace::{Operation, Request, Trace};

/// A cache that a trace is replayed on.
pub trait Cache {
    /// Performs the requests of a burst in order. For each, adds to `hits` whether its item was
    /// there; the value is used for reads only.
    fn perform(&mut self, burst: &[Request], hits: &mut Vec<bool>);

    /// Stores the item of a read that missed.
    fn fill(&mut self, request: &Request);

    /// Number of items kept now; 0: not known.
    fn items(&self) -> u64 {
        0
    }
}

/// How a trace is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests in a burst.
    pub burst: usize,
    /// Number of the request from which on reads count. Those before it warm the cache.
    pub counted_from: usize,
}

/// What a replay found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Reads that counted.
    pub reads: u64,
    /// Those that found their item.
    pub hits: u64,
    /// Most items kept at a time, of some hundred samples.
    pub items_max: u64,
}

impl Outcome {
    /// Hits divided by reads.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.hits as f64 / self.reads as f64
    }
}

/// Number of times that the items are counted.
const SAMPLES: usize = 400;

/// Replays requests on a cache.
pub fn replay(requests: &[Request], cache: &mut dyn Cache, pace: Pace) -> Outcome {
    let mut outcome = Outcome::default();
    let mut hits = Vec::with_capacity(pace.burst);
    let bursts = requests.len().div_ceil(pace.burst);
    let sampled = (bursts / SAMPLES).max(1);
    for (number, burst) in requests.chunks(pace.burst).enumerate() {
        hits.clear();
        cache.perform(burst, &mut hits);
        for (at, (request, &is_hit)) in burst.iter().zip(&hits).enumerate() {
            if request.operation != Operation::Read {
                continue;
            }
            if !is_hit {
                cache.fill(request);
            }
            if number * pace.burst + at >= pace.counted_from {
                outcome.reads += 1;
                outcome.hits += u64::from(is_hit);
            }
        }
        if number % sampled == 0 {
            outcome.items_max = outcome.items_max.max(cache.items());
        }
    }
    outcome.items_max = outcome.items_max.max(cache.items());
    outcome
}

/// Gives every item of a trace the same length, key included.
pub fn set_bytes(trace: &mut Trace, bytes: u32) {
    for request in &mut trace.requests {
        request.bytes = bytes;
    }
}

/// Gives the requests of a trace without times a second for each `requests` of them.
pub fn set_seconds(trace: &mut Trace, requests: usize) {
    for (number, request) in trace.requests.iter_mut().enumerate() {
        request.second = (number / requests.max(1)) as u32;
    }
}

/// What an item takes of a simulated policy's capacity.
#[derive(Debug, Clone, Copy)]
pub enum Charge {
    /// One, whatever its length.
    Item,
    /// Its length and so many bytes.
    Bytes(u32),
}

/// A policy as a cache. It knows no expiry and no deletion: an item that should be gone is a miss,
/// and takes its part of the capacity until it is evicted or stored again.
pub struct Simulated<'p> {
    policy: &'p mut dyn Policy,
    charge: Charge,
    /// For each record, the first second in which it is gone; `u32::MAX`: never.
    gone_s: Vec<u32>,
}

impl<'p> Simulated<'p> {
    /// Replays on `policy`, whose records are the `keys` of the trace.
    pub fn new(policy: &'p mut dyn Policy, keys: u32, charge: Charge) -> Self {
        Self {
            policy,
            charge,
            gone_s: vec![u32::MAX; keys as usize],
        }
    }

    fn bytes(&self, request: &Request) -> u32 {
        match self.charge {
            Charge::Item => 1,
            Charge::Bytes(overhead) => request.bytes.saturating_add(overhead),
        }
    }

    fn set_expiry(&mut self, request: &Request) {
        self.gone_s[request.key as usize] = match request.ttl_s {
            0 => u32::MAX,
            ttl_s => request.second.saturating_add(ttl_s),
        };
    }
}

impl Cache for Simulated<'_> {
    fn perform(&mut self, burst: &[Request], hits: &mut Vec<bool>) {
        for request in burst {
            let bytes = self.bytes(request);
            hits.push(match request.operation {
                Operation::Read => {
                    let is_kept = self.policy.lookup(request.key);
                    is_kept && request.second < self.gone_s[request.key as usize]
                }
                Operation::Write => {
                    self.policy.write(request.key, bytes);
                    self.set_expiry(request);
                    false
                }
                Operation::Delete => {
                    self.gone_s[request.key as usize] = 0;
                    false
                }
            });
        }
    }

    fn fill(&mut self, request: &Request) {
        self.policy.insert(request.key, self.bytes(request));
        self.set_expiry(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Lru;

    fn request(key: u32, operation: Operation, ttl_s: u32, second: u32) -> Request {
        Request {
            key,
            operation,
            bytes: 10,
            ttl_s,
            second,
        }
    }

    fn read(key: u32) -> Request {
        request(key, Operation::Read, 0, 0)
    }

    fn hits(requests: &[Request], capacity: u64, charge: Charge, pace: Pace) -> (u64, u64) {
        let mut lru = Lru::new(capacity, 10);
        let outcome = replay(requests, &mut Simulated::new(&mut lru, 10, charge), pace);
        (outcome.hits, outcome.reads)
    }

    const ALL: Pace = Pace {
        burst: 1,
        counted_from: 0,
    };

    #[test]
    fn a_miss_is_stored_after_its_burst() {
        let requests = [1, 1, 2, 1].map(read);
        assert_eq!(hits(&requests, 5, Charge::Item, ALL), (2, 4));
        let pace = Pace { burst: 2, ..ALL };
        assert_eq!(hits(&requests, 5, Charge::Item, pace), (1, 4));
        let pace = Pace {
            counted_from: 2,
            ..ALL
        };
        assert_eq!(hits(&requests, 5, Charge::Item, pace), (1, 2));
    }

    #[test]
    fn items_or_their_bytes_are_charged() {
        let requests = [1, 2, 1, 2].map(read);
        assert_eq!(hits(&requests, 2, Charge::Item, ALL), (2, 4));
        assert_eq!(hits(&requests, 29, Charge::Bytes(5), ALL), (0, 4));
        assert_eq!(hits(&requests, 30, Charge::Bytes(5), ALL), (2, 4));
    }

    #[test]
    fn an_item_is_gone_when_it_expires_or_is_deleted() {
        let at = |second| request(1, Operation::Read, 0, second);
        let requests = [request(1, Operation::Write, 5, 10), at(14), at(15), at(16)];
        // The miss in second 15 stores it again, without expiry.
        assert_eq!(hits(&requests, 5, Charge::Item, ALL), (2, 3));
        let requests = [
            read(1),
            read(1),
            request(1, Operation::Delete, 0, 0),
            read(1),
        ];
        assert_eq!(hits(&requests, 5, Charge::Item, ALL), (1, 3));
    }

    #[test]
    fn seconds_and_sizes_are_set() {
        let mut trace = Trace {
            requests: [1, 2, 1].map(read).to_vec(),
            keys: 3,
        };
        set_seconds(&mut trace, 2);
        set_bytes(&mut trace, 99);
        let known: Vec<(u32, u32)> = trace
            .requests
            .iter()
            .map(|request| (request.second, request.bytes))
            .collect();
        assert_eq!(known, [(0, 99), (0, 99), (1, 99)]);
    }
}
