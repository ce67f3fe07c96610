//! Models of the access word under loom, which also explores the weak orderings of the C++11 memory
//! model (`cargo xtask models`). They check that a thread that sees the dead mark also sees that
//! the block was unlinked, and that recording a read never overwrites a claim. The models access
//! the index entry with relaxed ordering. So only the dead mark orders the unlinking before the
//! reuse of the memory.
//!
//! `src/weak_memory.rs` documents what these models share with others: `explore`, `CaseArose`,
//! `PreemptionPoint` and `Bytes`.

use super::*;
use crate::epochs::Epochs;
use crate::sync::{Arc, atomic};
use crate::weak_memory::{Bytes, CaseArose, PreemptionPoint, explore};
use loom::thread;

const NOW_S: u32 = 7;

impl Word for atomic::AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn replace_if_unchanged(&self, before: u32, after: u32) {
        let _ = self.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// An item in a segment that is being evacuated.
struct Item {
    /// The index entry: true while it refers to the block.
    entry: atomic::AtomicBool,
    word: atomic::AtomicU32,
    bytes: Bytes,
    preemption: PreemptionPoint,
}

impl Item {
    fn new(access: Access) -> Arc<Self> {
        Arc::new(Self {
            entry: atomic::AtomicBool::new(true),
            word: atomic::AtomicU32::new(access.0),
            bytes: Bytes::new(0),
            preemption: PreemptionPoint::new(),
        })
    }

    fn word(&self) -> AccessWord<'_, atomic::AtomicU32> {
        AccessWord(&self.word)
    }

    /// Reads the item as `Worker::read` does, and records the read as `Worker::record_access` does.
    /// Returns false if the item was not found.
    fn read(&self) -> bool {
        self.preemption.point();
        let is_found = self.entry.load(Ordering::Relaxed);
        if is_found {
            assert_eq!(self.bytes.read(), 0, "the block was reused during the read");
            let has_expiry_word = false;
            self.record_access(has_expiry_word);
        }
        self.preemption.point();
        is_found
    }

    /// Loads the access word and records a read.
    fn record_access(&self, has_expiry_word: bool) {
        let before = self.word().access();
        self.record(before, has_expiry_word);
    }

    /// Records a read. `before` is the access word as loaded earlier.
    fn record(&self, before: Access, has_expiry_word: bool) {
        self.preemption.point();
        let after = before.fetched_at(NOW_S);
        if before != after {
            self.word().record_access(before, after, || has_expiry_word);
        }
        self.preemption.point();
    }

    /// Removes the index entry, then sets the dead mark.
    fn unlink(&self) {
        self.preemption.point();
        self.entry.store(false, Ordering::Relaxed);
        self.preemption.point();
        self.word().mark_dead();
        self.preemption.point();
    }

    /// Evacuates the segment of the block: if the block has the dead mark, skips it without reading
    /// the index, and retires the segment with a stamp (`epochs.rs`). Then reuses the memory if the
    /// stamp has passed, that is, if no worker still has references to the memory. Returns true if
    /// the memory was reused.
    fn evacuate(&self, epochs: &Epochs) -> bool {
        self.preemption.point();
        if !self.word().is_marked_dead() {
            return false;
        }
        let stamp = epochs.retire();
        self.preemption.point();
        let is_reused = epochs.has_passed(stamp);
        if is_reused {
            self.bytes.write(1);
        }
        is_reused
    }
}

#[test]
fn readers_do_not_find_a_dead_block_after_evacuation_has_skipped_it() {
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
        let is_found = reader.join().is_ok_and(|(_worker_slot, is_found)| is_found);
        CaseArose(is_reused && !is_found)
    });
}

/// The reader loads the word before the claim, and records its read after the claim. A read
/// recorded before the claim is not modelled, because loom would report a lost claim that C++11
/// excludes. In C++11, the store of a compare-exchange directly follows, in the order of all stores
/// to the word, the store that the compare-exchange has read. Loom does not enforce this.
#[test]
fn recording_a_read_does_not_overwrite_a_claim() {
    for (is_stale, has_expiry_word) in [(true, false), (false, true)] {
        explore(move || {
            let item = Item::new(Access::new(1).with_stale_and_claimed(is_stale, false));
            let is_claimed = Arc::new(atomic::AtomicBool::new(false));
            let reader = {
                let (item, is_claimed) = (Arc::clone(&item), Arc::clone(&is_claimed));
                thread::spawn(move || {
                    let before = item.word().access();
                    let is_after_claim = is_claimed.load(Ordering::Relaxed);
                    if is_after_claim {
                        item.record(before, has_expiry_word);
                    }
                    is_after_claim && !before.is_claimed()
                })
            };
            let access = item.word().access();
            item.word()
                .set(access.with_stale_and_claimed(is_stale, true));
            is_claimed.store(true, Ordering::Relaxed);
            let has_overlapped = reader.join().is_ok_and(|has_overlapped| has_overlapped);
            assert!(item.word().access().is_claimed(), "the claim is lost");
            CaseArose(has_overlapped)
        });
    }
}
