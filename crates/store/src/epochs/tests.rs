use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

#[test]
fn a_stamp_has_passed_once_every_worker_has_announced_it_or_is_offline() {
    let epochs = Epochs::new();
    let [one, two] = [epochs.register(), epochs.register()];
    one.online();
    let stamp = epochs.retire();
    assert!(!epochs.has_passed(stamp));
    two.online();
    assert!(!epochs.has_passed(stamp));
    one.quiescent();
    assert!(epochs.has_passed(stamp));
    let next = epochs.retire();
    assert!(next > stamp);
    one.offline();
    assert!(!epochs.has_passed(next));
    drop(two);
    assert!(epochs.has_passed(next));
}

/// `current` is the index of a cell and stands for a pointer. Readers load it and then read the
/// cell. The main thread switches `current` to another cell and retires the old one. It wipes the
/// old cell only after the stamp of its retirement has passed, so no reader may ever see a wiped
/// cell.
#[test]
fn memory_is_not_reused_while_it_is_being_read() {
    const CELLS: usize = 8;
    const WIPED: u64 = u64::MAX;
    let epochs = Epochs::new();
    let cells: [AtomicU64; CELLS] = std::array::from_fn(|_| AtomicU64::new(0));
    let current = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for sleeps in [false, true] {
            let worker_slot = epochs.register();
            let (cells, current, done) = (&cells, &current, &done);
            scope.spawn(move || {
                worker_slot.online();
                let mut reads = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let cell = &cells[current.load(Ordering::Acquire)];
                    for _ in 0..50 {
                        assert_ne!(cell.load(Ordering::Relaxed), WIPED);
                    }
                    reads += 1;
                    if sleeps && reads.is_multiple_of(3) {
                        worker_slot.offline();
                        thread::yield_now();
                        worker_slot.online();
                    } else {
                        worker_slot.quiescent();
                    }
                }
            });
        }
        let mut retired: Vec<(usize, Stamp)> = Vec::new();
        let mut free: Vec<usize> = (1..CELLS).collect();
        for turn in 0..50_000 {
            let Some(next) = free.pop() else {
                retired.retain(|&(cell, stamp)| {
                    let has_passed = epochs.has_passed(stamp);
                    if has_passed {
                        cells[cell].store(WIPED, Ordering::Relaxed);
                        free.push(cell);
                    }
                    !has_passed
                });
                thread::yield_now();
                continue;
            };
            cells[next].store(turn, Ordering::Relaxed);
            let old = current.swap(next, Ordering::AcqRel);
            retired.push((old, epochs.retire()));
        }
        done.store(true, Ordering::Relaxed);
    });
}
