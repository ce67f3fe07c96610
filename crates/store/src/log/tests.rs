use super::*;
use crate::eviction_policy::POLICIES;
use crate::index::Entry;

const TARGET: AllocTarget = AllocTarget {
    stripe: 0,
    part: Part::Small,
    expiry: Expiry::NEVER,
    now_s: 1,
    is_copy: false,
};

/// Creates a log of four segments of 8 KiB (2^13 bytes) for one worker.
fn log() -> Log {
    Log::new(Heap::new(4, 13, 1).unwrap(), Epochs::new(), 4, 1)
}

#[test]
fn every_byte_of_a_segment_filled_to_its_end_is_occupied() {
    let log = log();
    // Sixty-six blocks fill a segment exactly. One more block makes the log seal it.
    let first = log.allocate(124, &TARGET).unwrap().number;
    for _ in 0..66 {
        assert!(log.allocate(124, &TARGET).is_some());
    }
    let segment = log.heap.segment(first);
    assert_eq!(segment.phase(), Phase::Sealed);
    assert_eq!(segment.occupied(log.heap.segment_size()), 66 * 124);
}

/// Regression test. Each failed allocation advanced the tail of the full segment. After 4 GiB the
/// tail wrapped to 0, and new blocks overwrote live items.
#[test]
fn failed_allocations_do_not_move_the_tail_of_a_full_segment() {
    let log = log();
    let mut last = None;
    while let Some(allocation) = log.allocate(1000, &TARGET) {
        last = Some(allocation.number);
        log.heap.segment(allocation.number).release_writer();
    }
    let segment = log.heap.segment(last.unwrap());
    let tail = segment.tail();
    for _ in 0..100 {
        assert!(log.allocate(1000, &TARGET).is_none());
    }
    assert_eq!(segment.tail(), tail);
}

#[test]
fn the_mean_lifetime_follows_lasting_changes_but_not_a_single_outlier() {
    let log = log();
    assert_eq!(log.mean_lifetime_s(), 0);
    for _ in 0..10 {
        log.record_lifetime(60);
    }
    assert_eq!(log.mean_lifetime_s(), 60);
    log.record_lifetime(100_000);
    assert!((61..=68).contains(&log.mean_lifetime_s()));
    for _ in 0..40 {
        log.record_lifetime(u32::MAX);
    }
    assert!(log.mean_lifetime_s() > 1_000);
    for _ in 0..100 {
        log.record_lifetime(1);
    }
    assert_eq!(log.mean_lifetime_s(), 1);
    for _ in 0..100 {
        log.record_lifetime(0);
    }
    assert_eq!(log.mean_lifetime_s(), 0);
    for _ in 0..200 {
        log.record_lifetime(60);
    }
    assert!((55..=60).contains(&log.mean_lifetime_s()));
}

/// Regression test. The shares of the two parts in the log were computed from two loads of the
/// segment limit. Another thread changed the limit between the loads, and a subtraction
/// underflowed.
#[test]
fn shares_are_consistent_while_another_thread_changes_the_limit() {
    // 1000 segments, of which up to 4 may be resident at first.
    let heap = Heap::new(1_000, 13, 1).unwrap();
    let log = Log::new(heap, Epochs::new(), 4, 1);
    let half_small = POLICIES
        .iter()
        .position(|policy| policy.small_thousandths == 500);
    log.set_eviction_policy(half_small.unwrap());
    // Segment 0 contains a piece of an item. Segment 1, which was opened later, contains the item's
    // head block. The opening numbers of a part differ by 2.
    for (number, opening) in [(0, 3), (1, 2_001)] {
        log.heap.segment(number).open(Part::Main, 0, 1, opening);
    }
    let head = log.heap.location(1, FIRST_BLOCK).unwrap();
    let entry = Entry::from_word(head.units()).unwrap();
    let victim = Victim {
        number: 0,
        reason: EvacuationReason::Evict,
    };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for store in 0..20_000_000 {
                log.segment_limit
                    .store([4, 1_000][store % 2], Ordering::Relaxed);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) {
            // The head's segment was opened 999 openings after the piece's segment. This is more
            // than half of the main part's share under both limits.
            assert!(log.head_was_copied_out(entry, victim));
        }
    });
}

#[test]
fn the_reserve_grows_with_the_number_of_workers() {
    let reserve = |segments: u32, workers| {
        let heap = Heap::new(segments as usize, 13, workers).unwrap();
        Log::new(heap, Epochs::new(), segments, workers).reserve()
    };
    assert_eq!(reserve(1_000, 1), 9);
    assert_eq!(reserve(1_000, 4), 12);
    assert_eq!(reserve(1_000, 64), 14);
}
