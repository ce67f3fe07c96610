//! Insertions, removals, splits, merges and kicks against readers, in many orders
//! (`cargo xtask models`).

use super::*;
use crate::sync::Arc;
use shuttle::rand::Rng;
use shuttle::thread;

fn hash_of_number(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn insert(index: &Index, number: u64) {
    let Some(location) = Location::new(number) else {
        return;
    };
    let hash = hash_of_number(number);
    let writer = index.lock(hash);
    let inserted = writer.insert(location, 0, true, 62);
    assert_eq!(inserted, Inserted::Placed, "there is room for all");
}

fn remove(index: &Index, number: u64) {
    let writer = index.lock(hash_of_number(number));
    let found = writer.find(|entry| entry.location().units() == number);
    assert!(found.is_some(), "{number} is there to be removed");
    found.iter().for_each(|found| {
        writer.remove(found);
    });
}

fn is_there(index: &Index, number: u64) -> bool {
    let found = index.find(hash_of_number(number), |entry| {
        entry.location().units() == number
    });
    found.is_some()
}

/// Items before the threads start: one below the load at which a bucket is split.
const BEFORE: u64 = 57;

fn filled() -> Arc<Index> {
    let Ok(index) = Index::new(1, 8, 64 * 16) else {
        panic!("so little can be had");
    };
    (1..=BEFORE).for_each(|number| insert(&index, number));
    Arc::new(index)
}

#[test]
fn readers_find_what_stays_while_buckets_are_split_and_merged() {
    shuttle::check_random(
        || {
            let index = filled();
            let reader = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    for number in (1..=BEFORE).rev().step_by(5) {
                        assert!(is_there(&index, number), "{number} was missed");
                    }
                })
            };
            let other = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    insert(&index, 200);
                    assert!(is_there(&index, 200));
                    remove(&index, 200);
                    assert!(!is_there(&index, 200));
                })
            };
            for number in 100..104 {
                insert(&index, number);
                index.adjust();
            }
            for number in 100..104 {
                remove(&index, number);
                index.adjust();
            }
            assert!(reader.join().is_ok() && other.join().is_ok());
            assert_eq!(index.len(), BEFORE);
            (1..=BEFORE).for_each(|number| assert!(is_there(&index, number)));
        },
        2_000,
    );
}

/// Two buckets all but full: nearly every insertion finds its choices full and moves an entry. Room
/// for nothing else is left, so some insertions displace; not what is looked for, which is asked
/// for often.
#[test]
fn readers_find_what_is_kicked_from_one_choice_to_the_other() {
    const STAY: u64 = 29;
    shuttle::check_random(
        || {
            let Ok(index) = Index::new(1, 4, 0) else {
                panic!("so little can be had");
            };
            let index = Arc::new(index);
            for number in 1..=STAY {
                insert(&index, number);
                let hash = hash_of_number(number);
                for _ in 0..3 {
                    if let Some(found) = index.guess(hash) {
                        index.count_request(hash, found.entry());
                    }
                }
            }
            let reader = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    let mut random = shuttle::rand::thread_rng();
                    for _ in 0..40 {
                        let number = random.gen_range(1..=STAY);
                        assert!(is_there(&index, number), "{number} was missed");
                    }
                })
            };
            let first = shuttle::rand::thread_rng().gen_range(100..1_000_000);
            for number in first..first + 12 {
                insert(&index, number);
                remove(&index, number);
            }
            assert!(reader.join().is_ok());
            assert_eq!(index.len(), STAY);
        },
        3_000,
    );
}

#[test]
fn a_writer_waits_for_another_of_its_class_only() {
    shuttle::check_random(
        || {
            let index = filled();
            let writers: Vec<_> = (0..2)
                .map(|at| {
                    let index = Arc::clone(&index);
                    thread::spawn(move || {
                        for number in (1 + at..=BEFORE).step_by(8) {
                            remove(&index, number);
                            index.adjust();
                        }
                    })
                })
                .collect();
            for writer in writers {
                assert!(writer.join().is_ok());
            }
            let left = (1..=BEFORE)
                .filter(|&number| is_there(&index, number))
                .count();
            assert_eq!(left as u64, index.len());
        },
        2_000,
    );
}
