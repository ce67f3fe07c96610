//! Which segments get pages, and which give them back: for the thread that answers nobody,
//! which alone calls the kernel.

use super::Log;
use crate::heap::Number;
use crate::sync::atomic::Ordering;

impl Log {
    /// A segment to be given back to the kernel, if there is one: then call
    /// [`Heap::discard`] without a lock, and [`Log::has_left`].
    pub(crate) fn leaving(&self) -> Option<Number> {
        self.shelf().leaving.pop()
    }

    pub(crate) fn has_left(&self, number: Number) {
        self.shelf().absent.push(number);
    }

    /// A segment that was given back to the kernel and will be used again soon, if there is one:
    /// then call [`Heap::populate`] without a lock, and [`Log::is_back`].
    pub(crate) fn returning(&self) -> Option<Number> {
        let mut shelf = self.shelf();
        let is_short = (shelf.free.len() as u32) < 2 * self.reserve();
        if !is_short || self.room(&shelf) == 0 {
            return None;
        }
        let number = shelf.absent.pop()?;
        shelf.resident += 1;
        shelf.returning += 1;
        self.count_spare(&shelf);
        Some(number)
    }

    pub(crate) fn is_back(&self, number: Number) {
        let mut shelf = self.shelf();
        shelf.returning -= 1;
        shelf.free.push(number);
        self.collect(&mut shelf);
    }

    /// A segment that will soon be used for the first time and has no pages yet, if there is one:
    /// then call [`Heap::populate`] without a lock. Who needs it before that uses it.
    pub(crate) fn next_fresh(&self) -> Option<Number> {
        let mut shelf = self.shelf();
        let room = self.ceiling().saturating_sub(shelf.resident);
        let end = shelf.fresh + (2 * self.reserve()).min(room);
        let end = end.min(self.heap.count());
        let next = shelf.populated.max(shelf.fresh);
        (next < end).then(|| {
            shelf.populated = next + 1;
            next
        })
    }

    /// True once each time there is something to be given back or populated.
    pub(crate) fn wants_tending(&self) -> bool {
        self.wants_tending.load(Ordering::Relaxed)
            && self.wants_tending.swap(false, Ordering::Relaxed)
    }
}
