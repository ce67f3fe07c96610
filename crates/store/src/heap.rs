//! The memory of items: one mapping divided into segments, with two cache lines of metadata for
//! each.
//!
//! ```text
//! mapping  │ segment 0 │ segment 1 │ …        a power of two of bytes each
//!          └ 8 bytes unused, then block, block, block, … , end
//! ```
//!
//! **Why reads need no lock.** A block is written by one writer, which holds its segment, and is
//! published by a store of one index word. Afterwards only its expiry, its access word and, in the
//! list of a large item, the locations of pieces change, and these are atomics. The memory is
//! reused only when no location refers to it, every worker has been quiescent since (`epochs.rs`),
//! and no pin holds the segment. So a worker that is online and got the location from the index may
//! use the block until it becomes quiescent.

pub(crate) mod block;
pub(crate) mod live;
pub(crate) mod segment;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Block, HEADER_LEN};
use live::LiveBytes;
use segment::{FIRST_BLOCK, Segment};

use crate::index::Location;
use crate::region::{Mapping, Table};

/// The number of a segment.
pub(crate) type SegmentNumber = u32;

/// Unit of a location, in bytes.
const UNIT: u64 = 4;
const _: () = assert!((Location::MAX + 1) * UNIT == crate::limits::MEMORY_MAX);
/// Size of a cache line.
const LINE: usize = 64;
/// Bytes of a block that are prefetched before it is written.
const PREFETCH_BYTES: usize = 4 * LINE;
/// Cache lines of a block that are prefetched before it is read, when its length is not known yet.
const READ_LINES: usize = 4;

/// A block with its location and segment, resolved once for all steps of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRef<'h> {
    pub(crate) location: Location,
    pub(crate) block: Block<'h>,
    pub(crate) segment: &'h Segment,
}

impl BlockRef<'_> {
    /// Prefetches the header and the key of a block that is to be replaced: at most two cache
    /// lines. A hint.
    #[inline]
    pub(crate) fn prefetch_to_replace(&self, key_len: usize) {
        let start = self.block.address();
        // The dead mark will be written to the header, so its line is prefetched for writing. A
        // block may begin anywhere in a line, so the end of the key may be in the next one.
        crate::prefetch::line_to_write(start);
        crate::prefetch::line(start.wrapping_add(HEADER_LEN + key_len - 1));
    }
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Heap {
    memory: Mapping,
    segments: Table<Segment>,
    pub(crate) live: LiveBytes,
    size_bits: u32,
    /// Huge pages are requested.
    is_huge: AtomicBool,
}

impl Heap {
    /// Reserves `count` segments of 2^`size_bits` bytes, for this many workers. Nothing is resident
    /// yet.
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

    /// Size of a segment in bytes.
    #[inline]
    pub(crate) fn segment_size(&self) -> u32 {
        1 << self.size_bits
    }

    /// Maximum number of segments.
    pub(crate) fn count(&self) -> u32 {
        self.segments.all().len() as u32
    }

    #[inline]
    pub(crate) fn segment(&self, number: SegmentNumber) -> &Segment {
        &self.segments.all()[number as usize]
    }

    #[inline]
    pub(crate) fn number_of(&self, location: Location) -> SegmentNumber {
        ((location.units() * UNIT) >> self.size_bits) as SegmentNumber
    }

    /// The segment of a block.
    #[inline]
    pub(crate) fn segment_of(&self, location: Location) -> &Segment {
        self.segment(self.number_of(location))
    }

    /// The location of byte `at` of a segment.
    pub(crate) fn location(&self, number: SegmentNumber, at: u32) -> Option<Location> {
        Location::new(((u64::from(number) << self.size_bits) + u64::from(at)) / UNIT)
    }

    /// The block at a location.
    ///
    /// # Safety
    /// During `'h` the memory contains this block, because
    /// - a worker is borrowed that got the location since it was last quiescent, or
    /// - the block's segment is held by a writer or a pin, or
    /// - the block's segment is being evacuated and has not been retired.
    #[inline]
    pub(crate) unsafe fn block<'h>(&self, location: Location) -> Block<'h> {
        let at = (location.units() * UNIT) as usize;
        assert!(
            at + HEADER_LEN <= self.memory.len(),
            "a location outside the memory"
        );
        let start = self.memory.byte_address(at);
        // SAFETY: the address is inside the mapping, and aligned to 4 because segments are; the
        // caller guarantees the other conditions.
        unsafe { Block::from_raw(start) }
    }

    /// The block that begins at byte `at` of a segment. `None` at the end of the segment.
    ///
    /// # Safety
    /// All blocks of the segment are complete, and it is not retired during `'h`.
    pub(crate) unsafe fn block_in<'h>(
        &self,
        number: SegmentNumber,
        at: u32,
    ) -> Option<(Location, Block<'h>)> {
        if at as usize + HEADER_LEN > self.segment_size() as usize {
            return None;
        }
        let location = self.location(number, at)?;
        // SAFETY: blocks are contiguous, so one begins here; the caller guarantees that it stays.
        let block = unsafe { self.block(location) };
        (!block.is_end_marker()).then_some((location, block))
    }

    /// Writes the end marker of a segment at byte `at`, which no other thread writes.
    pub(crate) fn write_end(&self, number: SegmentNumber, at: u32) {
        if at as usize + HEADER_LEN <= self.segment_size() as usize
            && let Some(location) = self.location(number, at)
        {
            // SAFETY: the caller has exclusive access for the duration of the call.
            unsafe { self.block(location) }.write_end_marker();
        }
    }

    /// Prefetches the beginning of a block. A hint.
    #[inline]
    pub(crate) fn prefetch(&self, location: Location) {
        if let Some(start) = self.start_of(location) {
            for line in 0..READ_LINES {
                crate::prefetch::line(start.wrapping_add(line * LINE));
            }
        }
    }

    /// Prefetches the lines after the first of a block. A hint.
    #[inline]
    pub(crate) fn prefetch_rest(&self, location: Location) {
        let at = (location.units() * UNIT) as usize;
        let start = self.memory.byte_address(at).as_ptr().cast_const();
        for line in 1..READ_LINES {
            crate::prefetch::line(start.wrapping_add(line * LINE));
        }
    }

    /// Prefetches the first lines of a block that is about to be written, and the metadata line of
    /// its segment that the write changes. A hint.
    #[inline]
    pub(crate) fn prefetch_to_write(&self, location: Location, len: usize) {
        if let Some(start) = self.start_of(location) {
            let len = len.min(PREFETCH_BYTES);
            for line in 0..len.div_ceil(LINE) {
                crate::prefetch::line_to_write(start.wrapping_add(line * LINE));
            }
            // A block may begin anywhere in a line.
            crate::prefetch::line_to_write(start.wrapping_add(len.saturating_sub(1)));
            self.segment_of(location).prefetch();
        }
    }

    /// The address of a location, for hints: its block may have been reclaimed, but the address
    /// stays mapped.
    #[inline]
    fn start_of(&self, location: Location) -> Option<*const u8> {
        let at = (location.units() * UNIT) as usize;
        (at < self.memory.len()).then(|| self.memory.byte_address(at).as_ptr().cast_const())
    }

    /// Length of the largest possible block in bytes.
    pub(crate) fn block_max(&self) -> usize {
        (self.segment_size() - FIRST_BLOCK) as usize
    }

    pub(crate) fn advise_huge(&self) {
        self.memory.advise_huge();
        self.is_huge.store(true, Ordering::Relaxed);
    }

    /// Whether huge pages are requested.
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

    /// Returns the pages of a segment to the kernel; true on success. Makes a system call.
    pub(crate) fn discard(&self, number: SegmentNumber) -> bool {
        let words = |number: SegmentNumber| ((number as usize) << self.size_bits) / 8;
        self.memory
            .discard(words(number), words(number + 1))
            .is_ok()
    }

    /// Populates up to `max_len` bytes of a segment from byte `start`, and its metadata. Returns
    /// the end of the populated range. Makes a system call.
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
