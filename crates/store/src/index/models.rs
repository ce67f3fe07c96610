//! Insertions, removals, splits, merges and kicks with concurrent readers, in many interleavings
//! (`cargo xtask models`). All are sequentially consistent, so missing fences are not detected; the
//! comments on the index's orderings argue for those.

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

/// Items before the threads start: so few that a bucket split for further items is merged again.
const BEFORE: u64 = 43;
/// Items inserted and removed meanwhile, for which a bucket is split.
const MORE: Range<u64> = 100..110;

fn filled() -> Arc<Index> {
    let Ok(index) = Index::new(1, 8, 64 * 16) else {
        panic!("so little can be had");
    };
    (1..=BEFORE).for_each(|number| insert(&index, number));
    Arc::new(index)
}

/// An item that moves when a bucket is split, and its position.
fn one_that_moves(index: &Index) -> Option<(u64, Position)> {
    let last = index.buckets.load(Ordering::Relaxed);
    MORE.for_each(|number| insert(index, number));
    index.resize_step();
    let lies_there = |number| {
        let matches = |entry: Entry| entry.location().units() == number;
        let found = index.scan(hash_of_number(number), matches)?;
        (found.bucket == last).then_some((number, found.position()))
    };
    let moved = (1..=BEFORE).find_map(lies_there);
    for number in MORE {
        remove(index, number);
        index.resize_step();
    }
    moved
}

/// Inserts and removes items, so that a bucket is split and merged.
fn grow_and_shrink(index: &Index) {
    let bytes = index.bytes();
    for number in MORE {
        insert(index, number);
        index.resize_step();
    }
    assert!(index.bytes() > bytes, "none was split");
    for number in MORE {
        remove(index, number);
        index.resize_step();
    }
}

#[test]
fn readers_find_what_stays_while_buckets_are_split_and_merged() {
    shuttle::check_random(
        || {
            let index = filled();
            let bytes = index.bytes();
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
            grow_and_shrink(&index);
            assert!(reader.join().is_ok() && other.join().is_ok());
            // An insertion by another thread may have displaced it.
            index.resize_step();
            assert_eq!(index.bytes(), bytes, "what was split was not merged");
            assert_eq!(index.len(), BEFORE);
            (1..=BEFORE).for_each(|number| assert!(is_there(&index, number)));
        },
        2_000,
    );
}

/// Two buckets are nearly full: almost every insertion finds both of its buckets full and moves an
/// entry. Some insertions displace an entry, but never the searched one, because its frequency is
/// high.
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
                    if let Some(found) = index.find_candidate(hash, Position::default()) {
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

/// A reader that returns to a remembered position finds the current entry or nothing: never an
/// entry as it was before its replacement, even while it moves between buckets.
#[test]
fn what_lies_where_an_entry_was_seen_is_never_older_than_the_entry() {
    const VERSIONS: u64 = 1_000;
    // Shared by all runs, outside the model.
    static SEEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    // Long, rarely interrupted runs of one thread: one has to do much while another does nothing.
    shuttle::check_pct(
        || {
            let index = filled();
            let bytes = index.bytes();
            let Some((number, position)) = one_that_moves(&index) else {
                panic!("none moves");
            };
            let hash = hash_of_number(number);
            let replaced = Arc::new(AtomicU64::new(0));
            let writer = {
                let (index, replaced) = (Arc::clone(&index), Arc::clone(&replaced));
                thread::spawn(move || {
                    for version in VERSIONS..VERSIONS + 6 {
                        let writer = index.lock(hash);
                        let matches = |entry: Entry| {
                            let units = entry.location().units();
                            units == number || units >= VERSIONS
                        };
                        let found = writer.find(matches);
                        let location = Location::new(version);
                        assert!(found.is_some() && location.is_some());
                        if let (Some(found), Some(location)) = (found, location) {
                            writer.replace(&found, location, 0);
                        }
                        drop(writer);
                        // Release: pairs with the reader's acquire.
                        replaced.store(version, Ordering::Release);
                    }
                })
            };
            let reader = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    for _ in 0..40 {
                        // Acquire: pairs with the writer's release.
                        let least = replaced.load(Ordering::Acquire);
                        if let Some(found) = index.reread(hash, position) {
                            SEEN.store(true, Ordering::Relaxed);
                            let units = found.entry().location().units();
                            assert!(units >= least, "{units} after {least}");
                        }
                    }
                })
            };
            grow_and_shrink(&index);
            assert!(writer.join().is_ok() && reader.join().is_ok());
            assert_eq!(index.bytes(), bytes, "what was split was not merged");
        },
        3_000,
        3,
    );
    assert!(SEEN.load(Ordering::Relaxed), "no run saw anything there");
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
                            index.resize_step();
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
