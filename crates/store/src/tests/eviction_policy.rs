//! The store selects the eviction policy that suits the requests, and its statistics describe the
//! evicted items. Of the four policies, `frequent` and `returning` suit items whose popularity is
//! stable. `recent` and `clock` suit items whose popularity changes.

use crate::{Config, Expiry, Mode, Read, Store, Worker, Write};

/// The default number of requests per second of simulated time.
const REQUESTS_PER_SECOND: u64 = 20_000;

/// A client that sends requests to a store, and counts hits. It identifies items by record numbers.
struct Client {
    worker: Worker,
    requests: u64,
    hits: u64,
    /// Number of requests per second of simulated time.
    requests_per_second: u64,
}

impl Client {
    fn new(evicts: bool) -> Self {
        Self::with_memory(evicts, 8 << 20)
    }

    fn with_memory(evicts: bool, memory_bytes: u64) -> Self {
        let config = Config {
            memory_bytes,
            evicts,
            hash_seed: 1,
            ..Config::DEFAULT
        };
        Self {
            worker: Store::new(config).unwrap().worker(),
            requests: 0,
            hits: 0,
            requests_per_second: REQUESTS_PER_SECOND,
        }
    }

    /// Reads the item of a record, and writes it if the read misses.
    fn request(&mut self, record: u64) {
        self.requests += 1;
        let key = record.to_le_bytes();
        let hash = self.worker.hash(&key);
        let read = self
            .worker
            .read(&key, hash, self.now_s(), Read::default(), |_| Some(()));
        self.worker.quiescent();
        match read {
            Ok(_) => self.hits += 1,
            Err(_) => self.write(record),
        }
    }

    /// The current second of simulated time, which advances with the number of requests.
    fn now_s(&self) -> u32 {
        1 + (self.requests / self.requests_per_second) as u32
    }

    /// Writes a value of 100 bytes for a record.
    fn write(&mut self, record: u64) {
        let now_s = self.now_s();
        let key = record.to_le_bytes();
        let hash = self.worker.hash(&key);
        let write = Write::plain(Mode::Set, Expiry::NEVER);
        let put = self.worker.put(&key, hash, &[7; 100], &write, now_s);
        assert!(put.is_ok());
        self.worker.quiescent();
    }

    fn eviction_policy(&self) -> &'static str {
        self.worker.store().statistics().eviction_policy
    }
}

/// A pseudo-random number from 0 to 1, derived from `step`.
fn unit(step: u64) -> f64 {
    let bits = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((bits ^ bits >> 29) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A pseudo-random number below `below`, derived from `step`. Low numbers are more frequent.
fn skewed(step: u64, below: u64) -> u64 {
    ((below as f64).powf(unit(step)) - 1.0) as u64
}

#[test]
fn the_policy_changes_when_popularity_begins_to_move() {
    let mut client = Client::new(true);
    assert_eq!(client.eviction_policy(), "returning");
    // Stable popularity: the low numbers of 300 000 records are always the popular ones.
    for step in 0..1_000_000 {
        client.request(match step % 2 {
            0 => (300_000.0 * unit(step).powi(3)) as u64,
            // An item that is requested only once.
            _ => 10_000_000 + step,
        });
    }
    let eviction_policy = client.eviction_policy();
    assert!(
        ["frequent", "returning"].contains(&eviction_policy),
        "{eviction_policy}"
    );
    // Moving popularity: with every second request, a new record becomes the most popular one.
    for step in 0..1_000_000 {
        if step == 500_000 {
            client.hits = 0;
        }
        client.request(step / 2 + 300_000 - skewed(step, 300_000));
    }
    // If the policy does not change, there are 182 000 hits in 500 000 requests.
    assert!(client.hits > 215_000, "{} hits", client.hits);
    let eviction_policy = client.eviction_policy();
    assert!(
        ["recent", "clock"].contains(&eviction_policy),
        "{eviction_policy}"
    );
    assert!(client.worker.store().statistics().policy_changes > 0);
}

#[test]
fn evicted_items_are_counted_by_part_and_age() {
    let mut client = Client::new(true);
    for step in 0..300_000 {
        client.request(step);
    }
    let statistics = client.worker.store().statistics();
    assert!(statistics.evicted > 200_000);
    assert_eq!(statistics.evicted_main, 0, "no item was requested again");
    assert_eq!(
        statistics.evicted_ages.iter().sum::<u64>(),
        statistics.evicted
    );
    // About 60 000 items fit into the store. With 20 000 requests per second, an item is evicted
    // about three seconds after it was written, which is in the second age range (1 to 10 s).
    assert!(statistics.evicted_ages[1] * 10 > statistics.evicted * 9);
}

#[test]
fn most_occupied_bytes_are_live_when_items_are_overwritten() {
    let mut client = Client::new(true);
    for step in 0..1_000_000 {
        match step % 10 {
            0..3 => {
                client.requests += 1;
                client.write(skewed(step, 300_000));
            }
            _ => client.request(skewed(step, 300_000)),
        }
    }
    let statistics = client.worker.store().statistics();
    let live_percent = statistics.bytes_live * 100 / statistics.bytes_occupied;
    assert!(live_percent >= 92, "{statistics:?}");
}

#[test]
fn without_eviction_no_policy_is_simulated() {
    let mut client = Client::new(false);
    // The items fill four fifths of the memory.
    for step in 0..40_000 {
        client.request(step);
    }
    let statistics = client.worker.store().statistics();
    assert_eq!((statistics.items, statistics.policy_changes), (40_000, 0));
    // The miniatures have a single slot.
    assert!(statistics.miniature_bytes < 100, "{statistics:?}");
}

/// Regression test. Only the first request of an item in each second counted. A request in the same
/// second as an evacuation of the item's segment was not counted, so the next evacuation evicted
/// the item.
#[test]
fn requested_items_stay_when_memory_turns_over_within_a_second() {
    let mut client = Client::new(true);
    // All requests are in the same second.
    client.requests_per_second = u64::MAX;
    let mut hits = 0;
    for step in 0..1_000_000_u64 {
        // Of each three new items, one is requested twice, and the other two once. About 60 000
        // items fit into the store.
        client.request(10_000_000 + step / 4 * 3 + (step % 4).saturating_sub(1));
        // Every tenth request is followed by a request for a popular item. Only hits of the popular
        // items are counted.
        if step % 10 == 0 {
            let before = client.hits;
            client.request(step / 10 % 2_000);
            hits += client.hits - before;
        }
    }
    // If only the first request of a second counts, there are 88 391 hits in 100 000 requests.
    assert!(hits > 97_000, "{hits} hits");
}

/// Regression test. If all items of the oldest segments had been requested, evacuation copied all
/// of them. No segment became free, and the write was rejected.
#[test]
fn new_items_are_stored_when_every_old_item_was_requested() {
    for memory_bytes in [2 << 20, 8 << 20, 32 << 20] {
        let mut client = Client::with_memory(true, memory_bytes);
        for step in 0..memory_bytes / 40 {
            // Every item is requested twice: the first request misses and writes it, which must not
            // fail.
            client.request(step / 2);
        }
        assert!(client.worker.store().statistics().evicted > 0);
    }
}

/// Half of the requests are for popular items. Each item of the other half is requested eight times
/// within two seconds and never again.
#[test]
fn items_requested_only_when_new_are_evicted_before_items_requested_later() {
    let mut client = Client::new(true);
    for step in 0..2_000_000 {
        if step == 1_000_000 {
            client.hits = 0;
        }
        client.request(match step % 2 {
            0 => skewed(step, 150_000),
            _ => 10_000_000 + step / 16_000 * 1_000 + step / 2 % 1_000,
        });
    }
    assert_eq!(client.eviction_policy(), "clock");
    // If the requests just after the write of an item counted like later requests, there would be
    // 852 000 hits.
    assert!(client.hits > 857_000, "{} hits", client.hits);
}

/// A new item is not evicted by the writes of its own pieces, although it is larger than the share
/// of the small part, which is the part of the log for new items.
#[test]
fn an_item_larger_than_a_hundredth_of_the_memory_is_found_after_it_was_stored() {
    for (memory_bytes, len) in [(16 << 20, 1_000_000), (48 << 20, 573_440)] {
        let worker = &mut Client::with_memory(true, memory_bytes).worker;
        let value = vec![b'x'; len];
        for number in 0..200_u32 {
            let key = number.to_be_bytes();
            let (hash, write) = (worker.hash(&key), Write::plain(Mode::Set, Expiry::NEVER));
            worker.put(&key, hash, &value, &write, 1).unwrap();
            worker.quiescent();
            // In second 1. The second argument is the maximum number of blocks to visit, which
            // `maintain` lowers to `STEP_ITEMS`.
            while worker.maintain(1, 64) {}
            let found = worker.read(&key, hash, 1, Read::default(), |item| {
                Some(item.value_len())
            });
            assert_eq!(found.unwrap(), Some(len), "item {number}");
        }
        assert!(worker.store().statistics().evicted > 100);
    }
}
