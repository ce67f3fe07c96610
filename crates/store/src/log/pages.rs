//! Which segments get pages, and which give them back: for the thread that answers nobody,
//! which alone calls the kernel.

use super::Log;
use crate::heap::Number;
use crate::sync::atomic::Ordering;

impl Log {
    /// A segment to be given back to the kernel, if there is one: then call
    /// [`Heap::discard`] without a lock, and [`Log::discarded`].
    pub(crate) fn next_to_discard(&self) -> Option<Number> {
        self.lists().next_to_discard.pop()
    }

    pub(crate) fn discarded(&self, number: Number) {
        self.lists().absent.push(number);
    }

    /// A segment that was given back to the kernel and will be used again soon, if there is one:
    /// then call [`Heap::populate`] without a lock, and [`Log::populated`].
    pub(crate) fn next_to_populate(&self) -> Option<Number> {
        let mut lists = self.lists();
        let is_short = (lists.free.len() as u32) < 2 * self.reserve();
        if !is_short || self.room(&lists) == 0 {
            return None;
        }
        let number = lists.absent.pop()?;
        lists.resident += 1;
        lists.next_to_populate += 1;
        self.update_available(&lists);
        Some(number)
    }

    pub(crate) fn populated(&self, number: Number) {
        let mut lists = self.lists();
        lists.next_to_populate -= 1;
        lists.free.push(number);
        self.reclaim_retired(&mut lists);
    }

    /// A segment that will soon be used for the first time and has no pages yet, if there is one:
    /// then call [`Heap::populate`] without a lock. Who needs it before that uses it.
    pub(crate) fn next_fresh(&self) -> Option<Number> {
        let mut lists = self.lists();
        let room = self.resident_max().saturating_sub(lists.resident);
        let end = lists.fresh + (2 * self.reserve()).min(room);
        let end = end.min(self.heap.count());
        let next = lists.populated.max(lists.fresh);
        (next < end).then(|| {
            lists.populated = next + 1;
            next
        })
    }

    /// True once each time there is something to be given back or populated.
    pub(crate) fn needs_page_maintenance(&self) -> bool {
        self.needs_page_maintenance.load(Ordering::Relaxed)
            && self.needs_page_maintenance.swap(false, Ordering::Relaxed)
    }
}
