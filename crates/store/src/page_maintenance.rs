//! Page maintenance: system calls for memory, in small steps, on a thread that serves no requests.
//! That thread may share a processor with a worker, which is then delayed by the length of a step.
//!
//! ```text
//! segments being repopulated ─► a number of bytes per step; not used before they are populated
//! segments to be discarded   ─► one segment per step
//! segments needed soon       ─► a number of bytes per step
//! the index                  ─► a number of bytes of its next buckets per step
//! ```

use crate::heap::SegmentNumber;
use crate::limits::POPULATE_BYTES;
use crate::store::Store;
use crate::sync::Arc;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageStep {
    /// There was nothing to do.
    Nothing,
    /// The pages of a segment were returned to the kernel.
    Discarded,
    /// Pages were populated.
    Populated,
}

/// Returns unused memory to the kernel and populates the pages needed next.
#[derive(Debug)]
pub struct PageMaintenance {
    store: Arc<Store>,
    /// The segment that is being populated.
    current: Option<PageOperation>,
}

#[derive(Debug)]
struct PageOperation {
    number: SegmentNumber,
    /// Number of bytes of the segment that are populated already.
    populated_len: u32,
    /// The segment was discarded earlier, and is not used until it is populated.
    was_discarded: bool,
}

impl PageMaintenance {
    /// Creates the maintenance of a store.
    #[must_use]
    pub fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            current: None,
        }
    }

    /// Runs a step, which makes system calls.
    pub fn step(&mut self) -> PageStep {
        let log = &self.store.log;
        let is_repopulating = self.current.as_ref().is_some_and(|it| it.was_discarded);
        if !is_repopulating && let Some(number) = log.next_to_discard() {
            // With huge pages, the first touch of a small part would make all of the discarded
            // memory around it resident again.
            self.store.disable_huge_pages();
            // If discarding fails, the segment keeps its pages, and can be used again all the same.
            log.heap.discard(number);
            log.discarded(number);
            return PageStep::Discarded;
        }
        if self.current.is_none() {
            self.current = self.next();
        }
        if let Some(mut operation) = self.current.take() {
            let log = &self.store.log;
            operation.populated_len =
                log.heap
                    .populate(operation.number, operation.populated_len, POPULATE_BYTES);
            if operation.populated_len < log.heap.segment_size() {
                self.current = Some(operation);
            } else {
                self.finish(&operation);
            }
            return PageStep::Populated;
        }
        let ahead_bytes = 2 * self.store.log.heap.segment_size() as usize;
        match self
            .store
            .index
            .populate(ahead_bytes, POPULATE_BYTES as usize)
        {
            true => PageStep::Populated,
            false => PageStep::Nothing,
        }
    }

    fn next(&self) -> Option<PageOperation> {
        let log = &self.store.log;
        let operation = |number, was_discarded| PageOperation {
            number,
            populated_len: 0,
            was_discarded,
        };
        let next_to_populate = log.next_to_populate().map(|number| operation(number, true));
        next_to_populate.or_else(|| Some(operation(log.next_fresh()?, false)))
    }

    fn finish(&self, current: &PageOperation) {
        if current.was_discarded {
            self.store.log.populated(current.number);
        }
    }
}

impl Drop for PageMaintenance {
    fn drop(&mut self) {
        // The segment can be used: its other pages are populated on first touch.
        if let Some(current) = self.current.take() {
            self.finish(&current);
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
