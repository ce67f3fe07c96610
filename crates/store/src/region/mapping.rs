//! An anonymous mapping: address space from the kernel whose pages are zero until written.

use std::io;
use std::ptr::{self, NonNull};
use std::slice;

use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::nodes;

/// Size of a word in bytes.
const WORD: usize = size_of::<AtomicU64>();
/// Size of a huge page in bytes.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping whose bytes are initially zero. Dropping it unmaps the memory.
///
/// This type itself accesses the memory only as atomic words. `heap.rs` and `heap/block.rs` also
/// access it as plain bytes: they write the key and the value of a block before the block is
/// published, and only read them afterwards.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    /// Length in words.
    words: usize,
    /// Number of bytes between the address that the kernel chose and `start`, which is aligned.
    /// These bytes belong to the mapping and are never touched.
    unused_len: usize,
}

// SAFETY: the value owns the mapping, which is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference this type accesses words as atomics, makes system calls, and
// returns pointers (`byte_address`). The users of these pointers are `heap.rs` and `heap/block.rs`,
// in unsafe code. They access plain bytes, and guarantee that no thread writes bytes that another
// thread may read (see `Heap::block`). Of the system calls only `discard` changes contents. It is
// called only for segments in which no block is in use.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `bytes` bytes of address space, rounded up to words. No page is resident yet. A
    /// mapping that is at least as long as a huge page begins at the boundary of a huge page, so
    /// that its first huge page contains no other memory.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let words = bytes.div_ceil(WORD).max(1);
        let len = words.checked_mul(WORD).ok_or(io::ErrorKind::OutOfMemory)?;
        let slack = slack(len);
        let whole_len = slack.checked_add(len).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address chosen by the kernel has no aliases.
        let whole = unsafe { mmap_anonymous(ptr::null_mut(), whole_len, access, flags) }?;
        let unused_len = match slack {
            0 => 0,
            _ => whole.cast::<u8>().align_offset(HUGE_PAGE),
        };
        match NonNull::new(whole.wrapping_byte_add(unused_len).cast()) {
            Some(start) => {
                // Set the NUMA policy before any page is touched. It determines the node of a page
                // when the page becomes resident, and the page then stays on that node.
                nodes::interleave(start.cast(), len);
                Ok(Self {
                    start,
                    words,
                    unused_len,
                })
            }
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// The start of the mapping, aligned to a page.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start.cast()
    }

    /// The address of the byte at offset `at`.
    #[inline]
    pub(crate) fn byte_address(&self, at: usize) -> NonNull<u8> {
        debug_assert!(at <= self.len());
        // SAFETY: the address is inside the mapping or one past its end.
        unsafe { self.start().add(at) }
    }

    /// The length of the mapping in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.words * WORD
    }

    /// Requests huge pages from the kernel, which may ignore this.
    pub(crate) fn advise_huge(&self) {
        self.advise(Advice::LinuxHugepage);
    }

    /// Stops requesting huge pages, for memory that is not resident yet. Has to be called before
    /// memory is discarded. Otherwise the touch of a single byte would make a huge page of
    /// discarded memory resident again.
    pub(crate) fn disable_huge(&self) {
        self.advise(Advice::LinuxNoHugepage);
    }

    fn advise(&self, advice: Advice) {
        // SAFETY: the range is the mapping; this advice changes no contents.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len(), advice) };
    }

    /// Makes the pages of a range of bytes resident. If this fails, they become resident on first
    /// touch. Makes a system call, so a thread that serves requests must not call this.
    pub(crate) fn populate(&self, from_byte: usize, to_byte: usize) {
        let to_byte = to_byte.min(self.len());
        if from_byte >= to_byte {
            return;
        }
        // The kernel requires an aligned start; it aligns the end itself.
        let from_byte = from_byte / rustix::param::page_size() * rustix::param::page_size();
        let start = self.byte_address(from_byte).as_ptr().cast();
        // SAFETY: the range lies in the mapping; populating changes no contents.
        let _ = unsafe { madvise(start, to_byte - from_byte, Advice::LinuxPopulateWrite) };
    }

    /// All words of the mapping.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, is aligned to a page, is initially zero (a valid
        // atomic), and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Returns the pages of a range of words to the kernel. Only pages that lie completely in the
    /// range are returned; their words are zero afterwards. No block in the range may be in use.
    /// Makes a system call, so a thread that serves requests must not call this.
    ///
    /// # Errors
    /// The error of the kernel. The words are then unchanged.
    pub(crate) fn discard(&self, from_word: usize, to_word: usize) -> io::Result<()> {
        let page_words = rustix::param::page_size() / WORD;
        let (from_word, to_word) = (
            from_word.next_multiple_of(page_words),
            to_word.min(self.words) / page_words * page_words,
        );
        if from_word >= to_word {
            return Ok(());
        }
        let start = self.words()[from_word..to_word].as_ptr().cast_mut().cast();
        // SAFETY: the range lies in the mapping, and a page that reads as zero again is as valid as
        // a new one. No block in it is in use, so no thread accesses its plain bytes; a concurrent
        // access to a word is atomic.
        unsafe { madvise(start, (to_word - from_word) * WORD, Advice::LinuxDontNeed) }?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let whole = self.start.as_ptr().wrapping_byte_sub(self.unused_len);
        // SAFETY: the value is being dropped, so there are no borrows, and it owns the mapping from
        // the address that the kernel chose to its end. The call fails only for a range that was
        // never mapped.
        let _ = unsafe { munmap(whole.cast(), slack(self.len()) + self.len()) };
    }
}

/// Returns the number of bytes to map in addition to `len`, so that an address at the boundary of a
/// huge page can be chosen as the start of the `len` bytes.
fn slack(len: usize) -> usize {
    if len < HUGE_PAGE { 0 } else { HUGE_PAGE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn memory_is_zero_until_written_and_after_it_was_discarded() {
        let region = Mapping::reserve(1 << 20).unwrap();
        let words = region.words();
        assert_eq!(words.len(), 1 << 17);
        assert_eq!(words[77_777].load(Relaxed), 0);
        words.iter().for_each(|word| word.store(7, Relaxed));
        let page_words = rustix::param::page_size() / WORD;
        region.discard(1, 3 * page_words + 1).unwrap();
        assert_eq!(
            words[page_words - 1].load(Relaxed),
            7,
            "a page only partly in the range was discarded"
        );
        assert_eq!(words[page_words].load(Relaxed), 0);
        assert_eq!(words[3 * page_words - 1].load(Relaxed), 0);
        assert_eq!(
            words[3 * page_words].load(Relaxed),
            7,
            "a page only partly in the range was discarded"
        );
        // An empty range, and a range that ends beyond the mapping.
        region.discard(5, 5).unwrap();
        region.discard(0, usize::MAX).unwrap();
        assert_eq!(words[3 * page_words].load(Relaxed), 0);
    }

    #[test]
    fn a_large_mapping_begins_at_the_boundary_of_a_huge_page() {
        let many: Vec<_> = [HUGE_PAGE, 3 * HUGE_PAGE + 40, HUGE_PAGE]
            .map(|bytes| Mapping::reserve(bytes).unwrap())
            .into();
        for mapping in &many {
            assert_eq!(mapping.start().as_ptr().addr() % HUGE_PAGE, 0);
            mapping
                .words()
                .iter()
                .for_each(|word| word.store(7, Relaxed));
        }
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        for bytes in [usize::MAX, usize::MAX - HUGE_PAGE, usize::MAX / 2] {
            let error = Mapping::reserve(bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{bytes}");
        }
    }

    /// If the whole TiB became resident, this test would run out of memory.
    #[test]
    fn untouched_memory_is_not_resident() {
        let region = Mapping::reserve(1 << 40).unwrap();
        region.words()[1 << 36].store(1, Relaxed);
        assert_eq!(region.words()[1 << 36].load(Relaxed), 1);
    }
}
