//! Threads that write, delete and read the same keys, while items are evicted to the tier and
//! restored. No key ever goes back to an earlier value.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use store::{Config, Expiry, Miss, Mode, Read, Rejected, Store, Worker, Write};

use crate::testing::MemoryDevice;
use crate::{Device, Rules, Tier};

const KEYS: usize = 2000;
const THREADS: usize = 3;
const OPERATIONS: usize = 60_000;
const SEGMENT: u64 = 64 << 10;
const SEGMENTS: u64 = 20;
const NOW_S: u32 = 1;

/// What is known of a key.
#[derive(Default)]
struct Known {
    /// The version that was written last, acknowledged or not.
    issued: AtomicU64,
    /// The least version that a read may return: that of the last acknowledged write, or the next
    /// one after an acknowledged deletion.
    least: AtomicU64,
}

struct Shared {
    known: Vec<Known>,
    tier: Arc<Tier>,
    tier_hits: AtomicU64,
}

fn value(key: usize, version: u64) -> Vec<u8> {
    let text = format!("{key}:{version:020}/");
    text.bytes().cycle().take(800 + key % 1500).collect()
}

fn version_of(value: &[u8], key: usize) -> u64 {
    let text = std::str::from_utf8(value).unwrap();
    let (name, rest) = text.split_once(':').unwrap();
    assert_eq!(name, key.to_string(), "the value of another key");
    rest[..20].parse().unwrap()
}

fn write(worker: &mut Worker, shared: &Shared, key: usize, deletes: bool) {
    let known = &shared.known[key];
    let name = key.to_string();
    let hash = worker.hash(name.as_bytes());
    let version = known.issued.load(Ordering::SeqCst) + 1;
    if deletes {
        worker.delete(name.as_bytes(), hash, None, NOW_S);
        known.least.store(version, Ordering::SeqCst);
        return;
    }
    known.issued.store(version, Ordering::SeqCst);
    let options = Write::plain(Mode::Set, Expiry::NEVER);
    let put = worker.put(name.as_bytes(), hash, &value(key, version), &options, NOW_S);
    match put {
        Ok(_) => known.least.store(version, Ordering::SeqCst),
        Err(Rejected::Deferred) => {}
        Err(error) => panic!("{error}"),
    }
}

fn read(worker: &mut Worker, shared: &Shared, key: usize) {
    let known = &shared.known[key];
    let name = key.to_string();
    let hash = worker.hash(name.as_bytes());
    let least = known.least.load(Ordering::SeqCst);
    let mut is_restored = false;
    for _ in 0..2 {
        let visit = |item: &store::Item<'_>| Some(item.value().collect::<Vec<_>>().concat());
        let read = worker.read(name.as_bytes(), hash, NOW_S, Read::default(), visit);
        match read {
            Ok(Some(value)) => {
                let version = version_of(&value, key);
                assert!(
                    version >= least,
                    "key {key} went back from {least} to {version}"
                );
                assert!(version <= known.issued.load(Ordering::SeqCst));
                shared
                    .tier_hits
                    .fetch_add(u64::from(is_restored), Ordering::Relaxed);
                return;
            }
            Ok(None) | Err(Miss::Expired | Miss::Flushed) => return,
            Err(Miss::Absent) => {}
        }
        let Some(address) = worker.find_in_tier(hash, NOW_S) else {
            return;
        };
        let number = worker.raw_hash(hash);
        worker.quiescent();
        let Some(record) = shared.tier.read(number, address, name.as_bytes()) else {
            return;
        };
        // Other threads change the item meanwhile.
        thread::yield_now();
        let item = record.item();
        is_restored = worker.restore(&item, hash, record.value(), address, NOW_S) == Ok(true);
    }
}

#[test]
fn no_key_goes_back_to_an_earlier_value() {
    let bytes = SEGMENT * SEGMENTS;
    let device: Box<dyn Device> = Box::new(MemoryDevice::new(bytes as usize));
    let rules = Rules {
        segment_bytes: Some(SEGMENT),
        ..Rules::default()
    };
    let tier = Arc::new(Tier::new(rules, 1, vec![(device, bytes)]).unwrap());
    let config = Config {
        memory_bytes: 1 << 20,
        item_max: 64 << 10,
        workers: THREADS,
        ..Config::DEFAULT
    };
    let store = Store::with_tier(config, Some(Arc::<Tier>::clone(&tier))).unwrap();
    let shared = Shared {
        known: (0..KEYS).map(|_| Known::default()).collect(),
        tier,
        tier_hits: AtomicU64::new(0),
    };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                if !shared.tier.write_next() {
                    thread::yield_now();
                }
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (store, shared) = (&store, &shared);
                scope.spawn(move || {
                    let mut worker = store.worker();
                    let mut seed = number as u64 + 1;
                    for _ in 0..OPERATIONS {
                        seed = seed
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695);
                        let random = (seed >> 33) as usize;
                        let key = random % KEYS;
                        match random / KEYS % 10 {
                            // A key has one writer, so its versions are in order.
                            0..4 => {
                                let own = key - key % THREADS + number;
                                let deletes = (random / KEYS).is_multiple_of(40);
                                if own < KEYS {
                                    write(&mut worker, shared, own, deletes);
                                }
                            }
                            _ => read(&mut worker, shared, key),
                        }
                        worker.quiescent();
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = workers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        // Also after a panic, or the test would not end.
        is_done.store(true, Ordering::Relaxed);
        writing.join().unwrap();
        for outcome in outcomes {
            outcome.unwrap();
        }
    });
    let hits = shared.tier_hits.load(Ordering::Relaxed);
    assert!(hits > 1000, "only {hits} hits in the tier");
    let statistics = shared.tier.statistics();
    let counted = (statistics.objects_used, statistics.bytes_used);
    assert_eq!(shared.tier.count_current(), counted);
    assert_eq!(statistics.reads_damaged, 0);
}
