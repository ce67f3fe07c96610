//! The memory of items: one mapping, divided into segments of equal size. Each segment also has
//! metadata of two cache lines in a separate table.
//!
//! ```text
//! mapping  │ segment 0 │ segment 1 │ …        the size of each is a power of two
//!          └ 8 bytes unused, then block, block, block, … , end marker
//! ```
//!
//! **Why reads need no lock.**
//!
//! - A single writer fills a block. Meanwhile the writer *holds* the segment. A hold prevents the
//!   evacuation of the segment, which would copy the segment's live blocks elsewhere and reuse its
//!   memory. Then the writer publishes the block by storing its location in a word of the index.
//! - After that, only three fields of the block change: its expiry, its access word (the time of
//!   the last access, and flags), and the list of pieces of a large item. All three are atomics.
//! - The memory of the block is reused only if three conditions hold: no stored location refers to
//!   the block; every worker has been quiescent since then (has announced that it has no
//!   references, `epochs.rs`); and no *pin* holds the segment. A pin is a hold for a client that is
//!   still receiving a value.
//!
//! Therefore a worker that is online and has read a location from the index may use the block until
//! the worker becomes quiescent.

pub(crate) mod block;
pub(crate) mod holds;
pub(crate) mod live;
mod location;
pub(crate) mod segment;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Block, HEADER_LEN};
use live::LiveBytes;
pub(crate) use location::{Location, SegmentNumber};
use segment::{FIRST_BLOCK, Segment};

use crate::region::{Mapping, Table};

/// The unit of a [`Location`], in bytes.
const UNIT: u64 = 4;
const _: () = assert!((Location::MAX + 1) * UNIT == crate::limits::MEMORY_MAX);
/// Size of a cache line in bytes.
const LINE: usize = 64;
/// Maximum number of bytes of a block that are prefetched before the block is written.
const PREFETCH_BYTES: usize = 4 * LINE;
/// Number of cache lines that are prefetched before a block is read. The length of the block is not
/// known at that time.
const READ_LINES: usize = 4;

/// A block, its location, and its segment. A write looks them up once and passes them together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRef<'h> {
    pub(crate) location: Location,
    pub(crate) block: Block<'h>,
    pub(crate) segment: &'h Segment,
}

impl BlockRef<'_> {
    /// Prefetches the header and the key of a block whose item is about to be replaced: at most two
    /// cache lines. A prefetch is only a hint to the processor.
    #[inline]
    pub(crate) fn prefetch_to_replace(&self, key_len: usize) {
        let start = self.block.address();
        // The line of the header is prefetched for writing, because the writer will set the dead
        // mark there, which says that the index no longer refers to the block. A block may begin
        // anywhere in a cache line, so the end of the key may be in the next line.
        crate::prefetch::line_to_write(start);
        crate::prefetch::line(start.wrapping_add(HEADER_LEN + key_len - 1));
    }
}

/// All segments of a store: their memory, their metadata, and their live-byte counters.
#[derive(Debug)]
pub(crate) struct Heap {
    memory: Mapping,
    segments: Table<Segment>,
    pub(crate) live: LiveBytes,
    /// The size of a segment is 2^`size_bits` bytes.
    size_bits: u32,
    /// Whether huge pages are requested.
    is_huge: AtomicBool,
}

impl Heap {
    /// Reserves address space for `count` segments of 2^`size_bits` bytes, and live-byte counters
    /// for `workers` workers. No page is resident yet.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn new(count: usize, size_bits: u32, workers: usize) -> io::Result<Self> {
        Ok(Self {
            memory: Mapping::reserve(count << size_bits)?,
            segments: Table::reserve(count)?,
            live: LiveBytes::reserve(count, workers)?,
            size_bits,
            is_huge: AtomicBool::new(false),
        })
    }

    /// Returns the size of a segment in bytes.
    #[inline]
    pub(crate) fn segment_size(&self) -> u32 {
        1 << self.size_bits
    }

    /// Returns the number of segments for which address space is reserved.
    pub(crate) fn count(&self) -> u32 {
        self.segments.all().len() as u32
    }

    /// Returns the metadata of a segment.
    #[inline]
    pub(crate) fn segment(&self, number: SegmentNumber) -> &Segment {
        &self.segments.all()[number as usize]
    }

    /// Returns the number of the segment that contains a location.
    #[inline]
    pub(crate) fn number_of(&self, location: Location) -> SegmentNumber {
        ((location.units() * UNIT) >> self.size_bits) as SegmentNumber
    }

    /// Returns the metadata of the segment that contains a location.
    #[inline]
    pub(crate) fn segment_of(&self, location: Location) -> &Segment {
        self.segment(self.number_of(location))
    }

    /// Returns the location of byte `at` of a segment. `None` if that is not a valid location,
    /// because it is 0 or too large.
    pub(crate) fn location(&self, number: SegmentNumber, at: u32) -> Option<Location> {
        Location::new(((u64::from(number) << self.size_bits) + u64::from(at)) / UNIT)
    }

    /// Returns the block at a location.
    ///
    /// # Safety
    /// The memory must contain this block during all of `'h`. One of these conditions guarantees
    /// it:
    /// - A worker is borrowed during `'h`, and has read the location from the index since it was
    ///   last quiescent.
    /// - A writer or a pin holds the block's segment.
    /// - The block's segment is being evacuated, and is not retired (handed over for reuse) before
    ///   the end of `'h`.
    #[inline]
    pub(crate) unsafe fn block<'h>(&self, location: Location) -> Block<'h> {
        let at = (location.units() * UNIT) as usize;
        assert!(
            at + HEADER_LEN <= self.memory.len(),
            "a location outside the memory"
        );
        let start = self.memory.byte_address(at);
        // SAFETY: the address is inside the mapping. It is aligned to 4, because locations are
        // multiples of 4 bytes. The caller guarantees the other conditions.
        unsafe { Block::from_raw(start) }
    }

    /// Returns the block that begins at byte `at` of a segment. `None` at the end of the segment.
    ///
    /// # Safety
    /// `at` is the offset of the first block, or of the end of a block. All blocks of the segment
    /// are complete, and the segment is not retired during `'h`.
    pub(crate) unsafe fn block_in<'h>(
        &self,
        number: SegmentNumber,
        at: u32,
    ) -> Option<(Location, Block<'h>)> {
        if at as usize + HEADER_LEN > self.segment_size() as usize {
            return None;
        }
        let location = self.location(number, at)?;
        // SAFETY: blocks are contiguous, so a block or the end marker begins here. The caller
        // guarantees that the memory is not reused during `'h`.
        let block = unsafe { self.block(location) };
        (!block.is_end_marker()).then_some((location, block))
    }

    /// Writes the end marker at byte `at` of a segment, if a header fits there. The caller is the
    /// only thread that writes at this address.
    pub(crate) fn write_end(&self, number: SegmentNumber, at: u32) {
        if at as usize + HEADER_LEN <= self.segment_size() as usize
            && let Some(location) = self.location(number, at)
        {
            // SAFETY: the caller has exclusive access to this memory during the call.
            unsafe { self.block(location) }.write_end_marker();
        }
    }

    /// Prefetches the first cache lines of a block that is about to be read. A hint.
    #[inline]
    pub(crate) fn prefetch(&self, location: Location) {
        if let Some(start) = self.start_of(location) {
            for line in 0..READ_LINES {
                crate::prefetch::line(start.wrapping_add(line * LINE));
            }
        }
    }

    /// Prefetches the same cache lines as [`prefetch`](Self::prefetch), except the first, which has
    /// been accessed already. A hint.
    #[inline]
    pub(crate) fn prefetch_rest(&self, location: Location) {
        let at = (location.units() * UNIT) as usize;
        let start = self.memory.byte_address(at).as_ptr().cast_const();
        for line in 1..READ_LINES {
            crate::prefetch::line(start.wrapping_add(line * LINE));
        }
    }

    /// Prefetches the first cache lines of a block of `len` bytes that is about to be written, and
    /// the line of its segment's metadata that every write changes. A hint.
    #[inline]
    pub(crate) fn prefetch_to_write(&self, location: Location, len: usize) {
        if let Some(start) = self.start_of(location) {
            let len = len.min(PREFETCH_BYTES);
            for line in 0..len.div_ceil(LINE) {
                crate::prefetch::line_to_write(start.wrapping_add(line * LINE));
            }
            // A block that begins in the middle of a line may extend into one more line.
            crate::prefetch::line_to_write(start.wrapping_add(len.saturating_sub(1)));
            self.segment_of(location).prefetch();
        }
    }

    /// Returns the address of a location, for prefetching only. The memory of the block may have
    /// been reused since the location was read, but the address stays mapped. `None` if the
    /// location is outside the memory.
    #[inline]
    fn start_of(&self, location: Location) -> Option<*const u8> {
        let at = (location.units() * UNIT) as usize;
        (at < self.memory.len()).then(|| self.memory.byte_address(at).as_ptr().cast_const())
    }

    /// Returns the maximum length of a block in bytes.
    pub(crate) fn block_max(&self) -> usize {
        (self.segment_size() - FIRST_BLOCK) as usize
    }

    /// Requests huge pages.
    pub(crate) fn advise_huge(&self) {
        self.memory.advise_huge();
        self.is_huge.store(true, Ordering::Relaxed);
    }

    /// Returns true if huge pages are requested.
    pub(crate) fn is_huge(&self) -> bool {
        self.is_huge.load(Ordering::Relaxed)
    }

    /// Stops requesting huge pages. Returns false if they were not requested. Makes a system call.
    pub(crate) fn disable_huge(&self) -> bool {
        let was_huge = self.is_huge.swap(false, Ordering::Relaxed);
        if was_huge {
            self.memory.disable_huge();
        }
        was_huge
    }

    /// Returns the pages of a segment to the kernel. Returns true on success. Makes a system call.
    pub(crate) fn discard(&self, number: SegmentNumber) -> bool {
        // The mapping counts in words of 8 bytes.
        let words = |number: SegmentNumber| ((number as usize) << self.size_bits) / 8;
        self.memory
            .discard(words(number), words(number + 1))
            .is_ok()
    }

    /// Makes up to `max_len` bytes of a segment resident, from byte `start`. If `start` is 0, also
    /// makes the segment's metadata resident. Returns the offset of the end of the resident range.
    /// Makes a system call.
    pub(crate) fn populate(&self, number: SegmentNumber, start: u32, max_len: u32) -> u32 {
        let end = self.segment_size().min(start + max_len);
        let byte = |at: u32| ((number as usize) << self.size_bits) + at as usize;
        self.memory.populate(byte(start), byte(end));
        if start == 0 {
            self.segments.populate(number as usize);
        }
        end
    }
}
