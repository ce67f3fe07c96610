//! Models of the epochs under the model checker loom, which also explores the weak orderings of the
//! C++11 memory model (`cargo xtask models`). Each model checks that a block is reused only after
//! all reads of the block. The models access index entries with relaxed ordering. So only the
//! epochs order the accesses of different threads to entries and blocks.
//!
//! `src/weak_memory.rs` documents what these models share with others: `explore`, `CaseArose`,
//! `PreemptionPoint` and `Bytes`.

use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::weak_memory::{Bytes, CaseArose, PreemptionPoint, explore};
use loom::thread;

/// The content of a block after its memory was reused.
const REUSED: u32 = u32::MAX;

/// The block to which an entry refers after its first block was unlinked. It is never reused.
const REPLACEMENT: usize = 2;

/// Two items, with the numbers 0 and 1: two index entries and three blocks. At first entry 0 refers
/// to block 0, and entry 1 to block 1. To unlink one of these blocks is to make its entry refer to
/// block [`REPLACEMENT`].
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

    /// Reads the block to which entry `item` refers. Returns true if this is the replacement, which
    /// means that the entry's first block was unlinked.
    fn read_item(&self, item: usize) -> bool {
        self.preemption.point();
        let block = self.entries[item].load(Ordering::Relaxed);
        assert_ne!(
            self.blocks[block].read(),
            REUSED,
            "the block was reused before the read"
        );
        self.preemption.point();
        block == REPLACEMENT
    }

    /// Unlinks block `item` and retires it. Returns the stamp.
    fn unlink(&self, item: usize, epochs: &Epochs) -> Stamp {
        self.preemption.point();
        self.entries[item].store(REPLACEMENT, Ordering::Relaxed);
        let stamp = epochs.retire();
        self.preemption.point();
        stamp
    }

    /// Overwrites block `item` if `stamp` has passed. Returns true if the block was overwritten.
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
            // The reader goes online before its thread starts, so the thread executes no fence.
            // Therefore only `quiescent` orders the reader's accesses before the reuse.
            worker_slot.online();
            thread::spawn(move || {
                items.read_item(0);
                worker_slot.quiescent();
                let is_unlinked = items.read_item(0);
                // The thread returns its slot, because dropping the slot here would lock the list
                // of announcements. The lock alone would then order the thread's accesses before
                // the reuse, and hide a missing ordering in `quiescent`.
                (worker_slot, is_unlinked)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        let is_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, is_unlinked)| is_unlinked);
        // The case: the block was reused, and the reader's second lookup found the replacement.
        CaseArose(is_reused && is_unlinked)
    });
}

#[test]
fn a_block_is_reused_while_a_reader_is_offline() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            thread::spawn(move || {
                // Here the reader goes online in its thread, so the model also tests the fences of
                // `online` and `has_passed`.
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
fn a_block_is_reused_before_a_reader_goes_online_or_after_it_dropped_its_slot() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            thread::spawn(move || {
                worker_slot.online();
                items.read_item(0);
                // The end of the thread drops `worker_slot`.
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        assert!(reader.join().is_ok());
        CaseArose(is_reused)
    });
}

/// Two threads each unlink and retire one block. A reader that announces the newer of the two
/// stamps must see that both blocks were unlinked, although different threads unlinked them.
#[test]
fn blocks_retired_by_two_threads_are_reused_after_the_reader_was_quiescent() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            worker_slot.online();
            thread::spawn(move || {
                worker_slot.quiescent();
                // `&` and not `&&`, so that both items are read in every execution.
                let are_unlinked = items.read_item(0) & items.read_item(1);
                (worker_slot, are_unlinked)
            })
        };
        let other_thread = {
            let (epochs, items) = (Arc::clone(&epochs), Arc::clone(&items));
            thread::spawn(move || {
                let stamp = items.unlink(1, &epochs);
                items.reuse(1, &epochs, stamp)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_block_0_reused = items.reuse(0, &epochs, stamp);
        let is_block_1_reused = other_thread.join().is_ok_and(|is_reused| is_reused);
        let are_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, are_unlinked)| are_unlinked);
        CaseArose(is_block_0_reused && is_block_1_reused && are_unlinked)
    });
}
