//! Models of the index under shuttle (`cargo xtask models`): insertions, removals, splits, merges
//! and kicks (moves of an entry to the other bucket of its key) run with concurrent readers, in
//! many interleavings. Every execution is sequentially consistent, so the models cannot detect an
//! `Ordering` that is too weak. The comments in `index.rs` justify the orderings.

use super::writer::Inserted;
use super::*;
use crate::heap::Location;
use crate::limits::{RESIZE_BUCKETS, VISITS_MAX};
use crate::sync::Arc;
use shuttle::rand::Rng;
use shuttle::thread;

/// Returns the hash of item `number`, so that the models need no keys. The item's location is
/// `number` too.
fn hash_of_number(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Inserts an item. Fails if no slot can be freed by kicks.
fn insert(index: &Index, number: u64) {
    const IS_RESTORED: bool = false;
    const MAY_DISPLACE: bool = false;
    const BUDGET: usize = VISITS_MAX - RESIZE_BUCKETS;
    let Some(location) = Location::new(number) else {
        return;
    };
    let writer = index.lock(hash_of_number(number));
    let inserted = writer.insert(location, IS_RESTORED, MAY_DISPLACE, BUDGET);
    assert_eq!(inserted, Inserted::Placed, "item {number} has no free slot");
}

fn remove(index: &Index, number: u64) {
    let writer = index.lock(hash_of_number(number));
    let found = writer.find(|entry| entry.location().units() == number);
    let Some(found) = found else {
        panic!("item {number} is not in the index");
    };
    writer.remove(&found);
}

fn is_present(index: &Index, number: u64) -> bool {
    let found = index.find(hash_of_number(number), |entry| {
        entry.location().units() == number
    });
    found.is_some()
}

/// Number of items that stay in the index while the threads run. With only these items, the load is
/// so low that a bucket that was split for the [`TEMPORARY_ITEMS`] is merged again.
const PERMANENT_ITEMS: u64 = 43;
/// The items that are inserted and removed while the threads run. They raise the load so far that a
/// bucket is split.
const TEMPORARY_ITEMS: Range<u64> = 100..110;

/// Creates an empty index of one shard, which has `buckets` buckets and may grow to `buckets_max`.
fn empty(buckets: usize, buckets_max: usize) -> Arc<Index> {
    match Index::new(1, buckets, buckets_max * BUCKET_BYTES) {
        Ok(index) => Arc::new(index),
        Err(error) => panic!("failed to create the index: {error}"),
    }
}

/// Creates an index with items 1 to [`PERMANENT_ITEMS`], which may grow.
fn filled() -> Arc<Index> {
    let index = empty(8, 16);
    (1..=PERMANENT_ITEMS).for_each(|number| insert(&index, number));
    index
}

/// Returns an item that moves to the new bucket when a bucket is split, and its position there.
/// Then removes the temporary items, so that the bucket is merged again.
fn moving_item(index: &Index) -> Option<(u64, Position)> {
    // Buckets are numbered from 0, so the bucket that a split adds has this number.
    let new_bucket = index.buckets.load(Ordering::Relaxed);
    TEMPORARY_ITEMS.for_each(|number| insert(index, number));
    index.resize_step();
    let moved = |number| {
        let matches = |entry: Entry| entry.location().units() == number;
        let found = index.scan(hash_of_number(number), matches)?;
        (found.bucket == new_bucket).then_some((number, found.position()))
    };
    let moved = (1..=PERMANENT_ITEMS).find_map(moved);
    for number in TEMPORARY_ITEMS {
        remove(index, number);
        index.resize_step();
    }
    moved
}

/// Inserts and removes the [`TEMPORARY_ITEMS`], so that a bucket is split and merged.
fn grow_and_shrink(index: &Index) {
    let bytes = index.bytes();
    for number in TEMPORARY_ITEMS {
        insert(index, number);
        index.resize_step();
    }
    assert!(index.bytes() > bytes, "no bucket was split");
    for number in TEMPORARY_ITEMS {
        remove(index, number);
        index.resize_step();
    }
}

#[test]
fn readers_find_every_item_while_buckets_are_split_and_merged() {
    shuttle::check_random(
        || {
            let index = filled();
            let bytes = index.bytes();
            let reader = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    for number in (1..=PERMANENT_ITEMS).rev().step_by(5) {
                        assert!(is_present(&index, number), "{number} was missed");
                    }
                })
            };
            let writer = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    insert(&index, 200);
                    assert!(is_present(&index, 200));
                    remove(&index, 200);
                    assert!(!is_present(&index, 200));
                })
            };
            grow_and_shrink(&index);
            assert!(reader.join().is_ok() && writer.join().is_ok());
            // Item 200 may have kept the load too high for the merge.
            index.resize_step();
            assert_eq!(index.bytes(), bytes, "the split bucket was not merged");
            assert_eq!(index.len(), PERMANENT_ITEMS);
            (1..=PERMANENT_ITEMS).for_each(|number| assert!(is_present(&index, number)));
        },
        2_000,
    );
}

/// All buckets are nearly full, so almost every insertion finds the two buckets of its key full,
/// and kicks an entry.
#[test]
fn readers_find_entries_that_kicks_move() {
    /// Number of items that stay in the index, which has 32 slots.
    const LASTING_ITEMS: u64 = 29;
    shuttle::check_random(
        || {
            let index = empty(4, 4);
            (1..=LASTING_ITEMS).for_each(|number| insert(&index, number));
            let reader = {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    let mut random = shuttle::rand::thread_rng();
                    for _ in 0..40 {
                        let number = random.gen_range(1..=LASTING_ITEMS);
                        assert!(is_present(&index, number), "{number} was missed");
                    }
                })
            };
            let first = shuttle::rand::thread_rng().gen_range(100..1_000_000);
            for number in first..first + 12 {
                insert(&index, number);
                remove(&index, number);
            }
            assert!(reader.join().is_ok());
            assert_eq!(index.len(), LASTING_ITEMS);
        },
        3_000,
    );
}

/// One thread replaces an entry repeatedly, while another moves it by splits and merges. A reader
/// that rereads a remembered position finds the current entry or no entry. It never finds an entry
/// that was replaced before the read.
#[test]
fn a_remembered_position_never_returns_an_older_entry() {
    /// The location of the first version. The location of each later version is one higher.
    const FIRST_VERSION: u64 = 1_000;
    const FREQUENCY: u8 = 0;
    // Whether any execution found an entry at the position. An atomic of the standard library,
    // because the value has to outlast an execution, and shuttle must not schedule it.
    static SEEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    // This scheduler preempts threads only a few times per execution. In the case under test, one
    // thread makes many steps while another makes none.
    shuttle::check_pct(
        || {
            let index = filled();
            let bytes = index.bytes();
            let Some((number, position)) = moving_item(&index) else {
                panic!("no item moves");
            };
            let hash = hash_of_number(number);
            let replaced = Arc::new(AtomicU64::new(0));
            let writer = {
                let (index, replaced) = (Arc::clone(&index), Arc::clone(&replaced));
                thread::spawn(move || {
                    for version in FIRST_VERSION..FIRST_VERSION + 6 {
                        let writer = index.lock(hash);
                        let matches = |entry: Entry| {
                            let units = entry.location().units();
                            units == number || units >= FIRST_VERSION
                        };
                        let found = writer.find(matches);
                        let location = Location::new(version);
                        assert!(found.is_some() && location.is_some());
                        if let (Some(found), Some(location)) = (found, location) {
                            writer.replace(&found, location, FREQUENCY);
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
                        let version_min = replaced.load(Ordering::Acquire);
                        if let Some(found) = index.reread(hash, position) {
                            SEEN.store(true, Ordering::Relaxed);
                            let units = found.entry().location().units();
                            assert!(units >= version_min, "{units} after {version_min}");
                        }
                    }
                })
            };
            grow_and_shrink(&index);
            assert!(writer.join().is_ok() && reader.join().is_ok());
            assert_eq!(index.bytes(), bytes, "the split bucket was not merged");
        },
        // The number of executions, and the bug depth of the scheduler (PCT, Burckhardt et al.,
        // ASPLOS 2010).
        3_000,
        3,
    );
    assert!(
        SEEN.load(Ordering::Relaxed),
        "no execution found an entry at the position"
    );
}

#[test]
fn after_concurrent_removals_the_count_is_the_number_of_items_that_readers_find() {
    shuttle::check_random(
        || {
            let index = filled();
            let writers: Vec<_> = (0..2)
                .map(|offset| {
                    let index = Arc::clone(&index);
                    thread::spawn(move || {
                        for number in (1 + offset..=PERMANENT_ITEMS).step_by(8) {
                            remove(&index, number);
                            index.resize_step();
                        }
                    })
                })
                .collect();
            for writer in writers {
                assert!(writer.join().is_ok());
            }
            let present_count = (1..=PERMANENT_ITEMS)
                .filter(|&number| is_present(&index, number))
                .count();
            assert_eq!(present_count as u64, index.len());
        },
        2_000,
    );
}
