//! Memory to receive into: buffers that the kernel is uses, in a ring of its own, and of which it
//! takes as much as has come: what follows lies behind it in the same buffer (Linux 6.12), or in
//! another. So many small messages share a few buffers, which stay near.
//!
//! The part of a buffer that an event names is the receiver's until it is given back: [`ReceivedBytes`]
//! stands for that, and cannot be copied. A buffer returns to the kernel when it is full and
//! all its parts were given back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

/// The name of the buffers in their ring.
pub(super) const GROUP: u16 = 0;
const PAGE: usize = 4096;
/// The kernel may use a buffer bit by bit (`IOU_PBUF_RING_INC`).
const IOU_PBUF_RING_INC: u16 = 2;

/// Bytes that have come, until they are given back.
#[derive(Debug)]
pub struct ReceivedBytes {
    pool_id: u32,
    buffer: u16,
    start: u32,
    len: u32,
}

impl ReceivedBytes {
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

/// The memory a ring receives into. A clone is another handle on the same.
#[derive(Debug, Clone)]
pub struct ReceiveBuffers {
    pool: Rc<Pool>,
}

impl ReceiveBuffers {
    pub(super) fn new(pool: Rc<Pool>) -> Self {
        Self { pool }
    }

    /// The bytes that have come.
    #[must_use]
    pub fn bytes<'a>(&'a self, arrived: &'a ReceivedBytes) -> &'a [u8] {
        self.pool.bytes(arrived)
    }

    /// Lets the kernel have their memory again.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what was given back must not be looked at again"
    )]
    pub fn give_back(&self, arrived: ReceivedBytes) {
        self.pool.give_back(&arrived);
    }
}

/// The buffers, and the ring in which the kernel finds them.
#[derive(Debug)]
pub(super) struct Pool {
    /// Tells pools apart.
    id: u32,
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    buffers: u16,
    buffer_len: u32,
    tail: Cell<u16>,
    uses: Box<[Cell<BufferUse>]>,
    /// The kernel takes parts of buffers.
    is_incremental: Cell<bool>,
}

/// How far the kernel is with a buffer.
#[derive(Debug, Clone, Copy, Default)]
struct BufferUse {
    /// Bytes it has used.
    used: u32,
    /// Parts that have not been given back.
    parts: u32,
    /// It has done with it.
    is_retired: bool,
}

static NEXT_POOL_ID: AtomicU32 = AtomicU32::new(0);

impl Pool {
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

    pub(super) fn register(&self, uring: &IoUring) -> io::Result<()> {
        let at = self.entries.as_ptr() as u64;
        let register = |flags| {
            let submitter = uring.submitter();
            // SAFETY: the ring of buffers is of a page's alignment, has so many entries, and lives
            // for as long as the io_uring, which keeps this pool or leaks it (`ring.rs`).
            unsafe { submitter.register_buf_ring_with_flags(at, self.buffers, GROUP, flags) }
        };
        match register(IOU_PBUF_RING_INC) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.is_incremental.set(false);
                register(0)
            }
            registered => registered,
        }
    }

    /// Whether the kernel uses a buffer bit by bit; known once it has been registered.
    pub(super) fn is_incremental(&self) -> bool {
        self.is_incremental.get()
    }

    /// Bytes in a buffer that an event has named. `flags`: the event's.
    pub(super) fn record_received(&self, buffer: u16, len: u32, flags: u32) -> ReceivedBytes {
        assert!(buffer < self.buffers, "a buffer outside");
        let uses = &self.uses[usize::from(buffer)];
        let BufferUse { used, parts, .. } = uses.get();
        let len = len.min(self.buffer_len - used);
        uses.set(BufferUse {
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

    fn bytes<'a>(&'a self, arrived: &'a ReceivedBytes) -> &'a [u8] {
        assert_eq!(arrived.pool_id, self.id, "bytes of another ring");
        let start = self.start_of(arrived.buffer);
        let start = start.wrapping_add(arrived.start as usize);
        // SAFETY: inside the memory, which is zeroed or was written by the kernel; the kernel has
        // given this part away, and gets it back only when `arrived` is given up, which is
        // borrowed for as long as the bytes are.
        unsafe { slice::from_raw_parts(start, arrived.len()) }
    }

    pub(super) fn give_back(&self, arrived: &ReceivedBytes) {
        assert_eq!(arrived.pool_id, self.id, "bytes of another ring");
        let uses = &self.uses[usize::from(arrived.buffer)];
        let before = uses.get();
        let parts = before.parts - 1;
        uses.set(BufferUse { parts, ..before });
        if parts == 0 && before.is_retired {
            self.provide(arrived.buffer);
        }
    }

    fn start_of(&self, buffer: u16) -> *mut u8 {
        let at = usize::from(buffer) * self.buffer_len as usize;
        self.bytes.as_ptr().wrapping_add(at)
    }

    fn provide(&self, buffer: u16) {
        self.uses[usize::from(buffer)].set(BufferUse::default());
        let tail = self.tail.get();
        let index = usize::from(tail & (self.buffers - 1));
        // SAFETY: inside the ring of buffers.
        let mut entry = unsafe { self.entries.add(index) };
        // SAFETY: as above, and the kernel does not look at entries behind the tail.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(self.start_of(buffer) as u64);
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
            // SAFETY: allocated with this layout in `new`, and unused: the ring has ended.
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
