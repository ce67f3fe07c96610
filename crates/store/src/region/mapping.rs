//! The real thing.

use std::io;
use std::ptr::{self, NonNull};
use std::slice;

use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::nodes;

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// A mapping of zeroes that lives as long as this. Here it is reached by whole words, each of them
/// atomic. `heap.rs` also reaches plain bytes, which no thread writes meanwhile.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Bytes of address space before it, which is the mapping's too and never touched.
    before: usize,
}

// SAFETY: the mapping is this value's own and is bound to no thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference this type itself only reaches whole words, as atomics, and
// calls the kernel. `byte` hands out pointers, to read or write through which is unsafe: `heap.rs`
// and `heap/block.rs` also reach plain bytes, and uphold that no thread writes bytes that another
// may read (`Heap::block` says what keeps them). `discard` and `populate` are called for segments
// that no block is reached in, or change no contents.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes`, rounded up to words. Nothing is resident yet. What has room for a huge
    /// page begins where one may, and shares none with what lies before it.
    ///
    /// # Errors
    /// The kernel has no room in the address space.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let words = bytes.div_ceil(WORD).max(1);
        let slack = slack(words * WORD);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping, wherever the kernel likes, is aliased by nothing.
        let whole =
            unsafe { mmap_anonymous(ptr::null_mut(), slack + words * WORD, access, flags) }?;
        let before = match slack {
            0 => 0,
            _ => whole.cast::<u8>().align_offset(HUGE),
        };
        match NonNull::new(whole.wrapping_byte_add(before).cast()) {
            Some(start) => {
                // Before any page is touched: what is there already stays where it is.
                nodes::interleave(start.cast(), words * WORD);
                Ok(Self {
                    start,
                    words,
                    before,
                })
            }
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Where it begins; aligned to a page.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start.cast()
    }

    /// Byte `at` of it.
    #[inline]
    pub(crate) fn byte(&self, at: usize) -> NonNull<u8> {
        debug_assert!(at <= self.len());
        // SAFETY: inside the mapping, or its end: so far it may be counted.
        unsafe { self.start().add(at) }
    }

    /// Bytes of it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.words * WORD
    }

    /// Asks for huge pages from now on. A hint.
    pub(crate) fn advise_huge(&self) {
        self.advise(Advice::LinuxHugepage);
    }

    /// Has the kernel make no more of them: it would fill up what was given back. A hint.
    pub(crate) fn refuse_huge(&self) {
        self.advise(Advice::LinuxNoHugepage);
    }

    fn advise(&self, advice: Advice) {
        // SAFETY: the range is the mapping; such advice changes no contents.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len(), advice) };
    }

    /// Has the kernel find the pages that some bytes lie in now. A hint. It calls the kernel: never
    /// on a path that answers requests.
    pub(crate) fn populate(&self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from >= to {
            return;
        }
        // The kernel takes nothing else for a beginning; the end it makes one itself.
        let from = from / rustix::param::page_size() * rustix::param::page_size();
        let start = self.byte(from).as_ptr().cast();
        // SAFETY: the range lies in the mapping; populating changes no contents.
        let _ = unsafe { madvise(start, to - from, Advice::LinuxPopulateWrite) };
    }

    /// All words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is aligned to a page, starts as zeroes (a valid
        // atomic), and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Gives the pages of some words back; they read as zeroes afterwards. Whole pages only: what
    /// is left of others stays. It calls the kernel: never on a path that answers requests.
    ///
    /// # Errors
    /// The kernel's own; the words are then as they were.
    pub(crate) fn discard(&self, from: usize, to: usize) -> io::Result<()> {
        let page = rustix::param::page_size() / WORD;
        let (from, to) = (
            from.next_multiple_of(page),
            to.min(self.words) / page * page,
        );
        if from >= to {
            return Ok(());
        }
        let start = self.words()[from..to].as_ptr().cast_mut().cast();
        // SAFETY: the range lies in the mapping; a page that reads as zero again is as valid as it
        // was when it was new, and every access is atomic.
        unsafe { madvise(start, (to - from) * WORD, Advice::LinuxDontNeed) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let whole = self.start.as_ptr().wrapping_byte_sub(self.before);
        // SAFETY: nobody borrows a value that is dropped, and the mapping is its own, from the byte
        // that the kernel chose to the last. It fails for a range that was never mapped only.
        let _ = unsafe { munmap(whole.cast(), slack(self.len()) + self.len()) };
    }
}

/// Bytes of address space besides, in which a mapping of `len` finds where a huge page begins.
fn slack(len: usize) -> usize {
    if len < HUGE { 0 } else { HUGE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn memory_is_zero_until_written_and_after_it_was_given_back() {
        let region = Mapping::reserve(1 << 20).unwrap();
        let words = region.words();
        assert_eq!(words.len(), 1 << 17);
        assert_eq!(words[77_777].load(Relaxed), 0);
        words.iter().for_each(|word| word.store(7, Relaxed));
        let page = rustix::param::page_size() / WORD;
        region.discard(1, 3 * page + 1).unwrap();
        assert_eq!(words[page - 1].load(Relaxed), 7, "part of a page stays");
        assert_eq!(words[page].load(Relaxed), 0);
        assert_eq!(words[3 * page - 1].load(Relaxed), 0);
        assert_eq!(words[3 * page].load(Relaxed), 7);
        region.discard(5, 5).unwrap();
        region.discard(0, usize::MAX).unwrap();
        assert_eq!(words[3 * page].load(Relaxed), 0);
    }

    #[test]
    fn what_has_room_for_a_huge_page_begins_where_one_may() {
        let many: Vec<_> = [HUGE, 3 * HUGE + 40, HUGE]
            .map(|bytes| Mapping::reserve(bytes).unwrap())
            .into();
        for mapping in &many {
            assert_eq!(mapping.start().as_ptr().addr() % HUGE, 0);
            mapping
                .words()
                .iter()
                .for_each(|word| word.store(7, Relaxed));
        }
    }

    #[test]
    fn what_is_not_touched_costs_nothing() {
        let region = Mapping::reserve(1 << 40).unwrap();
        region.words()[1 << 36].store(1, Relaxed);
        assert_eq!(region.words()[1 << 36].load(Relaxed), 1);
    }
}
