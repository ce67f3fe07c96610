//! The receive buffers of a ring ("provided buffers" of io_uring). The kernel selects one of them
//! when bytes arrive.
//!
//! The free buffers are listed in a *buffer ring*, memory shared with the kernel. This module
//! appends buffers at the tail, and the kernel takes them from the head. Since Linux 6.12 the
//! kernel can use a buffer incrementally: each receive takes as many bytes of the buffer as have
//! arrived, and the next receive continues behind them. So many small messages share a few buffers,
//! which stay in the processor's cache. On older kernels each receive takes a complete buffer.
//!
//! [`ReceivedBytes`] stands for the part of a buffer that one receive has filled. It cannot be
//! copied, and the caller gives it back once. A buffer is provided to the kernel again when the
//! kernel has retired it and all parts of it have been given back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

/// The buffer group: the number by which receive operations name this pool of buffers.
pub(super) const GROUP: u16 = 0;
/// The alignment of the buffers and of the buffer ring, in bytes.
const PAGE: usize = 4096;
/// The registration flag by which the kernel uses buffers incrementally (Linux 6.12).
const IOU_PBUF_RING_INC: u16 = 2;

/// Received bytes: a part of a receive buffer, until it is given back.
#[derive(Debug)]
pub struct ReceivedBytes {
    /// The pool of the buffer ([`Pool::id`]).
    pool_id: u64,
    /// The index of the buffer in its pool.
    buffer: u16,
    /// The offset of the first byte in the buffer.
    start: u32,
    len: u32,
}

impl ReceivedBytes {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there are no bytes. False for the bytes of an event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A handle on the receive buffers of a ring. A clone is a handle on the same buffers.
#[derive(Debug, Clone)]
pub struct ReceiveBuffers {
    pool: Rc<Pool>,
}

impl ReceiveBuffers {
    pub(super) fn new(pool: Rc<Pool>) -> Self {
        Self { pool }
    }

    /// Returns the bytes for which `arrived` stands.
    ///
    /// # Panics
    /// The bytes belong to another ring.
    #[must_use]
    pub fn bytes<'a>(&'a self, arrived: &'a ReceivedBytes) -> &'a [u8] {
        self.pool.bytes(arrived)
    }

    /// Gives received bytes back, so that the kernel can reuse their buffer.
    ///
    /// # Panics
    /// The bytes belong to another ring.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "bytes that were given back must not be read again"
    )]
    pub fn give_back(&self, arrived: ReceivedBytes) {
        self.pool.give_back(&arrived);
    }
}

/// The receive buffers, and the buffer ring that lists the free ones.
#[derive(Debug)]
pub(super) struct Pool {
    /// Distinguishes the pools of the process.
    id: u64,
    /// The buffer ring, with `buffers` entries.
    entries: NonNull<BufRingEntry>,
    /// The memory of all buffers, one after the other.
    bytes: NonNull<u8>,
    /// The number of buffers.
    buffers: u16,
    /// The length of each buffer, in bytes.
    buffer_len: u32,
    /// The number of entries appended to the buffer ring so far. Wraps.
    tail: Cell<u16>,
    /// The use of each buffer by the kernel.
    uses: Box<[Cell<BufferUse>]>,
    /// The kernel uses buffers incrementally.
    is_incremental: Cell<bool>,
}

/// How a buffer has been used since it was last provided to the kernel.
#[derive(Debug, Clone, Copy, Default)]
struct BufferUse {
    /// The number of bytes that the kernel has filled.
    used: u32,
    /// The number of filled parts that have not been given back.
    parts: u32,
    /// The kernel will not fill more of the buffer.
    is_retired: bool,
}

/// The id of the next pool of the process. 64 bits do not wrap.
static NEXT_POOL_ID: AtomicU64 = AtomicU64::new(0);

impl Pool {
    /// Allocates the buffers and the buffer ring, and appends all buffers to it.
    pub(super) fn new(buffers: u16, buffer_len: u32) -> io::Result<Self> {
        if !buffers.is_power_of_two() || buffers > 1 << 15 || buffer_len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pool = Self {
            id: NEXT_POOL_ID.fetch_add(1, Ordering::Relaxed),
            entries: zeroed(entries_layout(buffers)?).cast(),
            bytes: zeroed(bytes_layout(buffers, buffer_len)?),
            buffers,
            buffer_len,
            tail: Cell::new(0),
            uses: vec![Cell::default(); usize::from(buffers)].into(),
            is_incremental: Cell::new(true),
        };
        (0..buffers).for_each(|buffer| pool.provide(buffer));
        Ok(pool)
    }

    /// Registers the buffer ring with an io_uring, for incremental use if the kernel supports that.
    pub(super) fn register(&self, uring: &IoUring) -> io::Result<()> {
        let address = self.entries.as_ptr() as u64;
        let register = |flags| {
            let submitter = uring.submitter();
            // SAFETY: the buffer ring is aligned to a page and has `self.buffers` entries. It lives
            // as long as the io_uring, because the ring owns this pool, and frees or leaks it only
            // after the io_uring has ended its operations (`ring.rs`).
            unsafe { submitter.register_buf_ring_with_flags(address, self.buffers, GROUP, flags) }
        };
        match register(IOU_PBUF_RING_INC) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.is_incremental.set(false);
                register(0)
            }
            registered => registered,
        }
    }

    /// Returns whether the kernel uses buffers incrementally. Valid after
    /// [`register`](Self::register).
    pub(super) fn is_incremental(&self) -> bool {
        self.is_incremental.get()
    }

    /// Records that the kernel has received `len` bytes into a buffer, and returns these bytes.
    /// `buffer` and `flags` are those of the completion.
    pub(super) fn record_received(&self, buffer: u16, len: u32, flags: u32) -> ReceivedBytes {
        assert!(buffer < self.buffers, "no such receive buffer");
        let buffer_use = &self.uses[usize::from(buffer)];
        let BufferUse { used, parts, .. } = buffer_use.get();
        let len = len.min(self.buffer_len - used);
        buffer_use.set(BufferUse {
            used: used + len,
            parts: parts + 1,
            is_retired: !(self.is_incremental.get() && cqueue::buffer_more(flags)),
        });
        ReceivedBytes {
            pool_id: self.id,
            buffer,
            start: used,
            len,
        }
    }

    /// Returns the bytes for which `arrived` stands.
    fn bytes<'a>(&'a self, arrived: &'a ReceivedBytes) -> &'a [u8] {
        assert_eq!(arrived.pool_id, self.id, "bytes of another ring");
        let start = self.start_of(arrived.buffer);
        let start = start.wrapping_add(arrived.start as usize);
        // SAFETY: the range is inside `self.bytes`, which is initialised (zeroed at first). The
        // kernel does not write to this part until it is given back. Giving it back consumes
        // `arrived`, which the returned slice borrows.
        unsafe { slice::from_raw_parts(start, arrived.len()) }
    }

    /// Gives received bytes back. If they are the last part of a retired buffer, provides the
    /// buffer to the kernel again.
    pub(super) fn give_back(&self, arrived: &ReceivedBytes) {
        assert_eq!(arrived.pool_id, self.id, "bytes of another ring");
        let buffer_use = &self.uses[usize::from(arrived.buffer)];
        let before = buffer_use.get();
        let parts = before.parts - 1;
        buffer_use.set(BufferUse { parts, ..before });
        if parts == 0 && before.is_retired {
            self.provide(arrived.buffer);
        }
    }

    /// Returns the address of the first byte of a buffer.
    fn start_of(&self, buffer: u16) -> *mut u8 {
        let offset = usize::from(buffer) * self.buffer_len as usize;
        self.bytes.as_ptr().wrapping_add(offset)
    }

    /// Provides a buffer to the kernel: appends it to the buffer ring.
    fn provide(&self, buffer: u16) {
        self.uses[usize::from(buffer)].set(BufferUse::default());
        let tail = self.tail.get();
        let index = usize::from(tail & (self.buffers - 1));
        // SAFETY: `index` is less than the number of entries.
        let mut entry = unsafe { self.entries.add(index) };
        // SAFETY: the entry is inside the buffer ring. The kernel reads only entries before the
        // tail, and this entry is the one at the tail. There are as many entries as buffers, so it
        // is free.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(self.start_of(buffer) as u64);
        entry.set_len(self.buffer_len);
        entry.set_bid(buffer);
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the buffer ring has at least one entry. By the kernel's layout the shared tail is
        // in unused bytes of the first entry.
        let shared_tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the pointer is aligned and valid as long as the pool. This module and the kernel
        // access the tail only atomically.
        let shared_tail = unsafe { AtomicU16::from_ptr(shared_tail.cast_mut()) };
        // Release: pairs with the kernel's acquire load of the tail. A kernel that sees the new
        // tail also sees the complete entry.
        shared_tail.store(self.tail.get(), Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let (Ok(entries), Ok(bytes)) = (
            entries_layout(self.buffers),
            bytes_layout(self.buffers, self.buffer_len),
        ) {
            // SAFETY: allocated with this layout in `new`. The kernel no longer uses it, because
            // `Ring::drop` drops its pool only after the last operation has ended.
            unsafe { dealloc(self.entries.as_ptr().cast(), entries) };
            // SAFETY: allocated with this layout in `new`, and no longer used by the kernel either.
            unsafe { dealloc(self.bytes.as_ptr(), bytes) };
        }
    }
}

/// The layout of the buffer ring.
fn entries_layout(buffers: u16) -> io::Result<Layout> {
    layout(usize::from(buffers) * size_of::<BufRingEntry>())
}

/// The layout of the memory of all buffers.
fn bytes_layout(buffers: u16, buffer_len: u32) -> io::Result<Layout> {
    layout(usize::from(buffers) * buffer_len as usize)
}

fn layout(bytes: usize) -> io::Result<Layout> {
    Layout::from_size_align(bytes, PAGE).map_err(io::Error::other)
}

/// Allocates zeroed memory. Aborts if there is none.
fn zeroed(layout: Layout) -> NonNull<u8> {
    // SAFETY: the size is not zero, because `Pool::new` requires at least one buffer of at least
    // one byte.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}
