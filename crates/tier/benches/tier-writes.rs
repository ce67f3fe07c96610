//! What the tier writes: a cache below which the ring comes round, with working sets of several
//! times its memory. Counts only, from a seed; the device is in memory.
//!
//! A miss is followed by a set, 5 % of the requests are sets of new values. After the ring has come
//! round twice, the same again is counted. *Amplification* is the bytes written to the device by
//! those of items that were new to the tier: the rest are copies that were written again before the
//! ring reached them, because their items were requested.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use store::Config;
use tier::Rules;
use tier::testing::{Random, TieredCache, Zipf};

const MEMORY: u64 = 16 << 20;
const VALUE: [u8; 1000] = [b'v'; 1000];
/// About the bytes of an item, in memory or in the tier.
const ITEM_LEN: u64 = 1060;
const SEGMENT: u64 = 256 << 10;
/// Requests a second of the cache's clock.
const RATE: u64 = 50_000;

struct Load {
    cache: TieredCache,
    random: Random,
    popularity: Zipf,
}

impl Load {
    fn new(items: u64, tier_bytes: u64, exponent: f64) -> Self {
        let rules = Rules {
            segment_bytes: Some(SEGMENT),
            ..Rules::default()
        };
        let config = Config {
            memory_bytes: MEMORY,
            hash_seed: 1,
            ..Config::DEFAULT
        };
        Self {
            cache: TieredCache::new(config, rules, tier_bytes).unwrap(),
            random: Random(1),
            popularity: Zipf::new(items as usize, exponent),
        }
    }

    fn request(&mut self) {
        let now_s = 1 + (self.cache.hits.requests / RATE) as u32;
        let key = self.popularity.draw(&mut self.random).to_string();
        let is_update = self.random.unit() < 0.05;
        if !self.cache.get(key.as_bytes(), now_s) || is_update {
            self.cache.set(key.as_bytes(), &VALUE, now_s);
        }
    }
}

fn main() {
    println!("memory 16 MiB, items of 1000 bytes, one seed\n");
    println!(
        "popularity  working set  tier  memory hits  tier hits  misses  written/s.  amplification"
    );
    for exponent in [0.0, 0.8, 1.0, 1.2] {
        for times in [2, 5, 20] {
            for share in [1.25, 0.5] {
                let working_set = MEMORY * times;
                let tier_bytes = (working_set as f64 * share) as u64 / SEGMENT * SEGMENT;
                report(exponent, times, share, tier_bytes);
            }
        }
    }
}

fn report(exponent: f64, times: u64, share: f64, tier_bytes: u64) {
    let items = MEMORY * times / ITEM_LEN;
    let mut load = Load::new(items, tier_bytes, exponent);
    let round = items * 10;
    for _ in 0..round {
        load.request();
    }
    let (before, hits) = (load.cache.tier.statistics(), load.cache.hits);
    for _ in 0..round {
        load.request();
    }
    let after = load.cache.tier.statistics();
    let hits = load.cache.hits.since(hits);
    let requests = hits.requests as f64;
    let (memory, tier) = (hits.memory as f64 / requests, hits.tier as f64 / requests);
    let written = after.objects_written - before.objects_written;
    let renewed = after.objects_renewed - before.objects_renewed;
    let amplification = written as f64 / (written - renewed).max(1) as f64;
    let rounds = (after.segments_opened - before.segments_opened) as f64 / after.segments as f64;
    println!(
        "{exponent:10} {times:8} × {share:8} × {:9.2} % {:8.2} % {:5.2} % {:9.3} {amplification:9.3}   \
         (ring {rounds:.1} ×)",
        memory * 100.0,
        tier * 100.0,
        (1.0 - memory - tier) * 100.0,
        written as f64 / requests,
    );
}
