//! Models of the epochs under the weak orderings of C++11 (`cargo xtask models`): memory is reused
//! only after all accesses of readers. Index entries are accessed with relaxed ordering here, so
//! that only the epochs order them with accesses to the memory.

use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::weak_memory::{Bytes, CaseArose, PreemptionPoint, explore};
use loom::thread;

const REUSED: u32 = u32::MAX;

/// Two index entries, and the blocks of their items. An entry refers to the third block after its
/// own block was unlinked.
struct Items {
    entries: [AtomicUsize; 2],
    blocks: [Bytes; 3],
    preemption: PreemptionPoint,
}

impl Items {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            entries: [AtomicUsize::new(0), AtomicUsize::new(1)],
            blocks: [0, 1, 2].map(Bytes::new),
            preemption: PreemptionPoint::new(),
        })
    }

    /// Reads the block that an entry refers to. Returns whether the item's own block was unlinked.
    fn read_item(&self, item: usize) -> bool {
        self.preemption.point();
        let at = self.entries[item].load(Ordering::Relaxed);
        assert_ne!(self.blocks[at].read(), REUSED, "a block is reused");
        self.preemption.point();
        at == 2
    }

    /// Unlinks a block. Returns the stamp of its retirement.
    fn unlink(&self, item: usize, epochs: &Epochs) -> Stamp {
        self.preemption.point();
        self.entries[item].store(2, Ordering::Relaxed);
        let stamp = epochs.retire();
        self.preemption.point();
        stamp
    }

    /// Reuses the block if its stamp has passed. Returns whether it did.
    fn reuse(&self, item: usize, epochs: &Epochs, stamp: Stamp) -> bool {
        let has_passed = epochs.has_passed(stamp);
        if has_passed {
            self.blocks[item].write(REUSED);
        }
        has_passed
    }
}

#[test]
fn a_block_is_reused_after_a_reader_was_quiescent() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            // The reader is online before it starts, and before the fence of `has_passed`. So only
            // `quiescent` orders its accesses.
            worker_slot.online();
            thread::spawn(move || {
                items.read_item(0);
                worker_slot.quiescent();
                let is_unlinked = items.read_item(0);
                // The slot is returned, not dropped: dropping it takes the lock of the list of
                // worker slots, which would order this thread's accesses before the reuse.
                (worker_slot, is_unlinked)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        let is_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, is_unlinked)| is_unlinked);
        CaseArose(is_reused && is_unlinked)
    });
}

#[test]
fn a_block_is_reused_while_a_reader_sleeps() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            thread::spawn(move || {
                worker_slot.online();
                items.read_item(0);
                worker_slot.offline();
                worker_slot.online();
                let is_unlinked = items.read_item(0);
                (worker_slot, is_unlinked)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        let is_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, is_unlinked)| is_unlinked);
        CaseArose(is_reused && is_unlinked)
    });
}

#[test]
fn a_block_is_reused_after_a_reader_has_left() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            thread::spawn(move || {
                worker_slot.online();
                items.read_item(0);
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        assert!(reader.join().is_ok());
        CaseArose(is_reused)
    });
}

/// Two threads unlink and retire a block each. Each reuses its block only after all accesses of a
/// reader.
#[test]
fn blocks_retired_by_two_threads_are_reused_after_the_reader_was_quiescent() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            worker_slot.online();
            thread::spawn(move || {
                worker_slot.quiescent();
                let is_unlinked = items.read_item(0) & items.read_item(1);
                (worker_slot, is_unlinked)
            })
        };
        let other = {
            let (epochs, items) = (Arc::clone(&epochs), Arc::clone(&items));
            thread::spawn(move || {
                let stamp = items.unlink(1, &epochs);
                items.reuse(1, &epochs, stamp)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        let is_other_reused = other.join().is_ok_and(|is_reused| is_reused);
        let is_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, is_unlinked)| is_unlinked);
        CaseArose(is_reused && is_other_reused && is_unlinked)
    });
}
