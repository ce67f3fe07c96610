//! A stress test for torn reads: no read may return bytes of another item, or bytes of an item that
//! is only partly written.
//!
//! Two threads use a store that is far too small for their items, while a third runs page
//! maintenance and changes the memory limit. Every value begins with its key, its length and a
//! checksum. Values are checked when they are read, and pinned values again much later. The test
//! takes two seconds, or as many as the environment variable `CURTAIL_TORN_SECONDS` says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{
    Config, Expiry, Item, KeyHash, Mode, Pin, Published, Read, Rejected, Reserve, Store, Worker,
    Write,
};

/// Number of keys that the clients use.
const KEYS: u64 = 4_000;
/// Length of the header with which every value begins, in bytes: see [`value`].
const HEADER_LEN: usize = 16;
/// Minimum memory limit, in bytes.
const LIMIT_MIN: u64 = 3 << 20;
/// Maximum memory limit, in bytes.
const LIMIT_MAX: u64 = 8 << 20;

/// A pseudo-random number generator (SplitMix64).
struct Random(u64);

impl Random {
    /// Returns a number less than `below`.
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % below
    }
}

/// The FNV-1a hash of the bytes.
fn checksum(bytes: &[u8]) -> u64 {
    let fold = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold)
}

/// Creates a value of random length: the key and the length of the content (4 bytes each), the
/// checksum of the content (8 bytes), and random content.
fn value(random: &mut Random, key: u64) -> Vec<u8> {
    let len = match random.next(100) {
        0 => random.next(400_000),
        1..6 => random.next(40_000),
        6..30 => random.next(3_000),
        _ => random.next(200),
    } as usize;
    let mut value = vec![0; HEADER_LEN + len];
    let seed = random.next(1 << 32);
    for (at, byte) in value[HEADER_LEN..].iter_mut().enumerate() {
        *byte = (seed >> (at % 4 * 8)) as u8 ^ (at / 4) as u8;
    }
    let sum = checksum(&value[HEADER_LEN..]);
    value[..4].copy_from_slice(&(key as u32).to_le_bytes());
    value[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    value[8..16].copy_from_slice(&sum.to_le_bytes());
    value
}

/// Panics unless the value is complete and belongs to this key. `how` says how it was read.
fn check(key: u64, value: &[u8], how: &str) {
    let word = |from: usize| u32::from_le_bytes(value[from..from + 4].try_into().unwrap());
    assert_eq!(u64::from(word(0)), key, "the value of another key, {how}");
    let sum = u64::from_le_bytes(value[8..16].try_into().unwrap());
    let len = word(4) as usize;
    assert_eq!(value.len(), HEADER_LEN + len, "{how}");
    assert_eq!(
        checksum(&value[HEADER_LEN..]),
        sum,
        "torn, {how}, {len} bytes"
    );
}

/// Copies a value that is given as slices.
fn bytes<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    pieces.flatten().copied().collect()
}

/// A thread of the test, with its worker and the values that it has pinned.
struct Client {
    worker: Worker,
    random: Random,
    /// The pinned values, oldest first, with their keys.
    pins: Vec<(u64, Pin)>,
    /// Number of values stored.
    stored: u64,
    /// Number of reads that found an item.
    hits: u64,
    /// The current second of simulated time, which the main thread advances.
    now: Arc<AtomicU32>,
}

impl Client {
    /// Performs a random operation on a random key.
    fn step(&mut self) {
        // Low keys are more frequent.
        let key = self.random.next(KEYS).min(self.random.next(KEYS));
        let now_s = self.now.load(Ordering::Relaxed);
        match self.random.next(1000) {
            0..550 => self.get(key, now_s),
            550..850 => self.set(key, now_s),
            850..900 => {
                let name = key.to_le_bytes();
                self.worker
                    .delete(&name, self.worker.hash(&name), None, now_s);
            }
            900..940 => {
                let name = key.to_le_bytes();
                let expiry = self.expiry(now_s);
                let hash = self.worker.hash(&name);
                if let Err(Rejected::Deferred) = self.worker.touch(&name, hash, expiry, now_s) {
                    thread::yield_now();
                }
            }
            940..980 => {
                // Checks the oldest pinned values once more, and drops their pins.
                while self.pins.len() > 4 {
                    let (key, pin) = self.pins.remove(0);
                    check(key, &bytes(pin.value()), "pinned");
                }
            }
            980..990 => {
                self.worker.maintain(now_s, 64);
            }
            990..998 => {
                self.worker.offline();
                thread::yield_now();
                self.worker.online();
            }
            // Rarely, a flush: immediately, or in the next second.
            _ if self.random.next(200) == 0 => {
                let at_s = now_s + self.random.next(2) as u32;
                self.worker.flush(at_s, now_s);
            }
            _ => {}
        }
        if self.random.next(16) == 0 {
            self.worker.quiescent();
        }
    }

    /// A random expiry: soon, later or never.
    fn expiry(&mut self, now_s: u32) -> Expiry {
        match self.random.next(4) {
            0 => Expiry::at(now_s + 1 + self.random.next(30) as u32),
            1 => Expiry::at(now_s + self.random.next(100_000) as u32),
            _ => Expiry::NEVER,
        }
    }

    /// Reads an item and checks its value. Pins one value in 20, and touches one item in 10.
    fn get(&mut self, key: u64, now_s: u32) {
        let name = key.to_le_bytes();
        let hash = self.worker.hash(&name);
        let pins = self.random.next(20) == 0;
        let touch = (self.random.next(10) == 0).then(|| self.expiry(now_s));
        let options = Read {
            touch,
            ..Read::default()
        };
        let read_result = self
            .worker
            .read(&name, hash, now_s, options, |item: &Item<'_>| {
                let pin = if pins { item.pin() } else { None };
                Some((bytes(item.value()), pin))
            });
        if let Ok(Some((value, pin))) = read_result {
            check(key, &value, "read");
            self.hits += 1;
            self.pins.extend(pin.map(|pin| (key, pin)));
        }
    }

    /// Stores a value, half of the time as an upload.
    fn set(&mut self, key: u64, now_s: u32) {
        let name = key.to_le_bytes();
        let hash = self.worker.hash(&name);
        let value = value(&mut self.random, key);
        let write = Write {
            flags: (key % 3) as u32,
            explicit_cas: (self.random.next(50) == 0).then_some(u64::MAX - 5),
            ..Write::plain(Mode::Set, self.expiry(now_s))
        };
        let published = match self.random.next(2) {
            0 => self.worker.put(&name, hash, &value, &write, now_s),
            _ => self.upload(&name, hash, &value, &write, now_s),
        };
        match published {
            Ok(Published::Stored { .. }) => self.stored += 1,
            // `upload` has dropped the upload before it was complete.
            Ok(Published::NotStored) => {}
            // The pins of both clients may leave no memory for a large item.
            Ok(Published::NoSpace) | Err(Rejected::HoldLimit | Rejected::NoMemory) => {
                self.pins.clear();
            }
            // Memory has not become free in time, because the other worker was not quiescent.
            Err(Rejected::Deferred) => thread::yield_now(),
            other => panic!("{other:?}"),
        }
    }

    /// Stores a value as an upload that is filled in two halves. Drops one in ten uploads after the
    /// first half, and returns `NotStored` for it.
    fn upload(
        &mut self,
        name: &[u8],
        hash: KeyHash,
        value: &[u8],
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Rejected> {
        let request = Reserve {
            value_len: value.len(),
            flags: write.flags,
            expiry: write.expiry,
            whole: false,
        };
        let mut upload = self.worker.reserve(name, hash, &request, now_s)?;
        let (first, second) = value.split_at(value.len() / 2);
        self.worker.fill(&mut upload, first, now_s)?;
        if self.random.next(10) == 0 {
            return Ok(Published::NotStored);
        }
        self.worker.fill(&mut upload, second, now_s)?;
        assert_eq!(upload.missing(), 0);
        let published = self.worker.publish(upload, write, now_s);
        published.map_err(|_| Rejected::Deferred)
    }
}

/// Minimum number of steps of each client, even if they take longer than the test should.
const STEPS_MIN: u64 = 100_000;

#[test]
fn no_read_returns_foreign_or_torn_bytes() {
    let seconds = std::env::var("CURTAIL_TORN_SECONDS").map_or(2, |text| text.parse().unwrap());
    let store = Store::new(Config {
        memory_bytes: LIMIT_MIN,
        memory_max: LIMIT_MAX,
        hash_seed: 5,
        workers: 2,
        ..Config::DEFAULT
    })
    .unwrap();
    let (done, now) = (AtomicBool::new(false), Arc::new(AtomicU32::new(1)));
    let steps = AtomicU64::new(0);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|seed| {
                let (worker, now, done, steps) = (store.worker(), Arc::clone(&now), &done, &steps);
                scope.spawn(move || {
                    let mut client = Client {
                        worker,
                        random: Random(seed),
                        pins: Vec::new(),
                        stored: 0,
                        hits: 0,
                        now,
                    };
                    // On a busy machine the minimum number of steps may take longer.
                    let mut remaining = STEPS_MIN;
                    while !done.load(Ordering::Relaxed) || remaining > 0 {
                        (0..100).for_each(|_| client.step());
                        steps.fetch_add(100, Ordering::Relaxed);
                        remaining = remaining.saturating_sub(100);
                    }
                    assert!(client.hits > 1_000 && client.stored > 1_000);
                })
            })
            .collect();
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut random = Random(77);
        while Instant::now() < end && clients.iter().all(|client| !client.is_finished()) {
            store.run_page_maintenance();
            if random.next(20) == 0 {
                store
                    .set_limit(LIMIT_MIN + random.next(LIMIT_MAX - LIMIT_MIN + 1))
                    .unwrap();
            }
            now.fetch_add(u32::from(random.next(10) == 0), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Ordering::Relaxed);
    });
    let statistics = store.statistics();
    assert!(statistics.evacuated > 1_000, "{statistics:?}");
    assert!(statistics.expired > 1_000, "{statistics:?}");
    eprintln!("{} steps, {statistics:?}", steps.into_inner());
}
