//! The memory of a block has one writer at a time, and is complete for the thread that evacuates
//! its segment, also under weak orderings (`cargo xtask models`). The index entries are relaxed
//! here, so that only the segment orders them with the memory.

use super::*;
use crate::epochs::Epochs;
use crate::sync::Arc;
use crate::weak_memory::{Bytes, Switch, explore};
use loom::thread;

/// Size of the only block of the segment.
const LEN: u32 = 8;
const SIZE: u32 = FIRST + LEN;
const FIRST_OPENING: u32 = 2;
const SECOND_OPENING: u32 = 4;
const EXPIRY_S: u32 = 50;

const OLD: u32 = 1;
const FILLED: u32 = 2;
const NEW: u32 = 3;

/// A segment of one block.
struct Model {
    segment: Segment,
    bytes: Bytes,
    /// Whether the index refers to the content of the filled hole.
    entry: AtomicU32,
    switch: Switch,
}

impl Model {
    fn opened() -> Arc<Self> {
        let model = Self {
            segment: Segment::default(),
            bytes: Bytes::new(OLD),
            entry: AtomicU32::new(0),
            switch: Switch::new(),
        };
        model.segment.open(Part::Small, 0, 0, FIRST_OPENING);
        Arc::new(model)
    }

    /// A sealed segment whose block has been written.
    fn full() -> Arc<Self> {
        let model = Self::opened();
        assert!(model.append(OLD));
        model.segment.set_phase(Phase::Sealed);
        model
    }

    /// Adds a block, as `Log::allocate_between` does. Returns false if the segment is full.
    fn append(&self, value: u32) -> bool {
        self.switch.here();
        if self.segment.tail() >= SIZE {
            return false;
        }
        self.switch.here();
        let is_taken = self.segment.take(LEN, SIZE) == Ok(FIRST);
        if is_taken {
            self.segment.raise_expiry(Expiry::at(EXPIRY_S));
            self.bytes.write(value);
        }
        self.switch.here();
        self.segment.release_writer();
        self.switch.here();
        is_taken
    }

    /// Fills a hole left in the first opening, as `Worker::take_hole` and the following write do.
    fn fill(&self) -> bool {
        self.switch.here();
        let is_joined = self.segment.acquire_writer_if_opening(FIRST_OPENING);
        self.switch.here();
        if is_joined {
            self.bytes.write(FILLED);
            self.entry.store(1, Ordering::Relaxed);
            self.switch.here();
            self.segment.release_writer();
            self.switch.here();
        }
        is_joined
    }

    /// Closes the segment and reads its block. Returns false if a writer holds it.
    fn evacuate(&self) -> bool {
        let is_closed = self.is_ready() && self.segment.close();
        self.switch.here();
        if is_closed {
            let is_filled = self.entry.load(Ordering::Relaxed) == 1;
            let expected = if is_filled { FILLED } else { OLD };
            assert_eq!(self.bytes.read(), expected, "a published block is complete");
        }
        is_closed
    }

    fn is_ready(&self) -> bool {
        self.switch.here();
        let is_ready = self.segment.is_ready(SIZE);
        self.switch.here();
        is_ready
    }

    fn reopen_retired(&self) {
        self.switch.here();
        self.segment.open(Part::Small, 0, 0, SECOND_OPENING);
    }
}

#[test]
fn a_hole_is_filled_while_its_segment_is_evacuated_and_reopened() {
    explore(|| {
        let model = Model::full();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.fill())
        };
        let is_evacuated = model.evacuate();
        if is_evacuated {
            model.reopen_retired();
            assert!(model.append(NEW));
        }
        let is_filled = writer.join().is_ok_and(|is_filled| is_filled);
        if is_evacuated {
            assert_eq!(
                model.bytes.read(),
                NEW,
                "an older opening's writer was late"
            );
        }
        is_evacuated && is_filled
    });
}

/// A thread that adds to a reopened segment writes where evacuation has read, and sees the opening.
#[test]
fn another_thread_adds_to_a_reopened_segment() {
    explore(|| {
        let model = Model::full();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                let is_added = model.append(NEW);
                assert!(!is_added || model.segment.opening() == SECOND_OPENING);
                is_added
            })
        };
        assert!(model.evacuate());
        model.reopen_retired();
        // Only the segment orders this read after the other thread's write.
        let is_ready = model.is_ready();
        if is_ready {
            assert_eq!(model.bytes.read(), NEW);
        }
        let is_added = writer.join().is_ok_and(|is_added| is_added);
        is_added && is_ready
    });
}

/// Selecting a segment for evacuation reads it only through `is_ready`.
#[test]
fn a_ready_segment_has_the_expiry_of_its_blocks() {
    explore(|| {
        let model = Model::opened();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.append(NEW))
        };
        let is_ready = model.is_ready();
        if is_ready {
            assert_eq!(model.segment.expiry(), Expiry::at(EXPIRY_S));
            assert_eq!(model.bytes.read(), NEW);
        }
        assert!(writer.join().is_ok());
        is_ready
    });
}

#[test]
fn a_hole_is_filled_after_evacuation_was_abandoned() {
    explore(|| {
        let model = Model::full();
        let writer = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.fill())
        };
        let is_abandoned = model.evacuate();
        if is_abandoned {
            model.switch.here();
            model.segment.reopen();
            model.evacuate();
        }
        let is_filled = writer.join().is_ok_and(|is_filled| is_filled);
        is_abandoned && is_filled
    });
}

/// Writers of holes in two segments would not interact: here the other thread evacuates and
/// reopens, and a third adds.
#[test]
fn a_hole_is_not_filled_while_another_thread_adds() {
    explore(|| {
        let model = Model::full();
        let spawn = |run: fn(&Model) -> bool| {
            let model = Arc::clone(&model);
            thread::spawn(move || run(&model))
        };
        let filling = spawn(Model::fill);
        let adding = spawn(|model| model.append(NEW));
        let is_evacuated = model.evacuate();
        if is_evacuated {
            model.reopen_retired();
        }
        let is_added = adding.join().is_ok_and(|is_added| is_added);
        let is_filled = filling.join().is_ok_and(|is_filled| is_filled);
        is_evacuated && is_added && !is_filled
    });
}

/// A pin takes its hold while its reader is online, and reads when the reader may be offline.
#[test]
fn a_pinned_block_is_not_reused() {
    explore(|| {
        let (epochs, model) = (Epochs::new(), Model::full());
        let reader = {
            let (worker_slot, model) = (epochs.register(), Arc::clone(&model));
            worker_slot.online();
            thread::spawn(move || {
                let is_found = model.entry.load(Ordering::Relaxed) == 0;
                if is_found {
                    model.segment.hold();
                }
                model.switch.here();
                worker_slot.quiescent();
                model.switch.here();
                if is_found {
                    assert_eq!(model.bytes.read(), OLD);
                    model.segment.release();
                    model.switch.here();
                }
                (worker_slot, is_found)
            })
        };
        model.switch.here();
        model.entry.store(1, Ordering::Relaxed);
        let stamp = epochs.retire();
        model.switch.here();
        let is_reused = epochs.has_passed(stamp) && !model.segment.is_held();
        if is_reused {
            model.reopen_retired();
            assert!(model.append(NEW));
        }
        let is_found = reader.join().is_ok_and(|(_worker_slot, is_found)| is_found);
        is_reused && is_found
    });
}
