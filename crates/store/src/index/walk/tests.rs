use super::*;
use crate::limits::{MOVED_BUCKETS_MAX, REVISITS_PER_BUCKET};

const SECOND: u32 = 1;

/// An index of one shard, which stays at this number of buckets.
fn index(buckets: u64) -> Index {
    let index = Index::new(1, buckets as usize, 64 << 20).unwrap();
    assert_eq!(index.bytes(), buckets * 64);
    index
}

/// Visits the next bucket. `Some`: the walk has ended, and whether it is incomplete.
fn step(index: &Index, walk: WalkNumber) -> Option<bool> {
    match index.walk(walk, SECOND) {
        Visited::Bucket(_) => None,
        Visited::End { is_incomplete } => Some(is_incomplete),
    }
}

#[test]
fn a_walk_that_cannot_be_complete_ends_with_its_last_bucket() {
    let index = index(64);
    let walk = index.begin_walk(SECOND).unwrap();
    for _ in 0..64 {
        assert_eq!(step(&index, walk), None);
    }
    (0..=MOVED_BUCKETS_MAX).for_each(|_| index.walk.note_move(0));
    assert_eq!(step(&index, walk), Some(true));
}

/// As many moves as the walk has steps, for as long as it lasts.
#[test]
fn moves_behind_a_walk_do_not_prolong_it_without_bound() {
    const BUCKETS: u64 = 64;
    let index = index(BUCKETS);
    let walk = index.begin_walk(SECOND).unwrap();
    let mut steps = 0;
    let is_incomplete = loop {
        if let Some(is_incomplete) = step(&index, walk) {
            break is_incomplete;
        }
        steps += 1;
        assert!(steps <= BUCKETS * (1 + REVISITS_PER_BUCKET), "no end");
        index.walk.note_move(0);
    };
    assert!(is_incomplete);
    assert_eq!(steps, BUCKETS * (1 + REVISITS_PER_BUCKET));
    // The next walk has a list and a bound of its own.
    index.end_walk(walk);
    let walk = index.begin_walk(SECOND).unwrap();
    (0..BUCKETS).for_each(|_| assert_eq!(step(&index, walk), None));
    assert_eq!(step(&index, walk), Some(false));
}

/// The list is emptied before it is full, not only at the end.
#[test]
fn a_walk_is_complete_with_more_moves_than_its_list_has_space_for() {
    const BUCKETS: u64 = 2 * MOVED_BUCKETS_MAX as u64;
    const MOVES: u64 = BUCKETS / 4 * 3;
    let index = index(BUCKETS);
    let walk = index.begin_walk(SECOND).unwrap();
    let (mut steps, mut noted) = (0_u64, 0);
    while noted < MOVES {
        assert_eq!(step(&index, walk), None);
        steps += 1;
        if steps.is_multiple_of(2) {
            index.walk.note_move(0);
            noted += 1;
        }
    }
    let is_incomplete = loop {
        steps += 1;
        if let Some(is_incomplete) = step(&index, walk) {
            break is_incomplete;
        }
    };
    assert!(!is_incomplete);
    // Each bucket once, one more for each move, and the end.
    assert_eq!(steps, BUCKETS + MOVES + 1);
}
