//! A store with a tier on a device that fails, against a map. Each seed is a history of random
//! operations. A read returns the value that was acknowledged last, or it misses; anything else is
//! an error. `SEEDS=N` runs another number of histories, and `SEED=N` a single one.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use store::{Config, Expiry, Mode, Read, Rejected, Store, Write};

use crate::{Device, Rules, Tier};

const KEYS: u64 = 1200;
const OPERATIONS: u32 = 5000;
const SEGMENT: u64 = 64 << 10;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, odds: u64) -> bool {
        odds > 0 && self.below(odds) == 0
    }
}

/// How often a device fails: once in N operations. 0: never.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    write_fails: u64,
    write_is_lost: u64,
    write_is_torn: u64,
    write_goes_elsewhere: u64,
    read_fails: u64,
    bit_flips: u64,
}

#[derive(Debug)]
struct SimulatedDevice {
    bytes: Mutex<Vec<u8>>,
    faults: Faults,
    seed: AtomicU64,
}

impl SimulatedDevice {
    fn random(&self) -> Random {
        Random(
            self.seed
                .fetch_add(0x1234_5678_9abc_def1, Ordering::Relaxed),
        )
    }
}

impl Device for SimulatedDevice {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut random = self.random();
        if random.one_in(self.faults.read_fails) {
            return Err(io::Error::other("no medium"));
        }
        let offset = offset as usize;
        buffer.copy_from_slice(&self.bytes.lock().unwrap()[offset..offset + buffer.len()]);
        if random.one_in(self.faults.bit_flips) {
            let bit = random.below(buffer.len() as u64 * 8) as usize;
            buffer[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut random = self.random();
        if random.one_in(self.faults.write_fails) {
            return Err(io::Error::other("no medium"));
        }
        if random.one_in(self.faults.write_is_lost) {
            return Ok(());
        }
        let mut offset = offset as usize;
        if random.one_in(self.faults.write_goes_elsewhere) {
            offset = offset.saturating_sub(SEGMENT as usize);
        }
        let len = match random.one_in(self.faults.write_is_torn) {
            true => random.below(bytes.len() as u64) as usize,
            false => bytes.len(),
        };
        self.bytes.lock().unwrap()[offset..offset + len].copy_from_slice(&bytes[..len]);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn tier(seed: u64, rules: Rules, faults: Faults) -> Arc<Tier> {
    let bytes = SEGMENT * 24;
    let device = |share: u64| -> (Box<dyn Device>, u64) {
        let device = SimulatedDevice {
            bytes: Mutex::new(vec![0; share as usize]),
            faults,
            seed: AtomicU64::new(seed ^ share),
        };
        (Box::new(device), share)
    };
    let devices = vec![device(bytes / 3), device(bytes - bytes / 3)];
    Arc::new(Tier::new(rules, seed, devices).unwrap())
}

struct Expected {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    memory_hits: u64,
    tier_hits: u64,
    misses_of_present: u64,
    changed_meanwhile: u64,
}

struct History {
    random: Random,
    worker: store::Worker,
    tier: Arc<Tier>,
    expected: HashMap<u64, Expected>,
    now_s: u32,
    version: u64,
    seen: Seen,
}

impl History {
    fn new(seed: u64, rules: Rules, faults: Faults) -> Self {
        let tier = tier(seed, rules, faults);
        let config = Config {
            memory_bytes: 1 << 20,
            item_max: 40 << 10,
            hash_seed: seed,
            ..Config::DEFAULT
        };
        let store = Store::with_tier(config, Some(Arc::<Tier>::clone(&tier))).unwrap();
        Self {
            random: Random(seed),
            worker: store.worker(),
            tier,
            expected: HashMap::new(),
            now_s: 1,
            version: 0,
            seen: Seen::default(),
        }
    }

    fn run(&mut self, operations: Range<u32>) {
        for operation in operations {
            let key = self.key();
            match self.random.below(100) {
                0..40 => self.get(key),
                40..75 => self.set(key),
                75..80 => self.delete(key),
                80..83 => self.append(key),
                83 => self.replace(key),
                84..88 => self.touch(key),
                88..97 => drop(self.tier.write_next()),
                97..99 => self.now_s += 1,
                _ if operation % 10 == 0 => {
                    self.worker.flush(0, self.now_s);
                    self.expected.clear();
                }
                _ => {
                    self.worker.maintain(self.now_s, 16);
                }
            }
            self.worker.quiescent();
        }
    }

    /// Some keys are more popular than others.
    fn key(&mut self) -> u64 {
        let bound = match self.random.below(4) {
            0 => 20,
            _ => KEYS,
        };
        self.random.below(bound)
    }

    fn value(&mut self, key: u64) -> Vec<u8> {
        self.version += 1;
        let len = match self.random.below(40) {
            0 => 20_000 + self.random.below(15_000),
            1..4 => 0,
            _ => self.random.below(6000),
        };
        let text = format!("{key}/{}/", self.version);
        text.bytes().cycle().take(len as usize).collect()
    }

    fn expiry(&mut self) -> Expiry {
        match self.random.below(3) {
            0 => Expiry::at(self.now_s + 1 + self.random.below(20) as u32),
            _ => Expiry::NEVER,
        }
    }

    fn set(&mut self, key: u64) {
        let (value, expiry) = (self.value(key), self.expiry());
        let flags = self.version as u32;
        let write = Write {
            flags,
            ..Write::plain(Mode::Set, expiry)
        };
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        let put = self
            .worker
            .put(name.as_bytes(), hash, &value, &write, self.now_s);
        match put {
            Ok(_) => {
                let item = Expected {
                    value,
                    flags,
                    expiry,
                };
                self.expected.insert(key, item);
            }
            Err(Rejected::Deferred) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn delete(&mut self, key: u64) {
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        let deleted = self.worker.delete(name.as_bytes(), hash, None, self.now_s);
        let had = self.expected.remove(&key);
        if matches!(deleted, store::Deleted::Deleted(_)) {
            let is_past = had.is_none_or(|item| item.expiry.is_past(self.now_s));
            assert!(!is_past, "key {key} was deleted but did not exist");
        }
    }

    /// As a session does: an item that is only in the tier is fetched first.
    fn append(&mut self, key: u64) {
        self.fetch(key);
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        let write = Write::plain(Mode::Append, Expiry::NEVER);
        let put = self
            .worker
            .put(name.as_bytes(), hash, b"+more", &write, self.now_s);
        if let Ok(store::Published::NotStored) = put {
            // The item may have been evicted by this very write, for memory.
            let copy = self.worker.find_in_tier(hash, self.now_s);
            assert_eq!(copy, None, "key {key} has an item, in the tier");
        }
        if let Ok(store::Published::Stored { .. }) = put {
            let item = self
                .expected
                .get_mut(&key)
                .expect("appended to a deleted item");
            item.value.extend(b"+more");
        }
    }

    fn replace(&mut self, key: u64) {
        self.fetch(key);
        let value = self.value(key);
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        let write = Write::plain(Mode::Replace, Expiry::NEVER);
        let put = self
            .worker
            .put(name.as_bytes(), hash, &value, &write, self.now_s);
        match put {
            Ok(store::Published::Stored { .. }) => {
                let item = self.expected.get_mut(&key);
                *item.expect("replaced a deleted item") = Expected {
                    value,
                    flags: 0,
                    expiry: Expiry::NEVER,
                };
            }
            Ok(store::Published::NotStored) => {
                let copy = self.worker.find_in_tier(hash, self.now_s);
                assert_eq!(copy, None, "key {key} has an item, in the tier");
            }
            _ => {}
        }
    }

    fn touch(&mut self, key: u64) {
        self.fetch(key);
        let expiry = self.expiry();
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        let touched = self.worker.touch(name.as_bytes(), hash, expiry, self.now_s);
        if touched.is_ok_and(|class| class.is_some()) {
            self.expected
                .get_mut(&key)
                .expect("touched a deleted item")
                .expiry = expiry;
        }
    }

    /// Brings an item from the tier into memory. Sometimes the item changes meanwhile.
    fn fetch(&mut self, key: u64) -> bool {
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        if self.worker.is_in_memory(name.as_bytes(), hash) {
            return false;
        }
        let Some(address) = self.worker.find_in_tier(hash, self.now_s) else {
            return false;
        };
        let record = self
            .tier
            .read(self.worker.raw_hash(hash), address, name.as_bytes());
        match self.random.below(12) {
            0 => self.set(key),
            1 => self.delete(key),
            2 => {
                // The item changes, and the new one is evicted again.
                self.set(key);
                for _ in 0..300 {
                    let other = KEYS + self.random.below(300);
                    self.set(other);
                }
            }
            3 => self.now_s += 1,
            _ => {}
        }
        self.worker.quiescent();
        let Some(record) = record else {
            return false;
        };
        let item = record.item();
        let restored = self
            .worker
            .restore(&item, hash, record.value(), address, self.now_s);
        self.seen.changed_meanwhile += u64::from(restored == Ok(false));
        restored == Ok(true)
    }

    fn get(&mut self, key: u64) {
        let is_fetched = self.fetch(key);
        let name = key.to_string();
        let hash = self.worker.hash(name.as_bytes());
        let visit = |item: &store::Item<'_>| {
            let value = item.value().collect::<Vec<_>>().concat();
            Some((value, item.flags, item.expiry))
        };
        let read = self
            .worker
            .read(name.as_bytes(), hash, self.now_s, Read::default(), visit);
        let present = self
            .expected
            .get(&key)
            .filter(|it| !it.expiry.is_past(self.now_s));
        match (read, present) {
            (Ok(Some((value, flags, expiry))), Some(item)) => {
                assert!(value == item.value, "key {key} has another value");
                assert_eq!((flags, expiry), (item.flags, item.expiry), "key {key}");
                self.seen.tier_hits += u64::from(is_fetched);
                self.seen.memory_hits += u64::from(!is_fetched);
            }
            (Ok(Some(_)), None) => panic!("key {key} was deleted, flushed or has expired"),
            (_, Some(_)) => self.seen.misses_of_present += 1,
            (_, None) => {}
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn seeds(default: u64) -> Range<u64> {
    match number_of("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_of("SEEDS").unwrap_or(default),
    }
}

fn rules(seed: u64) -> Rules {
    Rules {
        segment_bytes: Some(SEGMENT),
        item_bytes: [64, 1024, 16_384][seed as usize % 3],
        write_rate: (seed % 5 == 4).then_some(200_000),
        ..Rules::default()
    }
}

#[test]
fn no_read_returns_anything_but_the_latest_value_on_a_sound_device() {
    let mut sum = Seen::default();
    for seed in seeds(60) {
        println!("SEED={seed}");
        let mut history = History::new(seed, rules(seed), Faults::default());
        history.run(0..OPERATIONS);
        let statistics = history.tier.statistics();
        assert_eq!(statistics.reads_damaged, 0, "a sound device has no damage");
        let seen = history.seen;
        sum.memory_hits += seen.memory_hits;
        sum.tier_hits += seen.tier_hits;
        sum.changed_meanwhile += seen.changed_meanwhile;
        sum.misses_of_present += seen.misses_of_present;
    }
    println!("{sum:?}");
    if number_of("SEED").is_none() {
        assert!(
            sum.tier_hits > 500 && sum.changed_meanwhile > 100,
            "{sum:?}"
        );
    }
}

#[test]
fn no_read_returns_anything_but_the_latest_value_on_a_failing_device() {
    let mut damaged = 0;
    for seed in seeds(60) {
        println!("SEED={seed}");
        let mut random = Random(!seed);
        let mut odds = || match random.below(2) {
            0 => 0,
            _ => 2 + random.below(30),
        };
        let faults = Faults {
            write_fails: odds(),
            write_is_lost: odds(),
            write_is_torn: odds(),
            write_goes_elsewhere: odds(),
            read_fails: odds(),
            bit_flips: odds(),
        };
        let mut history = History::new(seed, rules(seed), faults);
        history.run(0..OPERATIONS);
        damaged += history.tier.statistics().reads_damaged;
    }
    if number_of("SEED").is_none() {
        assert!(damaged > 100, "{damaged}");
    }
}

/// The sums of the content agree with the index, whatever happened before.
#[test]
fn the_counts_of_current_copies_are_exact() {
    for seed in seeds(20) {
        println!("SEED={seed}");
        let faults = Faults {
            write_fails: 5,
            bit_flips: 7,
            ..Faults::default()
        };
        let mut history = History::new(seed, rules(seed), faults);
        history.run(0..OPERATIONS);
        let statistics = history.tier.statistics();
        assert_eq!(
            history.tier.count_current(),
            (statistics.objects_used, statistics.bytes_used)
        );
        assert!(statistics.segments_used <= statistics.segments);
    }
}
