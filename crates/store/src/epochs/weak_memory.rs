//! Models of the epochs under loom, which also explores the weak orderings of the C++11 memory
//! model (`cargo xtask models`). Each model checks that memory is reused only after all accesses of
//! readers. The models access index entries with relaxed ordering. So the order of index accesses
//! and block accesses depends on the epochs alone.
//!
//! A model returns in `CaseArose` whether the case under test occurred in an execution, and
//! `explore` fails if it occurred in none. `PreemptionPoint::point` marks a point at which loom may
//! run another thread.

use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::weak_memory::{Bytes, CaseArose, PreemptionPoint, explore};
use loom::thread;

/// The content of a block whose memory was reused.
const REUSED: u32 = u32::MAX;

/// Two index entries and three blocks. Entry 0 first refers to block 0, and entry 1 to block 1.
/// When one of these blocks is unlinked, its entry is changed to refer to block 2, which is never
/// reused.
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

    /// Reads the block to which entry `item` refers. Returns true if it is block 2, which means
    /// that the entry's first block was unlinked.
    fn read_item(&self, item: usize) -> bool {
        self.preemption.point();
        let at = self.entries[item].load(Ordering::Relaxed);
        assert_ne!(
            self.blocks[at].read(),
            REUSED,
            "the block was reused before the read"
        );
        self.preemption.point();
        at == 2
    }

    /// Unlinks block `item` and retires it. Returns the stamp.
    fn unlink(&self, item: usize, epochs: &Epochs) -> Stamp {
        self.preemption.point();
        self.entries[item].store(2, Ordering::Relaxed);
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
            // The reader goes online before its thread starts, and so before the fence in
            // `has_passed`. Therefore only `quiescent` orders the reader's accesses.
            worker_slot.online();
            thread::spawn(move || {
                items.read_item(0);
                worker_slot.quiescent();
                let is_unlinked = items.read_item(0);
                // The thread returns its slot, because dropping the slot here would lock the list
                // of worker slots. The lock alone would then order the thread's accesses before the
                // reuse, and hide a missing ordering in `quiescent`.
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
fn a_block_is_reused_while_a_reader_is_offline() {
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
fn a_block_is_reused_after_a_reader_dropped_its_slot() {
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

/// Two threads each unlink and retire one block. Each thread may reuse its block only after all
/// accesses of the reader.
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
