//! Which segments get pages and which return them. Used by the maintenance thread, the only one
//! that makes system calls for memory.

use super::Log;
use crate::heap::SegmentNumber;
use crate::sync::atomic::Ordering;

impl Log {
    /// A segment to be returned to the kernel. The caller calls
    /// [`Heap::discard`](crate::heap::Heap::discard) without a lock, then [`Log::discarded`].
    pub(crate) fn next_to_discard(&self) -> Option<SegmentNumber> {
        self.lists().to_discard.pop()
    }

    pub(crate) fn discarded(&self, number: SegmentNumber) {
        self.lists().absent.push(number);
    }

    /// A discarded segment that will be used again soon. The caller calls
    /// [`Heap::populate`](crate::heap::Heap::populate) without a lock, then [`Log::populated`].
    pub(crate) fn next_to_populate(&self) -> Option<SegmentNumber> {
        let mut lists = self.lists();
        let is_short = (lists.free.len() as u32) < 2 * self.reserve();
        if !is_short || self.resident_headroom(&lists) == 0 {
            return None;
        }
        let number = lists.absent.pop()?;
        lists.resident += 1;
        lists.populating += 1;
        self.update_available(&lists);
        Some(number)
    }

    pub(crate) fn populated(&self, number: SegmentNumber) {
        let mut lists = self.lists();
        lists.populating -= 1;
        lists.free.push(number);
        self.reclaim_retired(&mut lists);
    }

    /// A segment that will soon be used for the first time. The caller calls
    /// [`Heap::populate`](crate::heap::Heap::populate) without a lock. A worker that needs it
    /// earlier uses it anyway.
    pub(crate) fn next_fresh(&self) -> Option<SegmentNumber> {
        let mut lists = self.lists();
        let headroom = self.resident_max().saturating_sub(lists.resident);
        let end = lists.first_unused + (2 * self.reserve()).min(headroom);
        let end = end.min(self.heap.count());
        let next = lists.first_unpopulated.max(lists.first_unused);
        (next < end).then(|| {
            lists.first_unpopulated = next + 1;
            next
        })
    }

    /// Returns true once for each change that requires discarding or populating.
    pub(crate) fn needs_page_maintenance(&self) -> bool {
        self.needs_page_maintenance.load(Ordering::Relaxed)
            && self.needs_page_maintenance.swap(false, Ordering::Relaxed)
    }
}
