//! Memory is reused only after all accesses of readers, also under weak orderings (`cargo xtask
//! models`). The index entries are relaxed here, so that only the epochs order them with the
//! memory.

use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::weak_memory::{Bytes, Switch, explore};
use loom::thread;

const REUSED: u32 = u32::MAX;

/// The blocks of two items, and their entries, which refer to a third block after the unlinking.
struct Items {
    entries: [AtomicUsize; 2],
    blocks: [Bytes; 3],
    switch: Switch,
}

impl Items {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            entries: [AtomicUsize::new(0), AtomicUsize::new(1)],
            blocks: [0, 1, 2].map(Bytes::new),
            switch: Switch::new(),
        })
    }

    /// Reads through the entry. Returns whether it no longer refers to the first block.
    fn scan(&self, item: usize) -> bool {
        self.switch.here();
        let at = self.entries[item].load(Ordering::Relaxed);
        assert_ne!(self.blocks[at].read(), REUSED, "a block is reused");
        self.switch.here();
        at == 2
    }

    /// Unlinks a block. Returns the stamp of its retirement.
    fn unlink(&self, item: usize, epochs: &Epochs) -> Stamp {
        self.switch.here();
        self.entries[item].store(2, Ordering::Relaxed);
        let stamp = epochs.retire();
        self.switch.here();
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
            // Before the updater's fence, so that the result depends on `quiescent` alone.
            worker_slot.online();
            thread::spawn(move || {
                items.scan(0);
                worker_slot.quiescent();
                let is_unlinked = items.scan(0);
                // Removing a worker slot takes the lock of the list, which would order the two.
                (worker_slot, is_unlinked)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        let is_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, is_unlinked)| is_unlinked);
        is_reused && is_unlinked
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
                items.scan(0);
                worker_slot.offline();
                worker_slot.online();
                let is_unlinked = items.scan(0);
                (worker_slot, is_unlinked)
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        let is_unlinked = reader
            .join()
            .is_ok_and(|(_worker_slot, is_unlinked)| is_unlinked);
        is_reused && is_unlinked
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
                items.scan(0);
            })
        };
        let stamp = items.unlink(0, &epochs);
        let is_reused = items.reuse(0, &epochs, stamp);
        assert!(reader.join().is_ok());
        is_reused
    });
}

/// If a later stamp has passed, so has an earlier one of another thread.
#[test]
fn two_threads_retire_concurrently() {
    explore(|| {
        let (epochs, items) = (Epochs::new(), Items::new());
        let reader = {
            let (worker_slot, items) = (epochs.register(), Arc::clone(&items));
            worker_slot.online();
            thread::spawn(move || {
                worker_slot.quiescent();
                let is_unlinked = items.scan(0) & items.scan(1);
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
        is_reused && is_other_reused && is_unlinked
    });
}
