//! Memory to receive into: buffers that the kernel is lent, in a ring of its own, and of which it
//! takes one when bytes come.
//!
//! A buffer is the kernel's from when it is given back until an event names it, and the receiver's
//! from then on: [`Arrived`] stands for that, and cannot be copied.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// The name of the buffers in their ring.
pub(super) const GROUP: u16 = 0;
const PAGE: usize = 4096;

/// Bytes that have come, until they are given back.
#[derive(Debug)]
pub struct Arrived {
    pool: u32,
    buffer: u16,
    len: u32,
}

impl Arrived {
    /// How many bytes they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether they are none; what an event brings is some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The memory a ring receives into.
#[derive(Debug)]
pub struct Inputs {
    pool: Rc<Pool>,
}

impl Inputs {
    pub(super) fn new(pool: Rc<Pool>) -> Self {
        Self { pool }
    }

    /// The bytes that have come.
    #[must_use]
    pub fn bytes(&self, arrived: &Arrived) -> &[u8] {
        self.pool.bytes(arrived)
    }

    /// Lets the kernel have their memory again.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what was given back must not be looked at again"
    )]
    pub fn give_back(&mut self, arrived: Arrived) {
        self.pool.give_back(&arrived);
    }
}

/// The buffers, and the ring in which the kernel finds them.
#[derive(Debug)]
pub(super) struct Pool {
    /// Tells pools apart.
    number: u32,
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    buffers: u16,
    buffer_len: u32,
    tail: Cell<u16>,
}

static POOLS: AtomicU32 = AtomicU32::new(0);

impl Pool {
    pub(super) fn new(buffers: u16, buffer_len: u32) -> io::Result<Self> {
        if !buffers.is_power_of_two() || buffers > 1 << 15 || buffer_len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pool = Self {
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            entries: zeroed(entries_layout(buffers)?).cast(),
            bytes: zeroed(bytes_layout(buffers, buffer_len)?),
            buffers,
            buffer_len,
            tail: Cell::new(0),
        };
        (0..buffers).for_each(|buffer| pool.lend(buffer));
        Ok(pool)
    }

    pub(super) fn register(&self, uring: &IoUring) -> io::Result<()> {
        let at = self.entries.as_ptr() as u64;
        // SAFETY: the ring of buffers is of a page's alignment, has so many entries, and lives for
        // as long as the io_uring, which keeps this pool or leaks it (`ring.rs`).
        unsafe {
            uring
                .submitter()
                .register_buf_ring_with_flags(at, self.buffers, GROUP, 0)
        }
    }

    /// Bytes in a buffer that an event has named.
    pub(super) fn arrived(&self, buffer: u16, len: u32) -> Arrived {
        Arrived {
            pool: self.number,
            buffer,
            len: len.min(self.buffer_len),
        }
    }

    fn bytes(&self, arrived: &Arrived) -> &[u8] {
        assert_eq!(arrived.pool, self.number, "bytes of another ring");
        let start = self.byte_of(arrived.buffer);
        // SAFETY: inside the memory, which is zeroed or was written by the kernel; the kernel has
        // given the buffer away, and gets it back only when `arrived` is given up.
        unsafe { slice::from_raw_parts(start, arrived.len()) }
    }

    pub(super) fn give_back(&self, arrived: &Arrived) {
        assert_eq!(arrived.pool, self.number, "bytes of another ring");
        self.lend(arrived.buffer);
    }

    fn byte_of(&self, buffer: u16) -> *mut u8 {
        assert!(buffer < self.buffers, "a buffer outside");
        let at = usize::from(buffer) * self.buffer_len as usize;
        self.bytes.as_ptr().wrapping_add(at)
    }

    fn lend(&self, buffer: u16) {
        let tail = self.tail.get();
        let place = usize::from(tail & (self.buffers - 1));
        // SAFETY: inside the ring of buffers.
        let mut entry = unsafe { self.entries.add(place) };
        // SAFETY: as above, and the kernel does not look at entries behind the tail.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(self.byte_of(buffer) as u64);
        entry.set_len(self.buffer_len);
        entry.set_bid(buffer);
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the ring has entries, in whose first the tail lies.
        let shared = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: aligned, ours, and reached by us and the kernel as an atomic only.
        let shared = unsafe { AtomicU16::from_ptr(shared.cast_mut()) };
        // Release: pairs with the kernel's reading of it: the entry is whole.
        shared.store(self.tail.get(), Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let (Ok(entries), Ok(bytes)) = (
            entries_layout(self.buffers),
            bytes_layout(self.buffers, self.buffer_len),
        ) {
            // SAFETY: made with this layout in `new`, and nobody's any more: the ring has ended.
            unsafe { dealloc(self.entries.as_ptr().cast(), entries) };
            // SAFETY: as above.
            unsafe { dealloc(self.bytes.as_ptr(), bytes) };
        }
    }
}

fn entries_layout(buffers: u16) -> io::Result<Layout> {
    layout(usize::from(buffers) * size_of::<BufRingEntry>())
}

fn bytes_layout(buffers: u16, buffer_len: u32) -> io::Result<Layout> {
    layout(usize::from(buffers) * buffer_len as usize)
}

fn layout(bytes: usize) -> io::Result<Layout> {
    Layout::from_size_align(bytes, PAGE).map_err(io::Error::other)
}

fn zeroed(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout is not empty: `Pool::new` has seen to it.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}
