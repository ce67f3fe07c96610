//! Stacks: mapped in slabs, used again, each with a guard below it.
//!
//! ```text
//! slab │ guard │ stack … base ░│ guard │ stack … base ░│ …    one mapping for SLAB_STACKS of them
//! ```
//!
//! A stack grows down from its base into pages that the kernel finds when they are touched; whoever
//! grows too far meets the guard and is killed there and then, with a signal. Where the kernel has
//! light guards (Linux 6.13) a slab stays one area of memory; elsewhere each guard is an area of
//! its own, and `vm.max_map_count` allows some thirty thousand stacks ([`guards_are_light`]).
//!
//! Free stacks lie with the processor that freed them last, memory and all, up to a bound; then
//! with all of them, up to a bound; the rest give their memory back and keep their place. A slab
//! goes when the runtime does.

use std::cell::RefCell;
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError};

use corosensei::stack::StackPointer;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::limits::{SHARED_STACKS, SLAB_STACKS, STACK_LEN_MIN, WARM_STACKS};
use crate::sync::{Mutex, lock};

const PAGE: usize = 4096;
/// Places of a page at which stacks begin, and how far apart they are.
const SHADES: usize = 16;
const SHADE_LEN: usize = 128;
/// `MADV_GUARD_INSTALL` (Linux 6.13).
const GUARD_INSTALL: libc::c_int = 102;

/// A stack that nobody runs on.
#[derive(Debug)]
pub(crate) struct Stack {
    base: StackPointer,
    len: usize,
}

// SAFETY: base and limit enclose `len` bytes that are mapped, aligned to a shade, and this stack's
// alone: a stack is in one place at a time, and the slabs outlive them all (`Stacks::drop`).
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        // Not zero: a slab does not begin there.
        NonZeroUsize::new(self.base.get() - self.len).unwrap_or(self.base)
    }
}

/// A mapping of many stacks.
#[derive(Debug)]
struct Slab {
    start: *mut c_void,
    len: usize,
}

// SAFETY: an address; whoever has the slab only unmaps it.
unsafe impl Send for Slab {}

/// All stacks of a runtime.
#[derive(Debug)]
pub(crate) struct Stacks {
    stack_len: usize,
    /// Guards of the light kind are tried.
    is_light: bool,
    shared: Mutex<Shared>,
    /// Fibres were given up with theirs.
    is_given_up: AtomicBool,
}

#[derive(Debug, Default)]
struct Shared {
    slabs: Vec<Slab>,
    warm: Vec<Stack>,
    cold: Vec<Stack>,
}

impl Shared {
    fn take(&mut self) -> Option<Stack> {
        self.warm.pop().or_else(|| self.cold.pop())
    }
}

/// The stacks one processor keeps.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    stacks: RefCell<Vec<Stack>>,
}

impl Stacks {
    /// Stacks of so many bytes, rounded up to pages.
    pub(crate) fn new(stack_len: usize) -> Self {
        Self {
            stack_len: stack_len.max(STACK_LEN_MIN).next_multiple_of(PAGE),
            is_light: guards_are_light(),
            shared: Mutex::default(),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// A stack; `warm`: those of the processor that asks, if it is one.
    pub(crate) fn take(&self, warm: Option<&Warm>) -> io::Result<Stack> {
        match warm.and_then(|warm| warm.stacks.borrow_mut().pop()) {
            Some(stack) => Ok(stack),
            None => self.take_shared(),
        }
    }

    #[cold]
    fn take_shared(&self) -> io::Result<Stack> {
        if let Some(stack) = lock(&self.shared).take() {
            return Ok(stack);
        }
        // Without the lock: this asks the kernel. Two who come at once map one each.
        let slab = match Slab::map(self.stack_len, self.is_light) {
            Ok(slab) => slab,
            // Somebody else's may have been the last.
            Err(error) => return lock(&self.shared).take().ok_or(error),
        };
        let mut shared = lock(&self.shared);
        shared.cold.extend(slab.stacks(self.stack_len));
        shared.slabs.push(slab);
        shared.take().ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// Takes a stack back.
    pub(crate) fn give_back(&self, stack: Stack, warm: Option<&Warm>) {
        if let Some(warm) = warm {
            let mut stacks = warm.stacks.borrow_mut();
            if stacks.len() < WARM_STACKS {
                stacks.push(stack);
                return;
            }
        }
        self.give_back_shared(stack);
    }

    #[cold]
    fn give_back_shared(&self, stack: Stack) {
        let mut shared = lock(&self.shared);
        if shared.warm.len() < SHARED_STACKS {
            shared.warm.push(stack);
            return;
        }
        drop(shared);
        // Without the lock: this asks the kernel.
        stack.cool();
        lock(&self.shared).cold.push(stack);
    }

    /// Fibres are given up: what lies on their stacks stays where it is, and so do all slabs.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        if *self.is_given_up.get_mut() {
            return;
        }
        let shared = self
            .shared
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for slab in shared.slabs.drain(..) {
            // SAFETY: mapped by `Slab::map`, and all its stacks are back.
            let unmapped = unsafe { rustix::mm::munmap(slab.start, slab.len) };
            debug_assert!(unmapped.is_ok(), "a slab that was not mapped");
        }
    }
}

impl Stack {
    /// Gives its memory back to the kernel; the next who grows into it finds zeroes.
    fn cool(&self) {
        let limit = (self.base.get() - self.len) / PAGE * PAGE;
        let (limit, len) = (limit as *mut c_void, self.base.get() - limit);
        // SAFETY: the pages are mapped, and nobody's: what lay on the stack has ended.
        let _ = unsafe { rustix::mm::madvise(limit, len, Advice::LinuxDontNeed) };
    }
}

impl Slab {
    fn map(stack_len: usize, is_light: bool) -> io::Result<Self> {
        let len = SLAB_STACKS * place_len(stack_len);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                access,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let slab = Self { start, len };
        // A huge page would give each of some thirty stacks all the memory it may ever use.
        // SAFETY: the mapping is whole and ours.
        let _ = unsafe { rustix::mm::madvise(start, len, Advice::LinuxNoHugepage) };
        for number in 0..SLAB_STACKS {
            let guard = start.wrapping_byte_add(number * place_len(stack_len));
            if let Err(error) = install_guard(guard, is_light) {
                // SAFETY: mapped above, and nobody's yet.
                let _ = unsafe { rustix::mm::munmap(start, len) };
                return Err(error);
            }
        }
        Ok(slab)
    }

    fn stacks(&self, stack_len: usize) -> impl Iterator<Item = Stack> {
        let start = self.start as usize;
        // The last first: they are taken from the end.
        (1..=SLAB_STACKS).rev().filter_map(move |number| {
            // Were they all to begin at the same place of a page, they would take each other's
            // places in the nearest cache, which is looked up by that.
            let shade = (number % SHADES) * SHADE_LEN;
            let base = NonZeroUsize::new(start + number * place_len(stack_len) - shade)?;
            Some(Stack {
                base,
                len: stack_len,
            })
        })
    }
}

/// Bytes from one stack's guard to the next: guard, stack, and a page in which it may begin.
fn place_len(stack_len: usize) -> usize {
    PAGE + stack_len + PAGE
}

const _: () = assert!(SHADES * SHADE_LEN <= PAGE);

/// Makes the page at `guard` one that nobody may touch.
fn install_guard(guard: *mut c_void, is_light: bool) -> io::Result<()> {
    // SAFETY: the page is mapped and nobody's.
    if is_light && unsafe { libc::madvise(guard, PAGE, GUARD_INSTALL) } == 0 {
        return Ok(());
    }
    // There are none, or not in memory that is locked.
    // SAFETY: as above.
    unsafe { rustix::mm::mprotect(guard, PAGE, MprotectFlags::empty())? };
    Ok(())
}

/// Whether this kernel guards a page without an area of memory of its own (Linux 6.13). Where it
/// does not, each stack takes two of the areas that `vm.max_map_count` allows a process.
#[must_use]
pub fn guards_are_light() -> bool {
    static LIGHT: OnceLock<bool> = OnceLock::new();
    *LIGHT.get_or_init(|| {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), PAGE, access, MapFlags::PRIVATE) };
        let Ok(page) = mapped else { return false };
        // SAFETY: the page is mapped and nobody's.
        let is_light = unsafe { libc::madvise(page, PAGE, GUARD_INSTALL) } == 0;
        // SAFETY: mapped above.
        let _ = unsafe { rustix::mm::munmap(page, PAGE) };
        is_light
    })
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_apart_and_used_again() {
        let stacks = Stacks::new(1);
        let warm = Warm::default();
        let mut taken: Vec<_> = (0..3 * SLAB_STACKS)
            .map(|_| stacks.take(Some(&warm)).unwrap())
            .collect();
        let mut bases: Vec<_> = taken.iter().map(|stack| stack.base.get()).collect();
        bases.sort_unstable();
        for pair in bases.windows(2) {
            assert!(pair[1] - pair[0] >= STACK_LEN_MIN + PAGE - SHADES * SHADE_LEN);
        }
        let last = taken.pop().unwrap();
        let base = last.base;
        stacks.give_back(last, Some(&warm));
        assert_eq!(stacks.take(Some(&warm)).unwrap().base, base);
        for stack in taken {
            stacks.give_back(stack, Some(&warm));
        }
        assert_eq!(warm.stacks.borrow().len(), WARM_STACKS);
    }

    /// Whether the kernel may read a byte there; it says so where a program would be killed.
    fn is_readable(at: usize) -> bool {
        let (_reader, writer) = io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
        // SAFETY: it is the kernel that reads, and refuses.
        unsafe { libc::write(fd, at as *const c_void, 1) == 1 }
    }

    #[test]
    fn below_every_stack_is_a_guard_of_either_kind() {
        for is_light in [guards_are_light(), false] {
            let mut stacks = Stacks::new(STACK_LEN_MIN);
            stacks.is_light = is_light;
            let taken: Vec<_> = (0..20_000).map(|_| stacks.take(None).unwrap()).collect();
            for stack in &taken {
                let limit = stack.base.get() - stack.len;
                for end in [limit, stack.base.get() - 1] {
                    // SAFETY: the ends of a stack that nobody runs on.
                    unsafe { (end as *mut u8).write(1) };
                }
            }
            for stack in taken.iter().step_by(100) {
                let limit = (stack.base.get() - stack.len) / PAGE * PAGE;
                assert!(is_readable(limit) && !is_readable(limit - 1));
                assert!(!is_readable(limit - PAGE));
            }
            taken
                .into_iter()
                .for_each(|stack| stacks.give_back(stack, None));
        }
    }

    #[test]
    fn beyond_the_bound_a_stack_gives_its_memory_back() {
        let stacks = Stacks::new(STACK_LEN_MIN);
        let taken: Vec<_> = (0..SHARED_STACKS + 1)
            .map(|_| stacks.take(None).unwrap())
            .collect();
        for stack in &taken {
            let top = (stack.base.get() - 8) as *mut u64;
            // SAFETY: inside a stack that nobody runs on.
            unsafe { top.write(7) };
        }
        taken
            .into_iter()
            .for_each(|stack| stacks.give_back(stack, None));
        let shared = stacks.shared.lock().unwrap();
        let read = |stack: &Stack| {
            let top = (stack.base.get() - 8) as *const u64;
            // SAFETY: as above.
            unsafe { top.read() }
        };
        assert_eq!(shared.warm.len(), SHARED_STACKS);
        assert!(shared.warm.iter().all(|stack| read(stack) == 7));
        assert_eq!(read(shared.cold.last().unwrap()), 0);
    }
}
