use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

#[test]
fn a_stamp_has_passed_once_every_worker_has_announced_it_or_is_offline_or_was_dropped() {
    let epochs = Epochs::new();
    let [first, second] = [epochs.register(), epochs.register()];
    first.online();
    let stamp = epochs.retire();
    assert!(!epochs.has_passed(stamp));
    // Going online after `retire` announces `stamp`, but `first` has not announced it yet.
    second.online();
    assert!(!epochs.has_passed(stamp));
    first.quiescent();
    assert!(epochs.has_passed(stamp));
    let next = epochs.retire();
    assert!(next > stamp);
    first.offline();
    assert!(!epochs.has_passed(next));
    drop(second);
    assert!(epochs.has_passed(next));
}

/// A cell stands for the memory of an item. `current`, the number of a cell, stands for the index
/// entry that refers to the item. Readers load `current` and then read that cell. The main thread
/// replaces the current cell by a free one, retires the replaced cell, and wipes it once the stamp
/// of its retirement has passed. So no reader may ever see a wiped cell.
#[test]
fn memory_is_not_reused_while_it_is_being_read() {
    const CELLS: usize = 8;
    /// The content of a cell that is free again.
    const WIPED: u64 = u64::MAX;
    /// Number of reads of a cell between the load of `current` and the next announcement.
    const READS_PER_CELL: usize = 50;
    /// Number of steps of the main thread. A step replaces the current cell, or, if no cell is
    /// free, wipes and frees cells.
    const STEPS: u64 = 50_000;
    let epochs = Epochs::new();
    let cells: [AtomicU64; CELLS] = std::array::from_fn(|_| AtomicU64::new(0));
    let current = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for goes_offline in [false, true] {
            let worker_slot = epochs.register();
            let (cells, current, done) = (&cells, &current, &done);
            scope.spawn(move || {
                worker_slot.online();
                let mut cells_read = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    let cell = &cells[current.load(Ordering::Acquire)];
                    for _ in 0..READS_PER_CELL {
                        assert_ne!(cell.load(Ordering::Relaxed), WIPED);
                    }
                    cells_read += 1;
                    if goes_offline && cells_read.is_multiple_of(3) {
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
        for step in 0..STEPS {
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
            cells[next].store(step, Ordering::Relaxed);
            let old = current.swap(next, Ordering::AcqRel);
            retired.push((old, epochs.retire()));
        }
        done.store(true, Ordering::Relaxed);
    });
}
