//! What takes system calls, a little at a time, for a thread that answers nobody: that may have to
//! share a processor with one that does, which then waits for as long as a step takes.
//!
//! ```text
//! under way back   ─► so many bytes of a segment a step: nobody has it until it is done
//! to be given back ─► one segment a step
//! to be used soon  ─► so many bytes of a segment a step
//! the index        ─► so many bytes of its next buckets a step
//! ```

use crate::heap::Number;
use crate::limits::POPULATE_BYTES;
use crate::store::Store;
use crate::sync::Arc;

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageStep {
    /// There was nothing to do.
    Nothing,
    /// Memory was given back.
    GaveBack,
    /// The kernel found pages.
    Populated,
}

/// Gives memory back to the kernel that is not to be used, and has it find the pages that are to be
/// used next.
#[derive(Debug)]
pub struct PageMaintenance {
    store: Arc<Store>,
    /// The segment whose pages are being found.
    under_way: Option<PageOperation>,
}

#[derive(Debug)]
struct PageOperation {
    number: Number,
    /// Bytes of it that are done.
    done: u32,
    /// It was given back before, and nobody uses it until its pages are there.
    is_returning: bool,
}

impl PageMaintenance {
    /// For that store.
    #[must_use]
    pub fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            under_way: None,
        }
    }

    /// Does a little. It calls the kernel.
    pub fn step(&mut self) -> PageStep {
        let log = &self.store.log;
        let is_awaited = self.under_way.as_ref().is_some_and(|it| it.is_returning);
        if !is_awaited && let Some(number) = log.next_to_discard() {
            // They would fill up what is given back.
            self.store.refuse_huge_pages();
            // What cannot be given back is still there when it is used again.
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
        // Its pages are found by who comes there first.
        if let Some(under_way) = self.under_way.take() {
            self.finish(&under_way);
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
