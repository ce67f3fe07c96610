//! What the tier writes: a cache below which the ring comes round, with working sets of several
//! times its memory. Counts only, from a seed; the device is in memory.
//!
//! A miss is followed by a set, 5 % of the requests are sets of new values. After the ring has come
//! round twice, the same again is counted. *Amplification* is the bytes written to the device by
//! those of items that were new to the tier: the rest are copies that were written again before the
//! ring reached them, because their items were requested.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::sync::Arc;

use store::{Config, Expiry, Mode, Read, Store, Write};
use tier::testing::MemoryDevice;
use tier::{Device, Rules, Tier};

const MEMORY: u64 = 16 << 20;
const VALUE_LEN: usize = 1000;
/// About the bytes of an item, in memory or in the tier.
const ITEM_LEN: u64 = 1060;
const SEGMENT: u64 = 256 << 10;
/// The time does not pass.
const NOW_S: u32 = 1;

/// SplitMix64 (Steele and others, OOPSLA 2014).
struct Random(u64);

impl Random {
    /// A number of [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Hits {
    requests: u64,
    memory: u64,
    tier: u64,
}

struct Cache {
    worker: store::Worker,
    tier: Arc<Tier>,
    random: Random,
    hits: Hits,
    /// The working set, in items.
    items: u64,
    /// The popularity of item `x·items` falls with this power of x; 1: all are equally popular.
    skew: f64,
}

impl Cache {
    fn new(working_set: u64, tier_bytes: u64, skew: f64) -> Self {
        let device = MemoryDevice::new(tier_bytes as usize);
        let rules = Rules {
            segment_bytes: Some(SEGMENT),
            ..Rules::default()
        };
        let devices: Vec<(Box<dyn Device>, u64)> = vec![(Box::new(device), tier_bytes)];
        let tier = Arc::new(Tier::new(rules, 1, devices).unwrap());
        let config = Config {
            memory_bytes: MEMORY,
            hash_seed: 1,
            ..Config::DEFAULT
        };
        let store = Store::with_tier(config, Some(Arc::<Tier>::clone(&tier))).unwrap();
        Self {
            worker: store.worker(),
            tier,
            random: Random(1),
            hits: Hits::default(),
            items: working_set / ITEM_LEN,
            skew,
        }
    }

    fn request(&mut self) {
        let key = (self.random.unit().powf(self.skew) * self.items as f64) as u64;
        let name = key.to_string();
        self.hits.requests += 1;
        if self.random.unit() < 0.05 || !self.get(&name) {
            let hash = self.worker.hash(name.as_bytes());
            let write = Write::plain(Mode::Set, Expiry::NEVER);
            let value = [b'v'; VALUE_LEN];
            let _ = self
                .worker
                .put(name.as_bytes(), hash, &value, &write, NOW_S);
        }
        self.worker.quiescent();
        while self.tier.write_next() {}
    }

    fn get(&mut self, name: &str) -> bool {
        let hash = self.worker.hash(name.as_bytes());
        let read = Read::default();
        let key = name.as_bytes();
        if let Ok(Some(())) = self.worker.read(key, hash, NOW_S, read, |_| Some(())) {
            self.hits.memory += 1;
            return true;
        }
        let Some(address) = self.worker.find_in_tier(hash, NOW_S) else {
            return false;
        };
        let number = self.worker.hash_number(hash);
        let Some(record) = self.tier.read(number, address, key) else {
            return false;
        };
        let item = record.item();
        let _ = self
            .worker
            .restore(&item, hash, record.value(), address, NOW_S);
        // As a session does, which executes the request once the item is in memory.
        let _ = self.worker.read(key, hash, NOW_S, read, |_| Some(()));
        self.hits.tier += 1;
        true
    }
}

fn main() {
    println!("memory 16 MiB, items of 1000 bytes, one seed\n");
    println!(
        "popularity  working set  tier  memory hits  tier hits  misses  written/s.  amplification"
    );
    for (name, skew) in [("even", 1.0), ("skewed", 3.0)] {
        for times in [2, 5, 20] {
            for share in [1.25, 0.5] {
                let working_set = MEMORY * times;
                let tier_bytes = (working_set as f64 * share) as u64 / SEGMENT * SEGMENT;
                report(name, skew, times, share, tier_bytes);
            }
        }
    }
}

fn report(name: &str, skew: f64, times: u64, share: f64, tier_bytes: u64) {
    let mut cache = Cache::new(MEMORY * times, tier_bytes, skew);
    let round = cache.items * 20;
    for _ in 0..round {
        cache.request();
    }
    let (before, hits) = (cache.tier.statistics(), cache.hits);
    for _ in 0..round {
        cache.request();
    }
    let after = cache.tier.statistics();
    let requests = (cache.hits.requests - hits.requests) as f64;
    let part = |now: u64, before: u64| (now - before) as f64 / requests * 100.0;
    let memory = part(cache.hits.memory, hits.memory);
    let tier = part(cache.hits.tier, hits.tier);
    let written = after.objects_written - before.objects_written;
    let renewed = after.objects_renewed - before.objects_renewed;
    let amplification = written as f64 / (written - renewed).max(1) as f64;
    let rounds = (after.segments_opened - before.segments_opened) as f64 / after.segments as f64;
    println!(
        "{name:10} {times:8} × {share:8} × {memory:9.1} % {tier:8.1} % {:5.1} % {:9.3} {amplification:9.3}   \
         (ring {rounds:.1} ×)",
        100.0 - memory - tier,
        written as f64 / requests,
    );
}
