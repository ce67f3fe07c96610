//! Page maintenance: system calls for memory, in small steps, on a thread that serves no requests.
//! It may share a processor with a worker, which is then delayed by the length of a step.
//!
//! ```text
//! segments being repopulated ─► a number of bytes per step; not used before they are done
//! segments to be discarded   ─► one segment per step
//! segments needed soon       ─► a number of bytes per step
//! the index                  ─► a number of bytes of its next buckets per step
//! ```

use crate::heap::Number;
use crate::limits::POPULATE_BYTES;
use crate::store::Store;
use crate::sync::Arc;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageStep {
    /// There was nothing to do.
    Nothing,
    /// Memory was returned to the kernel.
    GaveBack,
    /// Pages were populated.
    Populated,
}

/// Returns unused memory to the kernel and populates the pages needed next.
#[derive(Debug)]
pub struct PageMaintenance {
    store: Arc<Store>,
    /// The segment that is being populated.
    under_way: Option<PageOperation>,
}

#[derive(Debug)]
struct PageOperation {
    number: Number,
    /// Number of its bytes that are populated.
    done: u32,
    /// It was discarded earlier, and is not used until it is populated.
    is_returning: bool,
}

impl PageMaintenance {
    /// The store it serves.
    #[must_use]
    pub fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            under_way: None,
        }
    }

    /// Runs a step, which makes system calls.
    pub fn step(&mut self) -> PageStep {
        let log = &self.store.log;
        let is_awaited = self.under_way.as_ref().is_some_and(|it| it.is_returning);
        if !is_awaited && let Some(number) = log.next_to_discard() {
            // Huge pages would fill up the discarded memory.
            self.store.refuse_huge_pages();
            // If discarding fails, the content is unchanged and the segment is reused as it is.
            log.heap.discard(number);
            log.discarded(number);
            return PageStep::GaveBack;
        }
        if self.under_way.is_none() {
            self.under_way = self.next();
        }
        if let Some(mut now) = self.under_way.take() {
            let log = &self.store.log;
            now.done = log.heap.populate(now.number, now.done, POPULATE_BYTES);
            if now.done < log.heap.segment_size() {
                self.under_way = Some(now);
            } else {
                self.finish(&now);
            }
            return PageStep::Populated;
        }
        let ahead = 2 * self.store.log.heap.segment_size() as usize;
        match self.store.index.populate(ahead, POPULATE_BYTES as usize) {
            true => PageStep::Populated,
            false => PageStep::Nothing,
        }
    }

    fn next(&self) -> Option<PageOperation> {
        let log = &self.store.log;
        let begun = |number, is_returning| PageOperation {
            number,
            done: 0,
            is_returning,
        };
        let next_to_populate = log.next_to_populate().map(|number| begun(number, true));
        next_to_populate.or_else(|| Some(begun(log.next_fresh()?, false)))
    }

    fn finish(&self, under_way: &PageOperation) {
        if under_way.is_returning {
            self.store.log.populated(under_way.number);
        }
    }
}

impl Drop for PageMaintenance {
    fn drop(&mut self) {
        // Its pages are populated on first touch.
        if let Some(under_way) = self.under_way.take() {
            self.finish(&under_way);
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
