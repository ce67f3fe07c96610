use super::*;
use crate::limits::{MOVED_BUCKETS_MAX, REVISITS_PER_BUCKET};

const NOW_S: u32 = 1;

/// Returns an index of one shard with `buckets` buckets. No test inserts items, so this number does
/// not change.
fn index(buckets: u64) -> Index {
    let index = Index::new(1, buckets as usize, 64 << 20).unwrap();
    assert_eq!(index.bytes(), buckets * 64);
    index
}

/// Makes one step of a walk. Returns `None` if the walk has visited a bucket. If the walk has
/// ended, returns whether it is incomplete.
fn step(index: &Index, walk: WalkNumber) -> Option<bool> {
    match index.walk(walk, NOW_S) {
        Visited::Bucket(_) => None,
        Visited::End { is_incomplete } => Some(is_incomplete),
    }
}

#[test]
fn a_walk_that_cannot_be_complete_ends_after_its_last_bucket() {
    let index = index(64);
    let walk = index.begin_walk(NOW_S).unwrap();
    for _ in 0..64 {
        assert_eq!(step(&index, walk), None);
    }
    // The list of moves has space for `MOVED_BUCKETS_MAX` moves. There is one move more.
    (0..=MOVED_BUCKETS_MAX).for_each(|_| index.walk.note_move(0));
    assert_eq!(step(&index, walk), Some(true));
}

/// After each step of the walk, an entry moves into a visited bucket.
#[test]
fn moves_into_visited_buckets_do_not_prolong_a_walk_without_bound() {
    const BUCKETS: u64 = 64;
    let index = index(BUCKETS);
    let walk = index.begin_walk(NOW_S).unwrap();
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
    // The next walk begins with an empty list, and counts its repeated visits from 0.
    index.end_walk(walk);
    let walk = index.begin_walk(NOW_S).unwrap();
    (0..BUCKETS).for_each(|_| assert_eq!(step(&index, walk), None));
    assert_eq!(step(&index, walk), Some(false));
}

/// The walk visits noted buckets again before the list is full, not only at its end.
#[test]
fn a_walk_is_complete_with_more_moves_than_its_list_has_space_for() {
    const BUCKETS: u64 = 2 * MOVED_BUCKETS_MAX as u64;
    const MOVES: u64 = BUCKETS / 4 * 3;
    let index = index(BUCKETS);
    let walk = index.begin_walk(NOW_S).unwrap();
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
    // One step for each bucket, one for each move, and one for the end.
    assert_eq!(steps, BUCKETS + MOVES + 1);
}
