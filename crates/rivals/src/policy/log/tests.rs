use super::*;

const SHAPE: LogShape = LogShape {
    segments: 32,
    small_share: 0.1,
    second: 0,
    ghost_share: 1.0 / 64.0,
    ..LogShape::DEFAULT
};

fn ask(log: &mut Log, records: std::ops::Range<u32>) -> usize {
    records.filter(|&record| log.request(record, 10)).count()
}

#[test]
fn frequently_requested_items_survive_a_scan() {
    let mut log = Log::new(32 * 100, 10_000, SHAPE);
    for _ in 0..4 {
        ask(&mut log, 0..100);
    }
    ask(&mut log, 1000..9000);
    let kept = ask(&mut log, 0..100);
    assert!(kept > 80, "{kept}");
    assert!(log.used() <= 3200);
}

#[test]
fn what_is_overwritten_takes_room_until_its_segment_is_drained() {
    let mut log = Log::new(32 * 100, 10_000, SHAPE);
    ask(&mut log, 1..2);
    (0..100).for_each(|_| log.write(2, 10));
    assert!(log.used() > 1000);
    assert_eq!(ask(&mut log, 1..3), 2);
    (0..1000).for_each(|_| log.write(2, 10));
    assert!(log.used() <= 3200);
    assert_eq!(ask(&mut log, 2..3), 1);
}

#[test]
fn dead_bytes_are_reclaimed_before_anything_leaves_the_main_part() {
    let never = LogShape {
        compacts_at: 2.0,
        overwritten_to_small: false,
        ..SHAPE
    };
    let [misses, misses_without] = [SHAPE, never].map(|shape| {
        let mut log = Log::new(32 * 100, 10_000, shape);
        let rounds = (0..200).map(|round| {
            let written = round * 37 % 200;
            (written..written + 30).for_each(|record| log.write(record, 10));
            250 - ask(&mut log, 0..250)
        });
        rounds.sum::<usize>()
    });
    assert!(
        misses + misses / 3 < misses_without,
        "{misses} {misses_without}"
    );
}

#[test]
fn within_a_second_only_the_first_read_counts() {
    let shape = LogShape {
        second: 100,
        ..SHAPE
    };
    let mut log = Log::new(32 * 100, 10_000, shape);
    (0..50).for_each(|_| {
        ask(&mut log, 1..2);
    });
    assert_eq!(log.known[1].frequency, 1);
    (0..100).for_each(|_| {
        ask(&mut log, 1..2);
    });
    assert_eq!(log.known[1].frequency, 2);
}

#[test]
fn a_record_longer_than_a_segment_takes_several() {
    let mut log = Log::new(32 * 100, 10_000, SHAPE);
    assert!(!log.request(1, 350));
    assert!(log.used() >= 300);
    assert!(log.request(1, 350));
    assert!(!log.request(2, 3200));
    assert!(!log.request(2, 3200));
}
