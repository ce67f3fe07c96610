//! Which segments get pages and which return them. Used by the maintenance thread, the only one
//! that makes system calls for memory.

use super::Log;
use crate::heap::Number;
use crate::sync::atomic::Ordering;

impl Log {
    /// A segment to be returned to the kernel. The caller calls
    /// [`Heap::discard`](crate::heap::Heap::discard) without a lock, then [`Log::discarded`].
    pub(crate) fn next_to_discard(&self) -> Option<Number> {
        self.lists().to_discard.pop()
    }

    pub(crate) fn discarded(&self, number: Number) {
        self.lists().absent.push(number);
    }

    /// A discarded segment that will be used again soon. The caller calls
    /// [`Heap::populate`](crate::heap::Heap::populate) without a lock, then [`Log::populated`].
    pub(crate) fn next_to_populate(&self) -> Option<Number> {
        let mut lists = self.lists();
        let is_short = (lists.free.len() as u32) < 2 * self.reserve();
        if !is_short || self.room(&lists) == 0 {
            return None;
        }
        let number = lists.absent.pop()?;
        lists.resident += 1;
        lists.populating += 1;
        self.update_available(&lists);
        Some(number)
    }

    pub(crate) fn populated(&self, number: Number) {
        let mut lists = self.lists();
        lists.populating -= 1;
        lists.free.push(number);
        self.reclaim_retired(&mut lists);
    }

    /// A segment that will soon be used for the first time. The caller calls
    /// [`Heap::populate`](crate::heap::Heap::populate) without a lock. A worker that needs it
    /// earlier uses it anyway.
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

    /// Returns true once for each change that requires discarding or populating.
    pub(crate) fn needs_page_maintenance(&self) -> bool {
        self.needs_page_maintenance.load(Ordering::Relaxed)
            && self.needs_page_maintenance.swap(false, Ordering::Relaxed)
    }
}
