//! Decides which segments are *populated* (get pages from the kernel before their first use), and
//! which are *discarded* (return their pages to the kernel). Only the maintenance thread
//! (`page_maintenance.rs`) uses this, so that workers make no system calls for memory.

use super::Log;
use crate::heap::SegmentNumber;
use crate::limits::POPULATED_AHEAD_MAX;
use crate::sync::atomic::Ordering;

impl Log {
    /// Returns the number of segments that may have pages: the resident ones, and those that wait
    /// to be discarded.
    pub(crate) fn with_pages(&self) -> u32 {
        let lists = self.lists();
        lists.resident + lists.to_discard.len() as u32
    }

    /// Takes an empty segment whose pages are to be returned to the kernel. The segment stopped
    /// counting as resident when it was selected for this. The caller then calls
    /// [`Heap::discard`](crate::heap::Heap::discard), without a lock, and [`Log::discarded`].
    pub(crate) fn next_to_discard(&self) -> Option<SegmentNumber> {
        self.lists().to_discard.pop()
    }

    /// Records that the pages of a segment were returned to the kernel.
    pub(crate) fn discarded(&self, number: SegmentNumber) {
        self.lists().absent.push(number);
    }

    /// Takes a discarded segment if few segments are free and one more segment may be resident. The
    /// caller then calls [`Heap::populate`](crate::heap::Heap::populate), without a lock, and
    /// [`Log::populated`].
    pub(crate) fn next_to_populate(&self) -> Option<SegmentNumber> {
        let mut lists = self.lists();
        let is_short = (lists.free.len() as u32) < self.populated_ahead();
        if !is_short || self.resident_headroom(&lists) == 0 {
            return None;
        }
        let number = lists.absent.pop()?;
        lists.resident += 1;
        lists.populating += 1;
        self.update_available(&lists);
        Some(number)
    }

    /// Makes a segment free after its pages were populated. If the memory limit was lowered in the
    /// meantime, selects free segments to be discarded.
    pub(crate) fn populated(&self, number: SegmentNumber) {
        let mut lists = self.lists();
        lists.populating -= 1;
        lists.free.push(number);
        // Applies the limit, and then updates the number of available segments.
        self.reclaim_retired(&mut lists);
    }

    /// Returns the next segment that was never used or populated, if it will soon be used. The
    /// caller then calls [`Heap::populate`](crate::heap::Heap::populate), without a lock. The
    /// segment is not taken, so a worker may open it before it is populated.
    pub(crate) fn next_fresh(&self) -> Option<SegmentNumber> {
        let mut lists = self.lists();
        let ahead = self.populated_ahead().min(self.resident_headroom(&lists));
        let end = (lists.first_unused + ahead).min(self.heap.count());
        let next = lists.first_unpopulated.max(lists.first_unused);
        (next < end).then(|| {
            lists.first_unpopulated = next + 1;
            next
        })
    }

    /// The number of segments that are populated before they are needed: twice the reserve, but at
    /// most [`POPULATED_AHEAD_MAX`] bytes.
    fn populated_ahead(&self) -> u32 {
        let most = POPULATED_AHEAD_MAX / u64::from(self.heap.segment_size());
        (2 * self.reserve()).min(most as u32)
    }

    /// Returns true if pages may have to be discarded or populated, or if the reclaim time
    /// (`log/reclaim_time.rs`) has become earlier. Later calls return false until the next such
    /// change.
    pub(crate) fn needs_page_maintenance(&self) -> bool {
        self.needs_page_maintenance.load(Ordering::Relaxed)
            && self.needs_page_maintenance.swap(false, Ordering::Relaxed)
    }
}
