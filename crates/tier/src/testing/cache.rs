//! A store with a tier below it on a device in memory, whose reads are done as a session does them.
//! Without threads, so a trace of requests always has the same counts.

use std::sync::Arc;

use store::{Config, Expiry, KeyHash, Mode, Read, Store, Worker, Write};

use super::MemoryDevice;
use crate::{Device, Rules, RulesError, Tier};

/// How requests ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Hits {
    /// All requests.
    pub requests: u64,
    /// Those whose item was in memory.
    pub memory: u64,
    /// Those whose item was in the tier only.
    pub tier: u64,
}

impl Hits {
    /// Those since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            memory: self.memory - earlier.memory,
            tier: self.tier - earlier.tier,
        }
    }
}

/// A store and its tier.
#[derive(Debug)]
pub struct TieredCache {
    /// The tier.
    pub tier: Arc<Tier>,
    workers: Vec<Worker>,
    /// The worker of the next request.
    next: usize,
    /// How the requests so far have ended.
    pub hits: Hits,
    /// An item that is read from the tier is requested twice at once. It stays in memory then, as
    /// if one request were enough for that.
    pub requests_twice: bool,
}

impl TieredCache {
    /// An empty cache, whose requests are distributed over the workers of `config`.
    ///
    /// # Errors
    /// The tier cannot be of this size.
    ///
    /// # Panics
    /// The store cannot be created.
    pub fn new(config: Config, rules: Rules, tier_bytes: u64) -> Result<Self, RulesError> {
        let device: Box<dyn Device> = Box::new(MemoryDevice::new(tier_bytes as usize));
        let tier = Arc::new(Tier::new(rules, 1, vec![(device, tier_bytes)])?);
        let store = Store::with_tier(config, Some(Arc::<Tier>::clone(&tier)));
        let Ok(store) = store else {
            panic!("the store cannot be created");
        };
        let mut workers: Vec<Worker> = (0..config.workers).map(|_| store.worker()).collect();
        for worker in &mut workers {
            worker.offline();
        }
        Ok(Self {
            tier,
            workers,
            next: 0,
            hits: Hits::default(),
            requests_twice: false,
        })
    }

    /// Reads an item. Returns whether there was one.
    pub fn get(&mut self, key: &[u8], now_s: u32) -> bool {
        self.request(key, now_s, |worker, hash| read(worker, key, hash, now_s))
    }

    /// Executes a request that needs the item of a key; `execute` returns whether there is one in
    /// memory. Returns whether there was one.
    pub fn request(
        &mut self,
        key: &[u8],
        now_s: u32,
        mut execute: impl FnMut(&mut Worker, KeyHash) -> bool,
    ) -> bool {
        self.hits.requests += 1;
        let (tier, requests_twice) = (Arc::clone(&self.tier), self.requests_twice);
        let (is_in_memory, is_in_tier) = self.with_worker(|worker| {
            let hash = worker.hash(key);
            let is_in_memory = execute(worker, hash);
            let is_in_tier = !is_in_memory && restore(worker, &tier, key, hash, now_s);
            if is_in_tier {
                // The request is executed again, now that the item is in memory.
                execute(worker, hash);
                if requests_twice {
                    execute(worker, hash);
                }
            }
            (is_in_memory, is_in_tier)
        });
        self.hits.memory += u64::from(is_in_memory);
        self.hits.tier += u64::from(is_in_tier);
        is_in_memory || is_in_tier
    }

    /// Writes an item, and what the tier has to write.
    pub fn set(&mut self, key: &[u8], value: &[u8], now_s: u32) {
        self.with_worker(|worker| {
            let hash = worker.hash(key);
            let write = Write::plain(Mode::Set, Expiry::NEVER);
            // A full memory makes a later miss.
            let _ = worker.put(key, hash, value, &write, now_s);
        });
    }

    fn with_worker<R>(&mut self, execute: impl FnOnce(&mut Worker) -> R) -> R {
        let count = self.workers.len();
        let worker = &mut self.workers[self.next % count];
        self.next += 1;
        worker.online();
        let result = execute(worker);
        worker.quiescent();
        worker.offline();
        while self.tier.write_next() {}
        result
    }
}

fn read(worker: &mut Worker, key: &[u8], hash: KeyHash, now_s: u32) -> bool {
    let found = worker.read(key, hash, now_s, Read::default(), |_| Some(()));
    matches!(found, Ok(Some(())))
}

/// Brings an item from the tier into memory.
fn restore(worker: &mut Worker, tier: &Tier, key: &[u8], hash: KeyHash, now_s: u32) -> bool {
    let Some(address) = worker.find_in_tier(hash, now_s) else {
        return false;
    };
    let Some(record) = tier.read(worker.raw_hash(hash), address, key) else {
        return false;
    };
    let restored = worker.restore(&record.item(), hash, record.value(), address, now_s);
    restored == Ok(true)
}
