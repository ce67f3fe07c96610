//! Models of a segment under loom, which also explores the weak orderings of the C++11 memory model
//! (`cargo xtask models`). They check that a block has one writer at a time, and that a thread that
//! evacuates the segment sees the complete block. The models access the index entry with relaxed
//! ordering. So only the operations on the segment order accesses to the entry and to the block.
//!
//! `src/weak_memory.rs` documents what these models share with others: `explore`, `CaseArose`,
//! `PreemptionPoint` and `Bytes`.

use super::*;
use crate::epochs::Epochs;
use crate::sync::Arc;
use crate::weak_memory::{Bytes, CaseArose, PreemptionPoint, explore};
use loom::thread;

/// Length of the block. The segment has space for only one block.
const LEN: u32 = 8;
/// Size of the segment.
const SIZE: u32 = FIRST_BLOCK + LEN;
/// The number of the segment's first opening. It is even, as for all segments of the small part
/// (`log::part_of_opening`).
const FIRST_OPENING: u32 = 2;
const SECOND_OPENING: u32 = 4;
const EXPIRY_S: u32 = 50;
/// Number of flushes of the store.
const FLUSHES: u32 = 0;
/// The second in which the segment is opened.
const OPENED_S: u32 = 0;

// The contents of the block.
/// Written as a block after the first opening.
const OLD: u32 = 1;
/// Written into the hole left by the old block.
const FILLED: u32 = 2;
/// Appended after the second opening, or as the first block of a segment without an old block.
const NEW: u32 = 3;

// The values of the index entry.
/// The entry refers to the old block.
const REFERS_TO_OLD: u32 = 0;
/// The entry does not refer to the old block any more. In the models that fill a hole, it refers to
/// the block in the hole.
const RELINKED: u32 = 1;

/// A segment with space for one block, and an index entry.
struct Model {
    segment: Segment,
    /// The memory of the block.
    bytes: Bytes,
    /// The index entry: [`REFERS_TO_OLD`] or [`RELINKED`].
    entry: AtomicU32,
    preemption: PreemptionPoint,
}

impl Model {
    /// Creates an open segment without a block.
    fn with_open_segment() -> Arc<Self> {
        let model = Self {
            segment: Segment::default(),
            bytes: Bytes::new(OLD),
            entry: AtomicU32::new(REFERS_TO_OLD),
            preemption: PreemptionPoint::new(),
        };
        model
            .segment
            .open(Part::Small, FLUSHES, OPENED_S, FIRST_OPENING);
        Arc::new(model)
    }

    /// Creates a sealed segment with the old block.
    fn with_sealed_segment() -> Arc<Self> {
        let model = Self::with_open_segment();
        assert!(model.append(OLD));
        model.segment.set_phase(Phase::Sealed);
        model
    }

    /// Appends a block with the content `value`, as `Log::allocate_between` and the following write
    /// do. Returns false if the segment is full.
    fn append(&self, value: u32) -> bool {
        self.preemption.point();
        if self.segment.tail() >= SIZE {
            return false;
        }
        self.preemption.point();
        let is_taken = self.segment.allocate(LEN, SIZE) == Ok(FIRST_BLOCK);
        if is_taken {
            self.segment.raise_expiry(Expiry::at(EXPIRY_S));
            self.bytes.write(value);
        }
        self.preemption.point();
        self.segment.release_writer();
        self.preemption.point();
        is_taken
    }

    /// Fills the hole left by the old block, as `Worker::take_hole` and the following write do.
    /// Returns false if the segment is closed or was opened again.
    fn fill(&self) -> bool {
        self.preemption.point();
        let is_acquired = self.segment.acquire_writer_if_opening(FIRST_OPENING);
        self.preemption.point();
        if is_acquired {
            self.bytes.write(FILLED);
            self.entry.store(RELINKED, Ordering::Relaxed);
            self.preemption.point();
            self.segment.release_writer();
            self.preemption.point();
        }
        is_acquired
    }

    /// Closes the segment and reads its block, as evacuation does. Returns false if the segment
    /// cannot be evacuated, because a writer holds it.
    fn evacuate(&self) -> bool {
        let is_closed = self.can_be_evacuated() && self.segment.close();
        self.preemption.point();
        if is_closed {
            let is_filled = self.entry.load(Ordering::Relaxed) == RELINKED;
            let expected = if is_filled { FILLED } else { OLD };
            assert_eq!(
                self.bytes.read(),
                expected,
                "evacuation read a block that is not complete"
            );
        }
        is_closed
    }

    fn can_be_evacuated(&self) -> bool {
        self.preemption.point();
        let can_be_evacuated = self.segment.can_be_evacuated(SIZE);
        self.preemption.point();
        can_be_evacuated
    }

    /// Opens the segment a second time, after its evacuation and retirement.
    fn open_again(&self) {
        self.preemption.point();
        self.segment
            .open(Part::Small, FLUSHES, OPENED_S, SECOND_OPENING);
    }
}

#[test]
fn filling_a_hole_never_overwrites_a_block_written_after_the_next_opening() {
    explore(|| {
        let model = Model::with_sealed_segment();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.fill())
        };
        let is_evacuated = model.evacuate();
        if is_evacuated {
            model.open_again();
            assert!(model.append(NEW));
        }
        let is_filled = writer.join().is_ok_and(|is_filled| is_filled);
        if is_evacuated {
            assert_eq!(
                model.bytes.read(),
                NEW,
                "a writer filled a hole after the segment was opened again"
            );
        }
        CaseArose(is_evacuated && is_filled)
    });
}

/// A writer that appends to a segment after its second opening sees the new opening number. It
/// writes to the memory only after the evacuation has read the old block.
#[test]
fn a_writer_that_appends_after_the_second_opening_sees_its_number() {
    explore(|| {
        let model = Model::with_sealed_segment();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                let is_appended = model.append(NEW);
                assert!(!is_appended || model.segment.opening() == SECOND_OPENING);
                is_appended
            })
        };
        assert!(model.evacuate());
        model.open_again();
        // Only `can_be_evacuated` orders the read below after the other thread's write.
        let can_be_evacuated = model.can_be_evacuated();
        if can_be_evacuated {
            assert_eq!(model.bytes.read(), NEW);
        }
        let is_appended = writer.join().is_ok_and(|is_appended| is_appended);
        CaseArose(is_appended && can_be_evacuated)
    });
}

/// The search for a segment to evacuate reads the segment's expiry after `can_be_evacuated` and
/// before `close`, so `can_be_evacuated` alone has to make it visible.
#[test]
fn a_thread_that_may_evacuate_sees_the_expiry_of_the_block() {
    explore(|| {
        let model = Model::with_open_segment();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.append(NEW))
        };
        let can_be_evacuated = model.can_be_evacuated();
        if can_be_evacuated {
            assert_eq!(model.segment.expiry(), Expiry::at(EXPIRY_S));
            assert_eq!(model.bytes.read(), NEW);
        }
        assert!(writer.join().is_ok());
        CaseArose(can_be_evacuated)
    });
}

#[test]
fn evacuation_sees_a_hole_filled_after_an_abandoned_evacuation() {
    explore(|| {
        let model = Model::with_sealed_segment();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.fill())
        };
        let is_closed = model.evacuate();
        if is_closed {
            // The evacuation is abandoned, as by `Log::abandon`, and another one begins.
            model.preemption.point();
            model.segment.undo_close();
            model.evacuate();
        }
        let is_filled = writer.join().is_ok_and(|is_filled| is_filled);
        CaseArose(is_closed && is_filled)
    });
}

/// One thread fills the hole, one evacuates the segment and opens it again, and one appends a
/// block. Loom reports a data race if two of them access the memory of the block concurrently.
#[test]
fn filling_a_hole_does_not_race_with_appending_after_the_second_opening() {
    explore(|| {
        let model = Model::with_sealed_segment();
        let spawn = |run: fn(&Model) -> bool| {
            let model = Arc::clone(&model);
            thread::spawn(move || run(&model))
        };
        let filling = spawn(Model::fill);
        let appending = spawn(|model| model.append(NEW));
        let is_evacuated = model.evacuate();
        if is_evacuated {
            model.open_again();
        }
        let is_appended = appending.join().is_ok_and(|is_appended| is_appended);
        let is_filled = filling.join().is_ok_and(|is_filled| is_filled);
        CaseArose(is_evacuated && is_appended && !is_filled)
    });
}

/// A reader finds the block and holds its segment, as a pin does. Then the reader becomes
/// quiescent, reads the block, and releases the hold. The memory must not be reused before the
/// release.
#[test]
fn a_pinned_block_is_not_reused() {
    explore(|| {
        let (epochs, model) = (Epochs::new(), Model::with_sealed_segment());
        let reader = {
            let (worker_slot, model) = (epochs.register(), Arc::clone(&model));
            worker_slot.online();
            thread::spawn(move || {
                let is_found = model.entry.load(Ordering::Relaxed) == REFERS_TO_OLD;
                if is_found {
                    model.segment.hold();
                }
                model.preemption.point();
                worker_slot.quiescent();
                model.preemption.point();
                if is_found {
                    assert_eq!(model.bytes.read(), OLD);
                    model.segment.release();
                    model.preemption.point();
                }
                (worker_slot, is_found)
            })
        };
        model.preemption.point();
        model.entry.store(RELINKED, Ordering::Relaxed);
        let stamp = epochs.retire();
        model.preemption.point();
        let is_reused = epochs.has_passed(stamp) && !model.segment.is_held();
        if is_reused {
            model.open_again();
            assert!(model.append(NEW));
        }
        let is_found = reader.join().is_ok_and(|(_worker_slot, is_found)| is_found);
        CaseArose(is_reused && is_found)
    });
}
