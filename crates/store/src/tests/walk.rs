//! A walk visits every item that stays in memory, while other items are stored and deleted.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::{Config, Expiry, Mode, Store, Walk, WalkAction, WalkStep, Worker, Write};

const NOW_S: u32 = 1;
/// Items with keys below this number stay in memory for the whole walk.
const STAYING: u64 = 15_000;
/// Number of buckets that a step of a walk visits.
const BUCKETS: usize = 8;

fn store() -> Arc<Store> {
    let config = Config {
        memory_bytes: 8 << 20,
        hash_seed: 7,
        ..Config::DEFAULT
    };
    Store::new(config).unwrap()
}

/// Stores an item, which must succeed.
fn set(worker: &mut Worker, key: u64, value_len: usize, expiry: Expiry) {
    let name = key.to_le_bytes();
    let hash = worker.hash(&name);
    let value = vec![1; value_len];
    let write = Write::plain(Mode::Set, expiry);
    worker.put(&name, hash, &value, &write, NOW_S).unwrap();
    worker.quiescent();
}

fn delete(worker: &mut Worker, key: u64) {
    let name = key.to_le_bytes();
    let hash = worker.hash(&name);
    worker.delete(&name, hash, None, NOW_S);
    worker.quiescent();
}

/// Makes one step of a walk, and adds the keys of the visited items to `seen`.
fn step(worker: &mut Worker, walk: &mut Walk, seen: &mut Vec<u64>) -> WalkStep {
    let step = worker.walk::<BUCKETS>(walk, NOW_S, false, |key, item| {
        let key = u64::from_le_bytes(key.try_into().unwrap());
        assert!(item.value_len() < 400, "key {key}");
        seen.push(key);
        WalkAction::Keep
    });
    worker.quiescent();
    step
}

/// Knuth's linear congruential generator.
fn next_random(random: u64) -> u64 {
    random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// Checks that `seen` contains all keys that stay, and no key from `keys_max` on.
fn assert_complete(seen: &[u64], keys_max: u64) {
    let unique: HashSet<u64> = seen.iter().copied().collect();
    let missing = (0..STAYING).filter(|key| !unique.contains(key)).count();
    assert_eq!(missing, 0, "{missing} items of {STAYING} were missed");
    let unknown = unique.iter().find(|&&key| key >= keys_max);
    assert_eq!(unknown, None, "a key that was never stored");
    let twice = seen.len() - unique.len();
    eprintln!(
        "{} visits, {twice} of them not the first of an item",
        seen.len()
    );
}

/// The index grows to several times its size and shrinks again during the walk, so that entries
/// move: a bucket is split or merged, or an entry makes room for another one.
#[test]
fn an_item_that_stays_is_visited_while_the_index_grows_and_shrinks() {
    // Number of other keys, which are stored and deleted during the walk.
    const PASSING: u64 = 45_000;
    for seed in 0..2 {
        let store = store();
        let mut worker = store.worker();
        (0..STAYING).for_each(|key| set(&mut worker, key, 8, Expiry::NEVER));
        let mut walk = store.walk(NOW_S).unwrap();
        let (mut seen, mut random, mut operations) = (Vec::new(), next_random(seed), 0_u64);
        // The other keys that are present: from `next` to below `end`.
        let (mut next, mut end) = (STAYING, STAYING);
        let outcome = loop {
            let outcome = step(&mut worker, &mut walk, &mut seen);
            if outcome != WalkStep::More {
                break outcome;
            }
            for _ in 0..60 {
                operations += 1;
                random = next_random(random);
                // First more keys are stored than deleted, then more are deleted than stored.
                let grows = operations < 2 * PASSING;
                let stores = (random >> 33) % 8 < if grows { 7 } else { 1 };
                if stores && end < STAYING + PASSING {
                    set(&mut worker, end, 8, Expiry::NEVER);
                    end += 1;
                } else if next < end {
                    delete(&mut worker, next);
                    next += 1;
                }
                // Overwrites move items in memory.
                let overwritten = (random >> 20) % STAYING;
                set(
                    &mut worker,
                    overwritten,
                    (random >> 50) as usize % 30,
                    Expiry::NEVER,
                );
            }
        };
        assert_eq!(outcome, WalkStep::Done);
        assert_complete(&seen, STAYING + PASSING);
    }
}

/// Other threads store and delete items, so that entries move during a step too.
#[test]
fn an_item_that_stays_is_visited_while_other_threads_write() {
    // Number of other keys of each writer, which it stores and deletes again and again.
    const PASSING: u64 = 10_000;
    let store = store();
    let mut worker = store.worker();
    (0..STAYING).for_each(|key| set(&mut worker, key, 8, Expiry::NEVER));
    worker.offline();
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (store, stops) = (&store, &stops);
            scope.spawn(move || {
                let mut worker = store.worker();
                let first = STAYING + writer * PASSING;
                while !stops.load(Ordering::Relaxed) {
                    (0..PASSING).for_each(|key| set(&mut worker, first + key, 9, Expiry::NEVER));
                    (0..PASSING).for_each(|key| delete(&mut worker, first + key));
                }
            });
        }
        for _ in 0..10 {
            let mut walk = store.walk(NOW_S).unwrap();
            let mut seen = Vec::new();
            while step(&mut worker, &mut walk, &mut seen) == WalkStep::More {}
            drop(walk);
            worker.offline();
            let unique: HashSet<u64> = seen.iter().copied().collect();
            let missing = (0..STAYING).filter(|key| !unique.contains(key)).count();
            if missing > 0 {
                stops.store(true, Ordering::Relaxed);
            }
            assert_eq!(missing, 0, "items were missed");
        }
        stops.store(true, Ordering::Relaxed);
    });
}

#[test]
fn there_is_one_walk_at_a_time_and_any_number_of_surveys() {
    let store = store();
    let mut worker = store.worker();
    set(&mut worker, 5, 8, Expiry::NEVER);
    let walk = store.walk(NOW_S).unwrap();
    assert!(store.walk(NOW_S).is_none());
    for _ in 0..2 {
        let (mut survey, mut seen) = (store.survey(), Vec::new());
        while step(&mut worker, &mut survey, &mut seen) == WalkStep::More {}
        assert_eq!(seen, [5]);
    }
    drop(walk);
    assert!(store.walk(NOW_S).is_some());
}

#[test]
#[should_panic(expected = "of another store")]
fn a_walk_of_another_store_is_refused() {
    let (own, other) = (store(), store());
    step(&mut own.worker(), &mut other.survey(), &mut Vec::new());
}

#[test]
fn a_walk_skips_expired_items_and_deletes_those_that_its_closure_selects() {
    let store = store();
    let mut worker = store.worker();
    (0..100).for_each(|key| set(&mut worker, key, 8, Expiry::at(NOW_S + 1)));
    (100..300).for_each(|key| set(&mut worker, key, 8, Expiry::NEVER));
    let later_s = NOW_S + 1;
    let mut count = |reclaims, action| {
        let (mut walk, mut visits) = (store.walk(NOW_S).unwrap(), 0);
        let mut visit = |_: &[u8], _: &crate::Item<'_>| {
            visits += 1;
            action
        };
        while worker.walk::<BUCKETS>(&mut walk, later_s, reclaims, &mut visit) == WalkStep::More {}
        worker.quiescent();
        visits
    };
    assert_eq!(count(false, WalkAction::Keep), 200);
    assert_eq!(store.statistics().items, 300);
    assert_eq!(count(true, WalkAction::Keep), 200);
    assert_eq!(
        (store.statistics().items, store.statistics().expired),
        (200, 100)
    );
    assert_eq!(count(false, WalkAction::Delete), 200);
    assert_eq!(store.statistics().items, 0);
}

/// The deletions shrink the index behind the position of the walk. They move more entries than the
/// index can note for the walk at one time.
#[test]
fn a_walk_that_deletes_a_million_items_is_complete() {
    const ITEMS: u64 = 1_000_000;
    let config = Config {
        memory_bytes: 64 << 20,
        hash_seed: 7,
        ..Config::DEFAULT
    };
    let store = Store::new(config).unwrap();
    let mut worker = store.worker();
    (0..ITEMS).for_each(|key| set(&mut worker, key, 8, Expiry::NEVER));
    assert_eq!(store.statistics().items, ITEMS);
    let index_bytes = store.statistics().index_bytes;
    let (mut walk, mut visits) = (store.walk(NOW_S).unwrap(), 0);
    let mut visit = |_: &[u8], _: &crate::Item<'_>| {
        visits += 1;
        WalkAction::Delete
    };
    let end = loop {
        let step = worker.walk::<BUCKETS>(&mut walk, NOW_S, false, &mut visit);
        worker.quiescent();
        if step != WalkStep::More {
            break step;
        }
    };
    assert_eq!(end, WalkStep::Done);
    assert_eq!(store.statistics().items, 0);
    // An item may be visited twice, because a bucket that is noted twice may be copied twice in a
    // step.
    assert!(visits >= ITEMS, "{visits}");
    assert!(store.statistics().index_bytes < index_bytes / 2);
}

#[test]
fn a_walk_without_a_step_for_a_minute_is_superseded_by_the_next() {
    let store = store();
    let mut worker = store.worker();
    (0..STAYING).for_each(|key| set(&mut worker, key, 8, Expiry::NEVER));
    let (mut stalled, mut seen) = (store.walk(NOW_S).unwrap(), Vec::new());
    // This step is at `NOW_S`.
    assert_eq!(step(&mut worker, &mut stalled, &mut seen), WalkStep::More);
    assert!(store.walk(NOW_S + 59).is_none());
    let mut next = store.walk(NOW_S + 60).unwrap();
    assert_eq!(
        step(&mut worker, &mut stalled, &mut seen),
        WalkStep::Incomplete
    );
    // Dropping the stalled walk does not end the new one.
    drop(stalled);
    assert!(store.walk(NOW_S + 60).is_none());
    let mut seen = Vec::new();
    while step(&mut worker, &mut next, &mut seen) == WalkStep::More {}
    assert_complete(&seen, STAYING);
}
