//! Memory to receive into: buffers that the kernel is lent, in a ring of its own, and of which it
//! takes as much as has come: what follows lies behind it in the same buffer (Linux 6.12), or in
//! another. So many small messages share a few buffers, which stay near.
//!
//! The part of a buffer that an event names is the receiver's until it is given back: [`Arrived`]
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
const TAKES_PARTS: u16 = 2;

/// Bytes that have come, until they are given back.
#[derive(Debug)]
pub struct Arrived {
    pool: u32,
    buffer: u16,
    start: u32,
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

/// The memory a ring receives into. A clone is another handle on the same.
#[derive(Debug, Clone)]
pub struct Inputs {
    pool: Rc<Pool>,
}

impl Inputs {
    pub(super) fn new(pool: Rc<Pool>) -> Self {
        Self { pool }
    }

    /// The bytes that have come.
    #[must_use]
    pub fn bytes<'a>(&'a self, arrived: &'a Arrived) -> &'a [u8] {
        self.pool.bytes(arrived)
    }

    /// Lets the kernel have their memory again.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what was given back must not be looked at again"
    )]
    pub fn give_back(&self, arrived: Arrived) {
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
    lent: Box<[Cell<Lent>]>,
    /// The kernel takes parts of buffers.
    takes_parts: Cell<bool>,
}

/// How far the kernel is with a buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Lent {
    /// Bytes it has used.
    used: u32,
    /// Parts that have not been given back.
    parts: u32,
    /// It has done with it.
    is_over: bool,
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
            lent: vec![Cell::default(); usize::from(buffers)].into(),
            takes_parts: Cell::new(true),
        };
        (0..buffers).for_each(|buffer| pool.lend(buffer));
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
        match register(TAKES_PARTS) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.takes_parts.set(false);
                register(0)
            }
            registered => registered,
        }
    }

    /// Whether the kernel uses a buffer bit by bit; known once it has been registered.
    pub(super) fn takes_parts(&self) -> bool {
        self.takes_parts.get()
    }

    /// Bytes in a buffer that an event has named. `flags`: the event's.
    pub(super) fn arrived(&self, buffer: u16, len: u32, flags: u32) -> Arrived {
        assert!(buffer < self.buffers, "a buffer outside");
        let lent = &self.lent[usize::from(buffer)];
        let Lent { used, parts, .. } = lent.get();
        let len = len.min(self.buffer_len - used);
        lent.set(Lent {
            used: used + len,
            parts: parts + 1,
            is_over: !(self.takes_parts.get() && cqueue::buffer_more(flags)),
        });
        Arrived {
            pool: self.number,
            buffer,
            start: used,
            len,
        }
    }

    fn bytes<'a>(&'a self, arrived: &'a Arrived) -> &'a [u8] {
        assert_eq!(arrived.pool, self.number, "bytes of another ring");
        let start = self.byte_of(arrived.buffer);
        let start = start.wrapping_add(arrived.start as usize);
        // SAFETY: inside the memory, which is zeroed or was written by the kernel; the kernel has
        // given this part away, and gets it back only when `arrived` is given up, which is
        // borrowed for as long as the bytes are.
        unsafe { slice::from_raw_parts(start, arrived.len()) }
    }

    pub(super) fn give_back(&self, arrived: &Arrived) {
        assert_eq!(arrived.pool, self.number, "bytes of another ring");
        let lent = &self.lent[usize::from(arrived.buffer)];
        let before = lent.get();
        let parts = before.parts - 1;
        lent.set(Lent { parts, ..before });
        if parts == 0 && before.is_over {
            self.lend(arrived.buffer);
        }
    }

    fn byte_of(&self, buffer: u16) -> *mut u8 {
        let at = usize::from(buffer) * self.buffer_len as usize;
        self.bytes.as_ptr().wrapping_add(at)
    }

    fn lend(&self, buffer: u16) {
        self.lent[usize::from(buffer)].set(Lent::default());
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
