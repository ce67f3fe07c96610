//! The stacks of fibres. They are mapped in *slabs* (mappings of [`SLAB_STACKS`] stacks) and are
//! reused. Below each stack is an inaccessible page, the *guard page*.
//!
//! ```text
//! slab │ guard │░ stack … base ░│ guard │░ stack … base ░│ …    one mapping for SLAB_STACKS stacks
//! ```
//!
//! ░ marks unused bytes, one page for each stack. The number of unused bytes above the base of a
//! stack is its *colour*; the rest of the page is below the stack. The colours of neighbouring
//! stacks differ, so that not all stacks compete for the same sets of the CPU cache (cache
//! colouring).
//!
//! A stack grows down from its base, into pages that the kernel populates on first touch. A stack
//! overflow touches the guard page, and the kernel kills the process by a signal. With lightweight
//! guard pages (Linux 6.13), the kernel keeps one mapping for a slab. Otherwise, each guard page is
//! a mapping of its own. The default of `vm.max_map_count`, a limit for the mappings of a process,
//! then allows about thirty thousand stacks ([`has_lightweight_guard_pages`]).
//!
//! A free stack is *cold* if no memory is behind its pages, because it is new or because its memory
//! was returned to the kernel. Otherwise it is *warm*. When a fibre ends, its stack is put in the
//! list of the processor that ran the fibre, or in a list that all processors share, and is warm.
//! If both lists are full, the memory of the stack is returned to the kernel. Slabs are unmapped
//! when the runtime ends.

use std::cell::RefCell;
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError};

use corosensei::stack::StackPointer;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::limits::{PROCESSOR_STACKS, SHARED_STACKS, SLAB_STACKS, STACK_LEN_MIN};
use crate::sync::{Mutex, lock};

const PAGE: usize = 4096;
/// The number of different colours (numbers of unused bytes above the base of a stack).
const COLOURS: usize = 16;
/// The difference between two consecutive colours, in bytes.
const COLOUR_STEP: usize = 128;
/// `MADV_GUARD_INSTALL` (Linux 6.13).
const GUARD_INSTALL: libc::c_int = 102;

/// A stack. Its owner is either a list of free stacks, or the fibre that runs on the stack.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The upper end: the address from which the stack grows down.
    base: StackPointer,
    /// The number of bytes from the limit, which is the lowest address of the stack, to the base.
    len: usize,
}

// SAFETY: base and limit enclose `len` mapped, aligned bytes. Only this value owns them, and the
// slabs outlive all stacks (`Stacks::drop`).
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        // Not zero: a slab does not begin at address 0.
        NonZeroUsize::new(self.base.get() - self.len).unwrap_or(self.base)
    }
}

/// A memory mapping that contains [`SLAB_STACKS`] stacks.
#[derive(Debug)]
struct Slab {
    start: *mut c_void,
    len: usize,
}

// SAFETY: the pointer is only passed to the kernel, to unmap the slab, and never dereferenced.
unsafe impl Send for Slab {}

/// All stacks of a runtime.
#[derive(Debug)]
pub(crate) struct Stacks {
    /// The length of each stack in bytes, a multiple of the page size.
    stack_len: usize,
    /// The kernel has lightweight guard pages. (If the kernel cannot install one, the guard page
    /// becomes an inaccessible mapping instead.)
    uses_lightweight_guards: bool,
    shared: Mutex<SharedStacks>,
    /// Fibres were abandoned with their stacks, so no slab may be unmapped.
    has_abandoned_fibres: AtomicBool,
}

/// The slabs, and the free stacks that any thread may take.
#[derive(Debug, Default)]
struct SharedStacks {
    slabs: Vec<Slab>,
    /// Free stacks with memory; at most [`SHARED_STACKS`].
    warm: Vec<Stack>,
    /// Free stacks without memory.
    cold: Vec<Stack>,
}

impl SharedStacks {
    /// Takes a free stack, if possible a warm one.
    fn take(&mut self) -> Option<Stack> {
        self.warm.pop().or_else(|| self.cold.pop())
    }
}

/// The free stacks of one processor; at most [`PROCESSOR_STACKS`]. All are warm.
#[derive(Debug, Default)]
pub(crate) struct ProcessorStacks {
    free: RefCell<Vec<Stack>>,
}

impl Stacks {
    /// Creates a set of stacks of `stack_len` bytes each, rounded up to pages. It has no slab yet.
    pub(crate) fn new(stack_len: usize) -> Self {
        Self {
            stack_len: stack_len.max(STACK_LEN_MIN).next_multiple_of(PAGE),
            uses_lightweight_guards: has_lightweight_guard_pages(),
            shared: Mutex::default(),
            has_abandoned_fibres: AtomicBool::new(false),
        }
    }

    /// Takes a free stack. If there is none, maps a new slab. `own` contains the free stacks of the
    /// calling processor; if it is `None`, only the shared free stacks are used.
    pub(crate) fn take(&self, own: Option<&ProcessorStacks>) -> io::Result<Stack> {
        match own.and_then(|own| own.free.borrow_mut().pop()) {
            Some(stack) => Ok(stack),
            None => self.take_shared(),
        }
    }

    /// Takes one of the shared free stacks. If there is none, maps a new slab.
    #[cold]
    fn take_shared(&self) -> io::Result<Stack> {
        if let Some(stack) = lock(&self.shared).take() {
            return Ok(stack);
        }
        // The lock is not held during the system call that maps a slab. So two concurrent callers
        // may each map a slab.
        let slab = match Slab::map(self.stack_len, self.uses_lightweight_guards) {
            Ok(slab) => slab,
            // Another thread may have released a stack in the meantime.
            Err(error) => return lock(&self.shared).take().ok_or(error),
        };
        let mut shared = lock(&self.shared);
        shared.cold.extend(slab.stacks(self.stack_len));
        shared.slabs.push(slab);
        shared.take().ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// Makes a stack free: adds it to `own`, the free stacks of the calling processor; or to the
    /// shared free stacks, if `own` is full or `None`.
    pub(crate) fn release(&self, stack: Stack, own: Option<&ProcessorStacks>) {
        if let Some(own) = own {
            let mut free = own.free.borrow_mut();
            if free.len() < PROCESSOR_STACKS {
                free.push(stack);
                return;
            }
        }
        self.release_shared(stack);
    }

    /// Adds a stack to the shared free stacks. If [`SHARED_STACKS`] of them are warm already,
    /// returns the memory of the stack to the kernel.
    #[cold]
    fn release_shared(&self, stack: Stack) {
        let mut shared = lock(&self.shared);
        if shared.warm.len() < SHARED_STACKS {
            shared.warm.push(stack);
            return;
        }
        drop(shared);
        // The lock is not held during the system call that discards the pages.
        stack.discard_pages();
        lock(&self.shared).cold.push(stack);
    }

    /// Called if fibres were abandoned, which may still use their stacks. Slabs are not unmapped
    /// after this call.
    pub(crate) fn abandon(&self) {
        self.has_abandoned_fibres.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        if *self.has_abandoned_fibres.get_mut() {
            return;
        }
        let shared = self
            .shared
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for slab in shared.slabs.drain(..) {
            // SAFETY: `Slab::map` mapped the slab, and all its stacks are free.
            let unmapped = unsafe { rustix::mm::munmap(slab.start, slab.len) };
            debug_assert!(unmapped.is_ok(), "failed to unmap a slab");
        }
    }
}

impl Stack {
    /// Returns the memory of a free stack to the kernel. When the stack is used again, its pages
    /// read as zero.
    fn discard_pages(&self) {
        // Because of its colour, the stack may cover its first and its last page only in part. No
        // other stack uses these two pages, because the distance between stacks includes an extra
        // page for the colour. So both pages are discarded completely: the limit is rounded down
        // here, and the kernel rounds the length up.
        let limit = (self.base.get() - self.len) / PAGE * PAGE;
        let (limit, len) = (limit as *mut c_void, self.base.get() - limit);
        // SAFETY: the pages are mapped and unused, because the fibre on this stack has ended.
        let _ = unsafe { rustix::mm::madvise(limit, len, Advice::LinuxDontNeed) };
    }
}

impl Slab {
    /// Maps a slab, and makes its guard pages inaccessible.
    fn map(stack_len: usize, uses_lightweight_guards: bool) -> io::Result<Self> {
        let len = SLAB_STACKS * stack_stride(stack_len);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this creates a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                access,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let slab = Self { start, len };
        // Huge pages are turned off. A huge page would cover several stacks, and the first touch of
        // one of these stacks would populate the memory of all of them.
        // SAFETY: the mapping is new, and nothing else uses it.
        let _ = unsafe { rustix::mm::madvise(start, len, Advice::LinuxNoHugepage) };
        for number in 0..SLAB_STACKS {
            let guard = start.wrapping_byte_add(number * stack_stride(stack_len));
            if let Err(error) = install_guard(guard, uses_lightweight_guards) {
                // SAFETY: the slab was mapped above and is not used yet.
                let _ = unsafe { rustix::mm::munmap(start, len) };
                return Err(error);
            }
        }
        Ok(slab)
    }

    /// Creates the stacks of a slab that was just mapped.
    fn stacks(&self, stack_len: usize) -> impl Iterator<Item = Stack> {
        let start = self.start as usize;
        // The order is reversed, because free stacks are taken from the end of the list.
        (1..=SLAB_STACKS).rev().filter_map(move |number| {
            // If all bases had the same offset within a page, all stacks would compete for the same
            // sets of the first-level cache.
            // No colour is 0, so the limit is always in the page above the guard page.
            let colour = (1 + number % COLOURS) * COLOUR_STEP;
            let page_end = start + number * stack_stride(stack_len);
            let base = NonZeroUsize::new(page_end - colour)?;
            Some(Stack {
                base,
                len: stack_len,
            })
        })
    }
}

/// The distance between two neighbouring stacks in a slab, in bytes: a guard page, the stack, and a
/// page for the colour.
fn stack_stride(stack_len: usize) -> usize {
    PAGE + stack_len + PAGE
}

const _: () = assert!(COLOURS * COLOUR_STEP <= PAGE);

/// Makes the page at `guard` inaccessible.
fn install_guard(guard: *mut c_void, uses_lightweight_guards: bool) -> io::Result<()> {
    // SAFETY: the page is mapped and unused.
    if uses_lightweight_guards && unsafe { libc::madvise(guard, PAGE, GUARD_INSTALL) } == 0 {
        return Ok(());
    }
    // The kernel has no lightweight guard pages, or cannot use them here because the process has
    // locked its memory (`mlockall`).
    // SAFETY: the page is mapped and unused.
    unsafe { rustix::mm::mprotect(guard, PAGE, MprotectFlags::empty())? };
    Ok(())
}

/// Whether this kernel has lightweight guard pages (`MADV_GUARD_INSTALL`, Linux 6.13), which need
/// no memory mapping of their own. Without them, each stack takes two mappings, and
/// `vm.max_map_count` limits the number of mappings of a process.
#[must_use]
pub fn has_lightweight_guard_pages() -> bool {
    static PROBED: OnceLock<bool> = OnceLock::new();
    *PROBED.get_or_init(|| {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this creates a new mapping, at an address that the kernel chooses.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), PAGE, access, MapFlags::PRIVATE) };
        let Ok(page) = mapped else { return false };
        // SAFETY: the page is mapped and unused.
        let is_installed = unsafe { libc::madvise(page, PAGE, GUARD_INSTALL) } == 0;
        // SAFETY: the page was mapped above and is not used.
        let _ = unsafe { rustix::mm::munmap(page, PAGE) };
        is_installed
    })
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn stacks_do_not_overlap_and_are_reused() {
        // The length is rounded up to `STACK_LEN_MIN`.
        let stacks = Stacks::new(1);
        let own = ProcessorStacks::default();
        let mut taken: Vec<_> = (0..3 * SLAB_STACKS)
            .map(|_| stacks.take(Some(&own)).unwrap())
            .collect();
        let mut bases: Vec<_> = taken.iter().map(|stack| stack.base.get()).collect();
        bases.sort_unstable();
        // Two bases are at least a stack and a guard page apart; the difference of their colours
        // may reduce the distance.
        for pair in bases.windows(2) {
            assert!(pair[1] - pair[0] >= STACK_LEN_MIN + PAGE - COLOURS * COLOUR_STEP);
        }
        let last = taken.pop().unwrap();
        let base = last.base;
        stacks.release(last, Some(&own));
        assert_eq!(stacks.take(Some(&own)).unwrap().base, base);
        for stack in taken {
            stacks.release(stack, Some(&own));
        }
        assert_eq!(own.free.borrow().len(), PROCESSOR_STACKS);
    }

    /// Whether the byte at an address is readable. The kernel reads the byte here, in the system
    /// call `write`, which fails if the byte is inaccessible. A read by this process would cause a
    /// signal instead.
    fn is_readable(address: usize) -> bool {
        let (_reader, writer) = io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
        // SAFETY: only the kernel reads the address, and it returns an error if it cannot.
        unsafe { libc::write(fd, address as *const c_void, 1) == 1 }
    }

    #[test]
    fn page_below_a_stack_is_inaccessible_with_either_kind_of_guard() {
        for uses_lightweight_guards in [has_lightweight_guard_pages(), false] {
            let mut stacks = Stacks::new(STACK_LEN_MIN);
            stacks.uses_lightweight_guards = uses_lightweight_guards;
            // Without lightweight guard pages, 20 000 stacks take 40 000 of the 65 530 mappings
            // that a process may have by default.
            let taken: Vec<_> = (0..20_000).map(|_| stacks.take(None).unwrap()).collect();
            for stack in &taken {
                let limit = stack.base.get() - stack.len;
                for end in [limit, stack.base.get() - 1] {
                    // SAFETY: the address is inside a stack that no fibre uses.
                    unsafe { (end as *mut u8).write(1) };
                }
            }
            // Each check takes a system call, so only some stacks are checked. They have all
            // colours, because the step is odd.
            for stack in taken.iter().step_by(101) {
                let limit = (stack.base.get() - stack.len) / PAGE * PAGE;
                assert!(is_readable(limit) && !is_readable(limit - 1));
                assert!(!is_readable(limit - PAGE));
            }
            taken
                .into_iter()
                .for_each(|stack| stacks.release(stack, None));
        }
    }

    #[test]
    fn memory_of_free_stacks_beyond_the_limit_returns_to_the_kernel() {
        let stacks = Stacks::new(STACK_LEN_MIN);
        let taken: Vec<_> = (0..SHARED_STACKS + 1)
            .map(|_| stacks.take(None).unwrap())
            .collect();
        for stack in &taken {
            let top = (stack.base.get() - 8) as *mut u64;
            // SAFETY: the address is inside a stack that no fibre uses.
            unsafe { top.write(7) };
        }
        taken
            .into_iter()
            .for_each(|stack| stacks.release(stack, None));
        let shared = stacks.shared.lock().unwrap();
        let read = |stack: &Stack| {
            let top = (stack.base.get() - 8) as *const u64;
            // SAFETY: the address is inside a stack that no fibre uses.
            unsafe { top.read() }
        };
        assert_eq!(shared.warm.len(), SHARED_STACKS);
        assert!(shared.warm.iter().all(|stack| read(stack) == 7));
        assert_eq!(read(shared.cold.last().unwrap()), 0);
    }
}
