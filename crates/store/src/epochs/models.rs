//! A model of the epochs under the model checker shuttle (`cargo xtask models`). Shuttle runs three
//! threads in many interleavings: two readers, one of which also goes offline between its reads,
//! and a thread that reuses memory. In every execution all threads see all operations in the same
//! order (sequential consistency). So this model cannot detect a missing fence or an `Ordering`
//! that is too weak. The models in `weak_memory.rs` can.

use super::*;
use crate::sync::atomic::AtomicUsize;
use shuttle::thread;

/// The content of a cell after its reuse. A cell stands for the memory of an item.
const WIPED: u64 = u64::MAX;

/// Number of executions, each with interleavings chosen at random.
const EXECUTIONS: usize = 5_000;

/// Loads `current`, the number of a cell, which stands for an index entry. Reads this cell twice,
/// and then announces quiescence. Another thread may run between the two reads.
fn read_item(worker_slot: &WorkerSlot, cells: &[AtomicU64; 2], current: &AtomicUsize) {
    let cell = &cells[current.load(Ordering::SeqCst)];
    for _ in 0..2 {
        assert_ne!(
            cell.load(Ordering::SeqCst),
            WIPED,
            "the cell was reused during the read"
        );
    }
    worker_slot.quiescent();
}

#[test]
fn memory_is_not_reused_while_it_is_being_read() {
    shuttle::check_random(
        || {
            let epochs = Epochs::new();
            let cells = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let current = Arc::new(AtomicUsize::new(0));
            let readers: Vec<_> = [false, true]
                .into_iter()
                .map(|goes_offline| {
                    let (worker_slot, cells, current) =
                        (epochs.register(), Arc::clone(&cells), Arc::clone(&current));
                    thread::spawn(move || {
                        worker_slot.online();
                        for _ in 0..2 {
                            read_item(&worker_slot, &cells, &current);
                            if goes_offline {
                                worker_slot.offline();
                                thread::yield_now();
                                worker_slot.online();
                            }
                        }
                    })
                })
                .collect();
            // Unlink and retire cell 0. Reuse it if its stamp passes soon; if not, the execution
            // ends without a reuse.
            current.store(1, Ordering::SeqCst);
            let stamp = epochs.retire();
            for _ in 0..3 {
                if epochs.has_passed(stamp) {
                    cells[0].store(WIPED, Ordering::SeqCst);
                    break;
                }
                thread::yield_now();
            }
            for reader in readers {
                assert!(reader.join().is_ok());
            }
            assert!(
                epochs.has_passed(stamp),
                "the stamp has passed after all readers have ended"
            );
        },
        EXECUTIONS,
    );
}
