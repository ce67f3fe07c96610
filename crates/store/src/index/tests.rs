use super::writer::Inserted;
use super::*;
use crate::heap::Location;
use crate::limits::{LONG_SEARCH_BUCKETS, RESIZE_BUCKETS, VISITS_MAX};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Returns the hash of item `number`, so that the tests need no keys. The item's location is
/// `number` too.
fn hash_of_number(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn insert(index: &Index, number: u64) -> Inserted {
    insert_within(index, number, LONG_SEARCH_BUCKETS)
}

/// Inserts an item, visiting at most `budget` buckets to free a slot. Then makes a resize step.
fn insert_within(index: &Index, number: u64, budget: usize) -> Inserted {
    let writer = index.lock(hash_of_number(number));
    let location = Location::new(number).unwrap();
    let (is_restored, may_displace) = (false, true);
    let inserted = writer.insert(location, is_restored, may_displace, budget);
    drop(writer);
    index.resize_step();
    inserted
}

fn find(index: &Index, number: u64) -> Option<Entry> {
    index.find(hash_of_number(number), |entry| {
        entry.location().units() == number
    })
}

fn remove(index: &Index, number: u64) -> bool {
    let writer = index.lock(hash_of_number(number));
    let found = writer.find(|entry| entry.location().units() == number);
    let removed = found.map(|found| writer.remove(&found)).is_some();
    drop(writer);
    index.resize_step();
    removed
}

#[test]
fn every_item_is_found_while_the_index_grows_and_shrinks() {
    let (shards, buckets_per_shard, bytes_max) = (16, 256, 64 << 20);
    let index = Index::new(shards, buckets_per_shard, bytes_max).unwrap();
    let count = 200_000;
    for number in 1..=count {
        assert_eq!(insert(&index, number), Inserted::Placed, "{number}");
    }
    assert_eq!(index.len(), count);
    // At a load of 81 %, a slot of 8 bytes per item means 8 / 0.81 = 9.9 bytes per item.
    let bytes_per_item = index.bytes() as f64 / count as f64;
    assert!(bytes_per_item < 10.1, "{bytes_per_item} bytes per item");
    for number in 1..=count {
        assert!(find(&index, number).is_some(), "{number}");
    }
    assert_eq!(find(&index, count + 1), None);
    for number in 1..=count {
        assert!(remove(&index, number));
        assert_eq!(find(&index, number), None);
        if number % 1000 == 0 {
            let left = (number + 1..=count).step_by(777);
            left.for_each(|number| assert!(find(&index, number).is_some(), "{number}"));
        }
    }
    assert_eq!(index.len(), 0);
    assert_eq!(index.bytes(), 16 * 256 * 64);
}

#[test]
fn random_operations_agree_with_a_map() {
    let index = Index::new(2, 64, 1 << 20).unwrap();
    let mut map: HashMap<u64, u8> = HashMap::new();
    for step in 0..300_000_u64 {
        let random = hash_of_number(step ^ 0x5555);
        // The number of items rises and falls, so that buckets are split and merged.
        let number_max = 1000 + 900 * (step / 30_000 % 5);
        let number = random % number_max + 1;
        // Half of the steps insert the item, or count a request if it is present. The others remove
        // it.
        match random >> 60 {
            0..8 if !map.contains_key(&number) => {
                assert_eq!(insert(&index, number), Inserted::Placed);
                map.insert(number, 0);
            }
            0..8 => {
                let found = find(&index, number).unwrap();
                index.count_request(hash_of_number(number), found);
                let counted = (found.frequency() + 1).min(3);
                assert_eq!(find(&index, number).unwrap().frequency(), counted);
                map.insert(number, counted);
            }
            _ => assert_eq!(remove(&index, number), map.remove(&number).is_some()),
        }
        assert_eq!(index.len(), map.len() as u64);
    }
    for (&number, &frequency) in &map {
        assert_eq!(find(&index, number).unwrap().frequency(), frequency);
    }
}

/// Regression test for initial buckets that were not populated: the first requests waited until the
/// kernel had zeroed huge pages.
#[test]
fn every_page_of_buckets_is_populated_once() {
    let index = Index::new(16, 256, 1 << 20).unwrap();
    let (initial, ahead) = (index.bytes(), 64 << 10);
    let pages = |len_max| index.next_pages(ahead, len_max);
    assert_eq!(pages(4096), 0..4096);
    assert_eq!(pages(1 << 20), 4096..initial + ahead as u64);
    assert!(pages(4096).is_empty());
    let mut number = 0;
    let mut grow_to = |bytes| {
        while index.bytes() < bytes {
            number += 1;
            insert(&index, number);
        }
    };
    // The index grows beyond the populated range. All pages after that range are returned, even
    // those that insertions have already made resident.
    grow_to(initial + 2 * ahead as u64);
    let end = initial + 3 * ahead as u64;
    assert_eq!(pages(1 << 20), initial + ahead as u64..end);
    grow_to((1 << 20) - ahead as u64 / 2);
    assert_eq!(pages(1 << 20), end..1 << 20);
    assert!(pages(1 << 20).is_empty());
}

#[test]
fn insertions_into_a_full_index_that_cannot_grow_displace_entries() {
    // At most 0 bytes: the index keeps its initial size.
    let index = Index::new(4, 64, 0).unwrap();
    let slots = index.bytes() / 8;
    let mut displaced = 0;
    for number in 1..=2 * slots {
        match insert(&index, number) {
            Inserted::Placed | Inserted::Full => {}
            Inserted::Displaced(old) => {
                displaced += 1;
                assert_eq!(find(&index, old.location().units()), None);
            }
        }
        assert!(find(&index, number).is_some());
    }
    assert_eq!(index.len(), 2 * slots - displaced);
    assert!(index.len() > slots * 95 / 100, "{} of {slots}", index.len());
}

#[test]
fn a_growing_small_index_displaces_no_entry() {
    for shards in [1, 2, 4, 8] {
        let index = Index::new(shards, 512, 64 << 20).unwrap();
        let initial = index.bytes();
        // Each index gets different items.
        let mut number = (shards as u64) << 20;
        while index.bytes() < 8 * initial {
            number += 1;
            let inserted = insert_within(&index, number, VISITS_MAX);
            assert_eq!(inserted, Inserted::Placed, "{shards} shards");
        }
    }
}

#[test]
fn readers_find_every_item_while_other_items_are_inserted_and_removed() {
    let index = Index::new(4, 256, 16 << 20).unwrap();
    let lasting = 5_000;
    for number in 1..=lasting {
        insert(&index, number);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (index, done) = (&index, &done);
                scope.spawn(move || {
                    let mut lookups = 0_u64;
                    while !done.load(Ordering::Relaxed) {
                        let number = hash_of_number(lookups + seed) % lasting + 1;
                        assert!(find(index, number).is_some(), "{number} was missed");
                        lookups += 1;
                    }
                    lookups
                })
            })
            .collect();
        for round in 0..10 {
            let others = lasting + 1..lasting + 20_000 + round;
            others.clone().for_each(|number| {
                insert(&index, number);
            });
            others.for_each(|number| {
                remove(&index, number);
            });
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert_eq!(index.len(), lasting);
}

#[test]
fn a_bounded_search_displaces_almost_no_entry_while_the_index_grows() {
    let mut displaced = 0;
    // Each round uses different items.
    for first in (1..).step_by(1 << 20).take(4) {
        let index = Index::new(16, 256, 64 << 20).unwrap();
        for number in first..first + 400_000 {
            let inserted = insert_within(&index, number, VISITS_MAX - RESIZE_BUCKETS);
            displaced += u32::from(inserted != Inserted::Placed);
        }
    }
    assert!(displaced <= 1, "{displaced} of 1 600 000 were displaced");
}
