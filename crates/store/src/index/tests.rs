use super::*;
use crate::limits::{LONG_SEARCH_BUCKETS, RESIZE_BUCKETS, VISITS_MAX};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::thread;

/// A hash that the number of an item gives, so that tests need no items.
fn hash_of_number(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn insert(index: &Index, number: u64) -> Inserted {
    insert_within(index, number, LONG_SEARCH_BUCKETS)
}

fn insert_within(index: &Index, number: u64, budget: usize) -> Inserted {
    let writer = index.lock(hash_of_number(number));
    let inserted = writer.insert(Location::new(number).unwrap(), 0, true, budget);
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
fn everything_is_found_while_it_grows_and_shrinks() {
    let index = Index::new(16, 256, 64 << 20).unwrap();
    let count = 200_000;
    for number in 1..=count {
        assert_eq!(insert(&index, number), Inserted::Placed, "{number}");
    }
    assert_eq!(index.len(), count);
    let bytes_an_item = index.bytes() as f64 / count as f64;
    assert!(bytes_an_item < 10.1, "{bytes_an_item} bytes an item");
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
        // Up and down, so that buckets are split and merged.
        let most = 1000 + 900 * (step / 30_000 % 5);
        let number = random % most + 1;
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

/// Those it begins with were left to the first requests, which waited for pages of 2 MiB.
#[test]
fn every_page_of_buckets_is_populated_once_the_first_among_them() {
    let index = Index::new(16, 256, 1 << 20).unwrap();
    let (least, ahead) = (index.bytes(), 64 << 10);
    let pages = |most| index.next_pages(ahead, most);
    assert_eq!(pages(4096), 0..4096);
    assert_eq!(pages(1 << 20), 4096..least + ahead as u64);
    assert!(pages(4096).is_empty());
    let mut number = 0;
    let mut grow_to = |bytes| {
        while index.bytes() < bytes {
            number += 1;
            insert(&index, number);
        }
    };
    // Beyond the populated range, where writes have touched only some pages.
    grow_to(least + 2 * ahead as u64);
    let end = least + 3 * ahead as u64;
    assert_eq!(pages(1 << 20), least + ahead as u64..end);
    grow_to((1 << 20) - ahead as u64 / 2);
    assert_eq!(pages(1 << 20), end..1 << 20);
    assert!(pages(1 << 20).is_empty());
}

#[test]
fn an_index_that_cannot_grow_displaces_the_least_requested() {
    let index = Index::new(4, 64, 0).unwrap();
    let positions = index.bytes() / 8;
    let mut displaced = 0;
    for number in 1..=2 * positions {
        match insert(&index, number) {
            Inserted::Placed | Inserted::Full => {}
            Inserted::Displaced(old) => {
                displaced += 1;
                assert_eq!(find(&index, old.location().units()), None);
            }
        }
        assert!(find(&index, number).is_some());
    }
    assert_eq!(index.len(), 2 * positions - displaced);
    assert!(
        index.len() > positions * 95 / 100,
        "{} of {positions}",
        index.len()
    );
}

#[test]
fn nothing_loses_its_place_while_the_index_of_a_small_memory_grows() {
    for classes in [1, 2, 4, 8] {
        let index = Index::new(classes, 512, 64 << 20).unwrap();
        let least = index.bytes();
        let mut number = (classes as u64) << 20;
        while index.bytes() < 8 * least {
            number += 1;
            let inserted = insert_within(&index, number, VISITS_MAX);
            assert_eq!(inserted, Inserted::Placed, "{classes} classes");
        }
    }
}

#[test]
fn readers_miss_nothing_that_stays_while_others_come_and_go() {
    let index = Index::new(4, 256, 16 << 20).unwrap();
    let stay = 5_000;
    for number in 1..=stay {
        insert(&index, number);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (index, done) = (&index, &done);
                scope.spawn(move || {
                    let mut looked = 0_u64;
                    while !done.load(Ordering::Relaxed) {
                        let number = hash_of_number(looked + seed) % stay + 1;
                        assert!(find(index, number).is_some(), "{number} was missed");
                        looked += 1;
                    }
                    looked
                })
            })
            .collect();
        for round in 0..10 {
            let others = stay + 1..stay + 20_000 + round;
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
    assert_eq!(index.len(), stay);
}

#[test]
fn a_short_search_finds_room_for_all_but_a_few_while_it_grows() {
    let mut displaced = 0;
    // Other keys each time.
    for first in (1..).step_by(1 << 20).take(4) {
        let index = Index::new(16, 256, 64 << 20).unwrap();
        for number in first..first + 400_000 {
            let inserted = insert_within(&index, number, VISITS_MAX - RESIZE_BUCKETS);
            displaced += u32::from(inserted != Inserted::Placed);
        }
    }
    assert!(displaced <= 1, "{displaced} of 1 600 000 lost their place");
}
