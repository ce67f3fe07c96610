//! The store's eviction without the store: segments of items of one length. The store's own
//! policies, ghosts and miniatures (`store::eviction`) decide about the items. There are no blocks,
//! no index and no threads, so a policy is tried on a trace in seconds. `store-hits` prints how far
//! the hit ratio of this simulation is from that of the store.
//!
//! *What it leaves out.* Segments kept free, pieces of large values, dead bytes and compaction,
//! copies refused for want of memory. An item takes the same memory wherever it is.
//!
//! *Memory.* An overwritten or deleted item leaves an entry of 8 bytes in its segment, which only
//! the segment's eviction removes. A trace that overwrites items that all fit evicts nothing, so it
//! takes 8 bytes for each of its writes.

use std::collections::VecDeque;

use store::eviction::{
    EvictionDecision, Ghosts, Lifetime, MeanLifetime, Miniatures, Observation, POLICIES, Part,
    SampleContext, SampleLimiter, SampledAccess, Traits, leaves_ghost, next_part,
};
use store::limits::FREQUENCY_MAX;
use store::{Expiry, Store};

use crate::policy::{Policy, scattered};
use crate::replay::Cache;
use crate::trace::{Operation, Request};

/// Requests in a second, where requests have no times.
const SECOND: u32 = 100_000;
/// Bytes of an item in the miniatures, which do not simulate an item that is a large part of the
/// memory.
const ITEM_BYTES: u32 = 1000;

/// The size of a simulated store.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of items that fit.
    pub items: u64,
    /// Number of items in a segment. At least one.
    pub items_per_segment: u64,
    /// Bytes of the table of ghosts.
    pub ghost_bytes: u64,
    /// Number of slots of the miniatures.
    pub miniature_slots: usize,
}

impl Shape {
    /// The shape of a store of `memory` bytes that holds `items` items of one length.
    #[must_use]
    pub fn of_store(memory: u64, items: u64) -> Self {
        Self {
            items: items.max(1),
            items_per_segment: (Store::segment_bytes(memory) * items / memory).max(1),
            ghost_bytes: Ghosts::bytes_in(memory),
            miniature_slots: Miniatures::slots_in(memory),
        }
    }
}

/// What the store's index entry and block header contain of an item.
#[derive(Debug, Clone, Copy, Default)]
struct Item {
    /// The part that contains it. `None`: it is not in memory.
    part: Option<Part>,
    frequency: u8,
    /// The second of the last request. Seconds begin with 1; 0: none since it was written.
    requested_s: u32,
    /// Number of times that it was written or copied. A segment contains the item if it has this
    /// number of it, and an obsolete entry otherwise.
    writes: u32,
}

/// The items of a segment, each with its [`Item::writes`] when it was added.
#[derive(Debug, Default)]
struct Segment {
    items: Vec<(u32, u32)>,
    opened_s: u32,
}

/// Segments in two parts.
#[derive(Debug)]
pub struct Segments {
    shape: Shape,
    items: Vec<Item>,
    /// The segments of each part, oldest first. The last one is open.
    parts: [VecDeque<Segment>; 2],
    /// Number of items in each part.
    counts: [u64; 2],
    policy: usize,
    /// Chooses the policy; `None`: it is fixed.
    miniatures: Option<Miniatures>,
    limiter: SampleLimiter,
    ghosts: Ghosts,
    mean_lifetime: MeanLifetime,
    /// Number of requests as a [`Policy`], which has no clock.
    requests: u32,
}

impl Segments {
    /// Simulates a store of this shape for the keys below `keys`. `policy` is the index of the only
    /// policy in [`POLICIES`]; `None`: the miniatures choose it, as in the store.
    #[must_use]
    pub fn new(shape: Shape, keys: u32, policy: Option<usize>) -> Self {
        Self {
            shape,
            items: vec![Item::default(); keys as usize],
            parts: Default::default(),
            counts: [0; 2],
            policy: policy.unwrap_or(0),
            miniatures: policy
                .is_none()
                .then(|| Miniatures::new(shape.miniature_slots)),
            limiter: SampleLimiter::default(),
            ghosts: Ghosts::new(shape.ghost_bytes as usize)
                .unwrap_or_else(|error| panic!("no address space for the ghosts: {error:?}")),
            mean_lifetime: MeanLifetime::default(),
            requests: 0,
        }
    }

    /// The name of the present policy.
    #[must_use]
    pub fn policy(&self) -> &'static str {
        POLICIES[self.policy].name
    }

    fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Passes a request to the miniatures.
    fn sample(&mut self, key: u32, access: SampledAccess, now_s: u32) {
        let hash = scattered(key);
        let Some(miniatures) = &self.miniatures else {
            return;
        };
        if !miniatures.watches(hash) || !self.limiter.admits(hash, now_s) {
            return;
        }
        let context = SampleContext {
            bytes: self.shape.items * u64::from(ITEM_BYTES),
            ghosts: self.ghosts.capacity(),
            flushes: 0,
        };
        let observation = Observation {
            hash,
            access,
            now_s,
        };
        let policy = &mut self.policy;
        miniatures.observe(&observation, &context, |best| *policy = best);
    }

    /// Reads an item. Returns whether it is there.
    fn read(&mut self, key: u32, now_s: u32) -> bool {
        let item = &mut self.items[key as usize];
        let is_hit = item.part.is_some();
        if is_hit && (item.requested_s != now_s || item.frequency == 0) {
            item.requested_s = now_s;
            item.frequency = (item.frequency + 1).min(FREQUENCY_MAX);
        }
        let access = match is_hit {
            true => SampledAccess::Hit(TRAITS),
            false => SampledAccess::Missed,
        };
        self.sample(key, access, now_s);
        is_hit
    }

    /// Writes an item, whether it is there or not.
    fn store(&mut self, key: u32, now_s: u32) {
        let policy = &POLICIES[self.policy];
        let item = &mut self.items[key as usize];
        let part = match item.part {
            Some(part) if policy.probation => part,
            Some(_) => Part::Main,
            None => policy.part_of_new(|| {
                self.ghosts
                    .contains(scattered(key), policy.long_ghost_window)
            }),
        };
        match item.part.take() {
            Some(before) => {
                self.counts[before as usize] -= 1;
                item.frequency = (item.frequency + 1).min(FREQUENCY_MAX);
            }
            None => {
                (item.frequency, item.requested_s) = (0, 0);
                self.ghosts.take(scattered(key));
            }
        }
        self.append(key, part, now_s);
        while self.len() > self.shape.items {
            self.evict(now_s);
        }
        if let Some(miniatures) = &self.miniatures
            && self.len() * 2 > self.shape.items
        {
            miniatures.start(2 * self.len());
        }
        self.sample(key, SampledAccess::Stored(TRAITS), now_s);
    }

    /// Adds an item to the open segment of a part.
    fn append(&mut self, key: u32, part: Part, now_s: u32) {
        let item = &mut self.items[key as usize];
        item.writes += 1;
        item.part = Some(part);
        let segments = &mut self.parts[part as usize];
        let is_open =
            |segment: &Segment| (segment.items.len() as u64) < self.shape.items_per_segment;
        if !segments.back().is_some_and(is_open) {
            segments.push_back(Segment {
                items: Vec::new(),
                opened_s: now_s,
            });
        }
        if let Some(open) = segments.back_mut() {
            open.items.push((key, item.writes));
        }
        self.counts[part as usize] += 1;
    }

    /// Evacuates the segment that the policy selects.
    fn evict(&mut self, now_s: u32) {
        let policy = &POLICIES[self.policy];
        let [small, main] = self.counts;
        let part = next_part(small, policy.small_share(self.shape.items), main == 0);
        let Some(segment) = self.parts[part as usize].pop_front() else {
            return;
        };
        if part == Part::Main {
            let lifetime_s = now_s.saturating_sub(segment.opened_s);
            self.mean_lifetime = self.mean_lifetime.after(lifetime_s);
        }
        let lifetime = Lifetime {
            opened_s: segment.opened_s,
            now_s,
            mean_s: self.mean_lifetime.seconds(),
        };
        for (key, write) in segment.items {
            let item = &mut self.items[key as usize];
            if item.part.is_none() || item.writes != write {
                continue;
            }
            item.part = None;
            self.counts[part as usize] -= 1;
            let requested_s = item.requested_s;
            let is_late = || lifetime.requested_after_first_quarter(requested_s);
            match policy.decide(part, item.frequency, is_late) {
                EvictionDecision::Keep { part, frequency } => {
                    item.frequency = frequency;
                    self.append(key, part, now_s);
                }
                EvictionDecision::Evict if leaves_ghost(part) => {
                    self.ghosts.remember(scattered(key));
                }
                EvictionDecision::Evict => {}
            }
        }
        self.ghosts.fit(self.len());
    }

    /// The second of the present request as a [`Policy`], from 1.
    fn now_s(&self) -> u32 {
        1 + self.requests / SECOND
    }

    /// Deletes an item.
    fn delete(&mut self, key: u32, now_s: u32) {
        if let Some(part) = self.items[key as usize].part.take() {
            self.counts[part as usize] -= 1;
        }
        self.sample(key, SampledAccess::Deleted, now_s);
    }
}

/// What the miniatures are told of every item.
const TRAITS: Traits = Traits {
    bytes: ITEM_BYTES,
    expiry: Expiry::NEVER,
};

/// The second of a request, from 1.
fn second(request: &Request) -> u32 {
    request.second + 1
}

impl Cache for Segments {
    fn perform(&mut self, burst: &[Request], hits: &mut Vec<bool>) {
        for request in burst {
            let now_s = second(request);
            hits.push(match request.operation {
                Operation::Read => self.read(request.key, now_s),
                Operation::Write => {
                    self.store(request.key, now_s);
                    false
                }
                Operation::Delete => {
                    self.delete(request.key, now_s);
                    false
                }
            });
        }
    }

    fn fill(&mut self, request: &Request) {
        self.store(request.key, second(request));
    }

    fn items(&self) -> u64 {
        self.len()
    }
}

impl Policy for Segments {
    fn lookup(&mut self, record: u32) -> bool {
        self.requests += 1;
        self.read(record, self.now_s())
    }

    fn insert(&mut self, record: u32, _bytes: u32) {
        self.store(record, self.now_s());
    }

    fn write(&mut self, record: u32, _bytes: u32) {
        self.requests += 1;
        self.store(record, self.now_s());
    }

    fn used(&self) -> u64 {
        self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Pace, replay};

    const SHAPE: Shape = Shape {
        items: 1000,
        items_per_segment: 4,
        ghost_bytes: 8000,
        miniature_slots: 512,
    };

    fn ratio(keys: impl Iterator<Item = u32>, policy: Option<&str>) -> f64 {
        let number = |name| {
            let position = POLICIES.iter().position(|policy| policy.name == name);
            position.unwrap()
        };
        let requests: Vec<Request> = keys
            .enumerate()
            .map(|(number, key)| Request {
                key,
                operation: Operation::Read,
                bytes: 0,
                ttl_s: 0,
                second: number as u32 / 100,
            })
            .collect();
        let pace = Pace {
            burst: 8,
            counted_from: requests.len() / 2,
        };
        let mut segments = Segments::new(SHAPE, 20_000, policy.map(number));
        replay(&requests, &mut segments, pace).ratio()
    }

    /// Between two requests of a popular item there are more other items than fit.
    #[test]
    fn popular_items_survive_a_scan_only_if_new_items_are_on_probation() {
        let scan = || {
            (0..100_000).map(|turn| match turn % 2 {
                0 => turn / 2 % 600,
                _ => 600 + turn / 2 % 19_000,
            })
        };
        assert!(ratio(scan(), Some("frequent")) > 0.45);
        assert!(ratio(scan(), Some("clock")) < 0.1);
        let chosen = ratio(scan(), None);
        assert!(chosen > 0.45, "{chosen}");
    }

    #[test]
    fn items_that_fit_are_all_hits_and_a_new_working_set_replaces_the_old() {
        for policy in POLICIES.iter().map(|policy| Some(policy.name)) {
            let both = (0..200_000).map(|turn| turn % 900 + turn / 100_000 * 5000);
            let hits = ratio(both, policy);
            assert!(hits > 0.9, "{policy:?}: {hits}");
        }
    }
}
