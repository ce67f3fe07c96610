//! A reader of the dead mark sees the unlinking, and no record of a read overwrites a claim, also
//! under weak orderings (`cargo xtask models`). The index entry is relaxed here, so that only the
//! mark orders it with the memory.

use super::*;
use crate::epochs::Epochs;
use crate::sync::{Arc, atomic};
use crate::weak_memory::{Bytes, Switch, explore};
use loom::thread;

const NOW_S: u32 = 7;

impl Word for atomic::AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn replace(&self, before: u32, after: u32) {
        let _ = self.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// An item of a segment that is evacuated.
struct Item {
    /// Whether the index entry refers to the block.
    entry: atomic::AtomicBool,
    word: atomic::AtomicU32,
    bytes: Bytes,
    switch: Switch,
}

impl Item {
    fn new(access: Access) -> Arc<Self> {
        Arc::new(Self {
            entry: atomic::AtomicBool::new(true),
            word: atomic::AtomicU32::new(access.0),
            bytes: Bytes::new(0),
            switch: Switch::new(),
        })
    }

    fn word(&self) -> AccessWord<'_, atomic::AtomicU32> {
        AccessWord(&self.word)
    }

    /// As `Worker::read` and `Worker::record_access`. Returns false if the item was not found.
    fn read(&self) -> bool {
        self.switch.here();
        let is_found = self.entry.load(Ordering::Relaxed);
        if is_found {
            assert_eq!(self.bytes.read(), 0, "the block is used again");
            self.record_access(false);
        }
        self.switch.here();
        is_found
    }

    fn record_access(&self, is_timed: bool) {
        let before = self.word().access();
        self.record(before, is_timed);
    }

    fn record(&self, before: Access, is_timed: bool) {
        self.switch.here();
        let after = before.fetched_at(NOW_S);
        if before != after {
            self.word().record_access(before, after, || is_timed);
        }
        self.switch.here();
    }

    fn unlink(&self) {
        self.switch.here();
        self.entry.store(false, Ordering::Relaxed);
        self.switch.here();
        self.word().mark_dead();
        self.switch.here();
    }

    /// Retires the segment without reading the index, if the block has the dead mark, and reuses
    /// its memory. Returns false if it has no mark, or readers may be left.
    fn evacuate(&self, epochs: &Epochs) -> bool {
        self.switch.here();
        if !self.word().is_marked_dead() {
            return false;
        }
        let stamp = epochs.retire();
        self.switch.here();
        let is_reused = epochs.has_passed(stamp);
        if is_reused {
            self.bytes.write(1);
        }
        is_reused
    }
}

#[test]
fn a_reader_does_not_find_a_block_that_evacuation_has_skipped() {
    explore(|| {
        let (epochs, item) = (Epochs::new(), Item::new(Access::new(1)));
        let reader = {
            let (worker_slot, item) = (epochs.register(), Arc::clone(&item));
            worker_slot.online();
            thread::spawn(move || {
                item.read();
                worker_slot.quiescent();
                let is_found = item.read();
                (worker_slot, is_found)
            })
        };
        let writer = {
            let item = Arc::clone(&item);
            thread::spawn(move || item.unlink())
        };
        let is_reused = item.evacuate(&epochs);
        assert!(writer.join().is_ok());
        let is_found = reader.join().is_ok_and(|(_seat, is_found)| is_found);
        is_reused && !is_found
    });
}

/// The reader has loaded the word as it was before the claim. (If it stores before the claim does,
/// loom lets either store be the last: it does not order a compare-exchange before a store that
/// follows the one it read.)
#[test]
fn a_record_of_a_read_leaves_a_claim() {
    for (stale, is_timed) in [(true, false), (false, true)] {
        explore(move || {
            let item = Item::new(Access::new(1).with_stale_and_claimed(stale, false));
            let is_claimed = Arc::new(atomic::AtomicBool::new(false));
            let reader = {
                let (item, is_claimed) = (Arc::clone(&item), Arc::clone(&is_claimed));
                thread::spawn(move || {
                    let before = item.word().access();
                    let is_late = is_claimed.load(Ordering::Relaxed);
                    if is_late {
                        item.record(before, is_timed);
                    }
                    is_late && !before.is_claimed()
                })
            };
            let access = item.word().access();
            item.word().set(access.with_stale_and_claimed(stale, true));
            is_claimed.store(true, Ordering::Relaxed);
            let is_late = reader.join().is_ok_and(|is_late| is_late);
            assert!(item.word().access().is_claimed(), "the claim is lost");
            is_late
        });
    }
}
