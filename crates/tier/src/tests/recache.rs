//! When an item of the tier stays in memory, and how often the tier is read. Counts from a seed.

use store::{
    Arithmetic, ArithmeticOutcome, Config, Direction, Expiry, KeyHash, Mode, Published, Read,
    Worker, Write,
};

use crate::testing::{Hits, Random, TieredCache, Zipf};
use crate::{Rules, Statistics};

const MEMORY: u64 = 2 << 20;
const SEGMENT: u64 = 64 << 10;
/// Requests a second of the cache's clock.
const RATE: u64 = 20_000;

fn cache(workers: usize, item_bytes: u32, tier_bytes: u64) -> TieredCache {
    let config = Config {
        memory_bytes: MEMORY,
        hash_seed: 1,
        workers,
        ..Config::DEFAULT
    };
    let rules = Rules {
        segment_bytes: Some(SEGMENT),
        item_bytes,
        ..Rules::default()
    };
    TieredCache::new(config, rules, tier_bytes).unwrap()
}

/// Fills memory and a part of the tier with items of one kilobyte, the first ones of which are in
/// the tier only.
fn filled() -> TieredCache {
    let mut cache = cache(1, 1024, 32 << 20);
    for key in 0..4000 {
        cache.set(format!("filler {key}").as_bytes(), &[b'f'; 1000], 1);
    }
    cache
}

/// Evicts the small part, which is nearly all of the memory, but not the main part.
fn turn_over_the_small_part(cache: &mut TieredCache, name: &str) {
    for key in 0..2500 {
        cache.set(format!("{name} {key}").as_bytes(), &[b'n'; 1000], 1);
    }
}

/// Whether a request is answered from memory.
fn is_in_memory(cache: &mut TieredCache, key: &str) -> bool {
    let before = cache.hits;
    assert!(cache.get(key.as_bytes(), 1), "{key} has been lost");
    cache.hits.since(before).memory == 1
}

#[test]
fn an_item_of_the_tier_stays_in_memory_from_its_second_request_on() {
    let mut cache = filled();
    let (once, twice) = ("filler 1", "filler 2");
    for key in [once, twice] {
        assert!(!is_in_memory(&mut cache, key));
    }
    assert!(is_in_memory(&mut cache, twice));
    turn_over_the_small_part(&mut cache, "first");
    assert!(is_in_memory(&mut cache, twice), "it was requested twice");
    assert!(!is_in_memory(&mut cache, once), "it was requested once");
    // Its second request was long after the first one, when it had left memory.
    turn_over_the_small_part(&mut cache, "second");
    assert!(!is_in_memory(&mut cache, once));
}

/// The second at which touched items expire.
const LATER_S: u32 = 1000;

/// Executes a request that needs the item of a key, at second 1. Returns whether it is in memory.
type Execute = fn(&mut Worker, &[u8], KeyHash) -> bool;

fn increment(worker: &mut Worker, key: &[u8], hash: KeyHash) -> bool {
    let arithmetic = Arithmetic::plain(Direction::Up, 1);
    let outcome = worker.arith(key, hash, &arithmetic, 1);
    matches!(outcome, ArithmeticOutcome::Done(_))
}

fn append(worker: &mut Worker, key: &[u8], hash: KeyHash) -> bool {
    let write = Write::plain(Mode::Append, Expiry::NEVER);
    let published = worker.put(key, hash, b"0", &write, 1);
    matches!(published, Ok(Published::Stored { .. }))
}

fn get_and_touch(worker: &mut Worker, key: &[u8], hash: KeyHash) -> bool {
    let read = Read {
        touch: Some(Expiry::at(LATER_S)),
        ..Read::default()
    };
    let found = worker.read(key, hash, 1, read, |_| Some(()));
    matches!(found, Ok(Some(())))
}

/// Requests that replace or move the item counted at once, so a single one kept it in memory.
#[test]
fn one_request_that_changes_an_item_of_the_tier_does_not_keep_it_in_memory() {
    let never = Expiry::NEVER;
    // With the length of the item, and its expiry after the request: items with a time to live have
    // segments of their own.
    let requests: [(&str, Execute, usize, Expiry); 3] = [
        ("increment", increment, 10, never),
        ("append", append, 1000, never),
        ("touch", get_and_touch, 1000, Expiry::at(LATER_S)),
    ];
    for (name, execute, len, expiry) in requests {
        let mut cache = cache(1, 1024, 32 << 20);
        let (once, twice) = ("counter 1", "counter 2");
        for key in [once, twice] {
            cache.set(key.as_bytes(), &b"1".repeat(len), 1);
        }
        for key in 0..4000 {
            cache.set(format!("filler {key}").as_bytes(), &[b'f'; 1000], 1);
        }
        for key in [once, twice, twice] {
            let key = key.as_bytes();
            assert!(cache.request(key, 1, |worker, hash| execute(worker, key, hash)));
        }
        let expected = Hits {
            requests: 3,
            memory: 1,
            tier: 2,
        };
        assert_eq!(cache.hits, expected, "{name}");
        for key in 0..2500 {
            let (key, write) = (format!("later {key}"), Write::plain(Mode::Set, expiry));
            let put = |worker: &mut Worker, hash| {
                let value = [b'n'; 1000];
                worker.put(key.as_bytes(), hash, &value, &write, 1).is_ok()
            };
            assert!(cache.request(key.as_bytes(), 1, put));
        }
        assert!(is_in_memory(&mut cache, twice), "{name}, twice");
        assert!(!is_in_memory(&mut cache, once), "{name}, once");
    }
}

/// A trace by Zipf's law, where a miss is followed by a set. Returns the counts of its second half.
fn trace(cache: &mut TieredCache, items: usize, exponent: f64) -> Hits {
    let (mut random, popularity) = (Random(1), Zipf::new(items, exponent));
    let mut half = Hits::default();
    for number in 0..12 * items {
        if number == 6 * items {
            half = cache.hits;
        }
        let now_s = 1 + (cache.hits.requests / RATE) as u32;
        let key = popularity.draw(&mut random).to_string();
        if !cache.get(key.as_bytes(), now_s) {
            cache.set(key.as_bytes(), &[b'v'; 1000], now_s);
        }
    }
    cache.hits.since(half)
}

/// By at least a twentieth.
#[test]
fn the_tier_is_read_less_than_if_one_request_were_enough() {
    // Five times the memory.
    let items = 5 * MEMORY as usize / 1060;
    for exponent in [0.8, 1.0] {
        let [second, first] = [false, true].map(|requests_twice| {
            let mut cache = cache(1, 1024, 32 << 20);
            cache.requests_twice = requests_twice;
            trace(&mut cache, items, exponent)
        });
        println!("{exponent}: {second:?}, if one were enough {first:?}");
        assert!(
            second.tier * 20 <= first.tier * 19,
            "{exponent}: {second:?}, if one were enough {first:?}"
        );
    }
}

/// Small items leave memory for the tier too, as soon as their segments are full. Those in open
/// segments, at most a twentieth of the memory, stay.
#[test]
fn small_items_beyond_memory_are_in_the_tier() {
    let mut cache = cache(4, 64, 32 << 20);
    let items = 4 * MEMORY as usize / 80;
    for key in 0..items {
        cache.set(key.to_string().as_bytes(), &[b'v'; 50], 1);
    }
    let mut random = Random(1);
    for _ in 0..items {
        let key = random.next_u64() as usize % items;
        cache.get(key.to_string().as_bytes(), 1);
    }
    let hits = cache.hits;
    let share = |count: u64| count * 100 / hits.requests;
    let statistics: Statistics = cache.tier.statistics();
    assert_eq!(statistics.objects_displaced, 0);
    assert!(share(hits.memory) <= 30, "{hits:?}");
    assert!(share(hits.tier) >= 70, "{hits:?}");
    assert!(share(hits.memory + hits.tier) >= 99, "{hits:?}");
}
