//! Page maintenance: the system calls that return unused memory to the kernel and populate memory
//! before its first use. A thread that serves no requests makes these calls, so that no worker has
//! to make them. The thread may share a processor with a worker. That worker waits while a step
//! runs, so steps are small.
//!
//! A step does the first of these things for which there is work:
//!
//! ```text
//! a repopulation in progress ─► populates the next POPULATE_BYTES of its segment
//! segments to be discarded   ─► returns the pages of one segment to the kernel
//! segments needed soon       ─► begins or continues to populate one, by POPULATE_BYTES
//! the index                  ─► populates POPULATE_BYTES of the buckets to be used next
//! ```
//!
//! To *repopulate* is to populate a segment that was discarded earlier. No worker uses such a
//! segment until all its pages are populated. A segment that was never used before may be used at
//! any time, even before it is populated. Then each page becomes resident on its first access.

use crate::heap::SegmentNumber;
use crate::limits::POPULATE_BYTES;
use crate::store::Store;
use crate::sync::Arc;

/// What a step of page maintenance did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageStep {
    /// There was nothing to do.
    Nothing,
    /// The pages of a segment were returned to the kernel.
    Discarded,
    /// Some pages of a segment or of the index were populated.
    Populated,
}

/// The page maintenance of a store: returns unused memory to the kernel and populates the pages
/// needed next. The caller calls [`PageMaintenance::step`] repeatedly.
#[derive(Debug)]
pub struct PageMaintenance {
    store: Arc<Store>,
    /// The segment that is being populated.
    current: Option<PageOperation>,
}

/// The population of one segment, which takes several steps.
#[derive(Debug)]
struct PageOperation {
    number: SegmentNumber,
    /// Number of bytes of the segment that are populated already.
    populated_len: u32,
    /// The segment was discarded earlier, so no worker uses it until it is populated.
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

    /// Does a step of page maintenance. Makes system calls.
    pub fn step(&mut self) -> PageStep {
        let log = &self.store.log;
        let is_repopulating = self.current.as_ref().is_some_and(|it| it.was_discarded);
        if !is_repopulating && let Some(number) = log.next_to_discard() {
            // With huge pages, the first access to any byte would make a whole huge page resident,
            // including discarded memory around that byte.
            self.store.disable_huge_pages();
            // If discarding fails, the segment keeps its pages. It can be used again nevertheless.
            log.heap.discard(number);
            log.discarded(number);
            return PageStep::Discarded;
        }
        if self.current.is_none() {
            self.current = self.take_next_segment();
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
        // The index grows into the memory that follows its buckets. This many bytes of that memory
        // are populated in advance.
        let ahead_bytes = 2 * self.store.log.heap.segment_size() as usize;
        let index = &self.store.index;
        match index.populate(ahead_bytes, POPULATE_BYTES as usize) {
            true => PageStep::Populated,
            false => PageStep::Nothing,
        }
    }

    /// Takes the next segment to be populated: preferably one that was discarded earlier, otherwise
    /// one that was never used.
    fn take_next_segment(&self) -> Option<PageOperation> {
        let log = &self.store.log;
        let operation = |number, was_discarded| PageOperation {
            number,
            populated_len: 0,
            was_discarded,
        };
        let next_to_populate = log.next_to_populate().map(|number| operation(number, true));
        next_to_populate.or_else(|| Some(operation(log.next_fresh()?, false)))
    }

    /// Ends the population of a segment. A segment that was discarded is free from now on.
    fn finish(&self, current: &PageOperation) {
        if current.was_discarded {
            self.store.log.populated(current.number);
        }
    }
}

impl Store {
    /// Runs steps of page maintenance until there is nothing left to do. To be called before the
    /// server answers requests, because this makes many system calls.
    pub fn run_page_maintenance(self: &Arc<Self>) {
        let mut maintenance = PageMaintenance::new(self);
        while maintenance.step() != PageStep::Nothing {}
    }
}

impl Drop for PageMaintenance {
    fn drop(&mut self) {
        // The segment can be used although it is populated only in part. The remaining pages become
        // resident on their first access.
        if let Some(current) = self.current.take() {
            self.finish(&current);
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
