//! While memory has room, no live item is evicted: not while the index can grow, and not while a
//! tenth of the memory is dead.

use std::sync::Barrier;
use std::thread;

use crate::{Config, Expiry, Mode, Published, Rejected, Store, Worker, Write};

const NOW_S: u32 = 1;

fn store(memory_bytes: u64) -> std::sync::Arc<Store> {
    Store::new(Config {
        memory_bytes,
        hash_seed: 1,
        ..Config::DEFAULT
    })
    .unwrap()
}

fn set(worker: &mut Worker, key: u64, len: usize, expiry: Expiry, now_s: u32) {
    let key = key.to_be_bytes();
    let write = Write::plain(Mode::Set, expiry);
    let value = vec![b'x'; len];
    loop {
        let published = worker.put(&key, worker.hash(&key), &value, &write, now_s);
        worker.quiescent();
        match published {
            // As a connection does, which tries again a millisecond later.
            Err(Rejected::Deferred) => thread::yield_now(),
            other => return assert!(matches!(other, Ok(Published::Stored { .. })), "{other:?}"),
        }
    }
}

fn delete(worker: &mut Worker, key: u64) {
    let key = key.to_be_bytes();
    worker.delete(&key, worker.hash(&key), None, NOW_S);
    worker.quiescent();
}

/// The length of the value of an item, from 50 to 349 bytes.
fn len_of(key: u64) -> usize {
    (50 + key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 300) as usize
}

/// A number from 0 to 9.
fn random_digit(key: u64) -> u64 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 10
}

/// Stores items with the numbers from `first` on until one is evicted. Returns the number after the
/// last one.
fn fill(worker: &mut Worker, first: u64) -> u64 {
    let before = worker.store().evicted();
    (first..)
        .find(|&key| {
            set(worker, key, len_of(key), Expiry::NEVER, NOW_S);
            worker.store().evicted() > before
        })
        .unwrap()
}

/// Stores items until some are evicted. Checks that less than a tenth of the memory was dead then.
/// A segment whose eviction had begun before does not count.
fn assert_room_is_used(worker: &mut Worker, first: u64, mix: &str) {
    let before = worker.store().statistics();
    let begun = before.segment_bytes / 50;
    let mut next = first;
    while worker.store().evicted() <= before.evicted + begun {
        next = fill(worker, next);
    }
    let statistics = worker.store().statistics();
    let dead = statistics.bytes_occupied - statistics.bytes_live;
    let percent = dead * 100 / worker.store().config().memory_bytes;
    assert!(percent <= 10, "{mix}: {percent} % is dead, {statistics:?}");
}

#[test]
fn sixteen_writers_fit_as_many_items_as_one_before_any_is_evicted() {
    for memory_bytes in [8 << 20, 64 << 20] {
        let alone = fill(&mut store(memory_bytes).worker(), 0);
        let shared = store(memory_bytes);
        let (writers, each) = (16, alone * 9 / 10 / 16);
        let barrier = Barrier::new(writers);
        thread::scope(|scope| {
            for writer in 0..writers as u64 {
                let (shared, barrier) = (&shared, &barrier);
                scope.spawn(move || {
                    let mut worker = shared.worker();
                    worker.offline();
                    barrier.wait();
                    for key in writer * each..(writer + 1) * each {
                        set(&mut worker, key, len_of(key), Expiry::NEVER, NOW_S);
                    }
                });
            }
        });
        let statistics = shared.statistics();
        assert_eq!(statistics.evicted, 0, "{memory_bytes}: {statistics:?}");
        assert_eq!(statistics.items, each * writers as u64);
    }
}

#[test]
fn no_live_item_is_evicted_while_a_tenth_of_the_memory_is_dead() {
    type IsDeleted = fn(u64, u64) -> bool;
    let mixes: [(&str, IsDeleted); 7] = [
        ("nine of ten, at random", |key, _| random_digit(key) < 9),
        ("half, at random", |key, _| random_digit(key) < 5),
        ("a fifth, at random", |key, _| random_digit(key) < 2),
        ("the oldest half", |key, count| key < count / 2),
        ("the newest third", |key, count| key >= count / 3 * 2),
        ("nine of ten in the middle third", |key, count| {
            (count / 3..count / 3 * 2).contains(&key) && random_digit(key) < 9
        }),
        ("every second run of a thousand", |key, _| {
            key / 1000 % 2 == 0
        }),
    ];
    for memory_bytes in [8 << 20, 64 << 20] {
        for (mix, is_deleted) in mixes {
            let mut worker = store(memory_bytes).worker();
            let count = fill(&mut worker, 0);
            // Another worker deletes, so that the writer has no holes.
            let mut other = worker.store().worker();
            (0..count)
                .filter(|&key| is_deleted(key, count))
                .for_each(|key| delete(&mut other, key));
            other.offline();
            assert_room_is_used(&mut worker, count + 1, mix);
        }
    }
}

#[test]
fn no_live_item_is_evicted_while_a_tenth_of_the_memory_is_overwritten() {
    for memory_bytes in [8 << 20, 64 << 20] {
        let mut worker = store(memory_bytes).worker();
        let count = fill(&mut worker, 0);
        for key in 0..count / 2 {
            set(&mut worker, key, 1 + len_of(key) / 4, Expiry::NEVER, NOW_S);
        }
        assert_room_is_used(&mut worker, count + 1, "overwritten by shorter values");
    }
}

/// Items that expire in 11 and in 59 seconds share segments, so no segment expires as a whole.
#[test]
fn no_live_item_is_evicted_while_a_tenth_of_the_memory_has_expired() {
    for memory_bytes in [8 << 20, 64 << 20] {
        let mut worker = store(memory_bytes).worker();
        let limit = fill(&mut store(memory_bytes).worker(), 0) * 9 / 10;
        for key in 0..limit {
            let expiry = Expiry::at(if key % 2 == 0 { 12 } else { 60 });
            set(&mut worker, key, len_of(key), expiry, NOW_S);
        }
        let before = worker.store().statistics();
        for key in limit..limit + limit * 4 / 10 {
            set(&mut worker, key, len_of(key), Expiry::NEVER, 20);
        }
        let statistics = worker.store().statistics();
        let evicted = statistics.evicted - before.evicted;
        // The store learns from a few items that others of their segment have expired.
        assert!(
            evicted < 50,
            "{evicted} of {}: {statistics:?}",
            before.items
        );
    }
}

/// Sixteen writers refill what was deleted, so that most of them compact segments at the same time.
/// The kernel takes the processor from each of them now and then.
#[test]
fn sixteen_writers_that_refill_dead_memory_evict_next_to_nothing() {
    let store = store(64 << 20);
    let mut worker = store.worker();
    let count = fill(&mut worker, 0);
    let deleted = (0..count).filter(|&key| random_digit(key) < 5);
    deleted.for_each(|key| delete(&mut worker, key));
    worker.offline();
    let before = store.statistics();
    let writers = 16;
    // Three quarters of what was deleted.
    let each = count * 5 / 10 * 3 / 4 / writers;
    thread::scope(|scope| {
        for writer in 0..writers {
            let store = &store;
            scope.spawn(move || {
                let mut worker = store.worker();
                for key in 0..each {
                    let key = count + 1 + writer * each + key;
                    set(&mut worker, key, len_of(key), Expiry::NEVER, NOW_S);
                }
            });
        }
    });
    let statistics = store.statistics();
    let evicted = statistics.evicted - before.evicted;
    // The segment whose eviction had begun before.
    let begun = before.segment_bytes / 50;
    assert!(evicted <= begun, "{evicted} of {count}: {statistics:?}");
}

/// Longer values, of which a write may find and copy only some, and items of all expiry classes.
#[test]
fn dead_memory_of_longer_values_and_of_all_classes_is_used() {
    for (len, classes) in [(4_000, 1), (100_000, 1), (1_000, 8)] {
        let mut worker = store(64 << 20).worker();
        let expiry = |key: u64| match classes {
            1 => Expiry::NEVER,
            _ => Expiry::at(NOW_S + 100 * 6_u32.pow((key % 6) as u32)),
        };
        let set = |worker: &mut Worker, key| set(worker, key, len, expiry(key), NOW_S);
        let count = (0..)
            .find(|&key| {
                set(&mut worker, key);
                worker.store().evicted() > 0
            })
            .unwrap();
        let mut other = worker.store().worker();
        let deleted = (0..count).filter(|&key| random_digit(key) < 5);
        deleted.for_each(|key| delete(&mut other, key));
        other.offline();
        let before = worker.store().statistics();
        // Four fifths of what was deleted.
        (count + 1..count + count * 4 / 10).for_each(|key| set(&mut worker, key));
        let statistics = worker.store().statistics();
        let evicted = statistics.evicted - before.evicted;
        // The segment whose eviction had begun before.
        let begun = before.segment_bytes / len as u64 + 1;
        assert!(
            evicted <= begun,
            "{len}: {evicted} of {count}: {statistics:?}"
        );
    }
}
