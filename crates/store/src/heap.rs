//! The memory of items: one mapping, cut into segments; and two lines about each.
//!
//! ```text
//! mapping  │ segment 0 │ segment 1 │ …        a power of two of bytes each
//!          └ 8 bytes unused, then block, block, block, … , end
//! ```
//!
//! **Why looking needs no lock.** A block is written by one writer, who holds its segment, and is
//! published by one word of the index. From then on nothing of it changes but its expiry, its
//! access word and, in the list of a large item, the locations of pieces: atomics all. Its memory
//! is used again only when nothing leads there, every worker has been quiescent since (`epochs.rs`)
//! and no pin holds the segment. So whoever is online and was led to a block by the index may look
//! at it until it says that it is quiescent.

pub(crate) mod block;
pub(crate) mod live;
pub(crate) mod segment;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Block, HEADER_LEN};
use live::Live;
use segment::{FIRST, Segment};

use crate::index::Location;
use crate::region::{Mapping, Table};

/// A segment's number.
pub(crate) type Number = u32;

/// Bytes of what a location counts in.
const UNIT: u64 = 4;
const _: () = assert!((Location::MAX + 1) * UNIT == crate::limits::MEMORY_MAX);
/// Bytes of a line of the processor's caches.
const LINE: usize = 64;
/// Bytes of a block that are asked for before it is written.
const PREFETCH_BYTES: usize = 4 * LINE;
/// Lines of a block that are asked for before it is read, whose length is not known yet.
const READ_LINES: usize = 4;

/// A block, where it is, and its segment: reckoned once for all that a write does with them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRef<'h> {
    pub(crate) location: Location,
    pub(crate) block: Block<'h>,
    pub(crate) segment: &'h Segment,
}

impl BlockRef<'_> {
    /// Asks for the memory of the header and the key of a block that is to be replaced, as far as
    /// two lines reach. A hint.
    #[inline]
    pub(crate) fn prefetch_to_replace(&self, key_len: usize) {
        let start = self.block.address();
        // The header is written, so that draining need not look; blocks begin anywhere.
        crate::prefetch::line_to_write(start);
        crate::prefetch::line(start.wrapping_add(HEADER_LEN + key_len - 1));
    }
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Heap {
    memory: Mapping,
    segments: Table<Segment>,
    pub(crate) live: Live,
    size_bits: u32,
    /// Huge pages have been asked for.
    is_huge: AtomicBool,
}

impl Heap {
    /// Room for `count` segments of `2^size_bits` bytes, for so many workers. Nothing is resident
    /// yet.
    ///
    /// # Errors
    /// The kernel has no room in the address space.
    pub(crate) fn new(count: usize, size_bits: u32, workers: usize) -> io::Result<Self> {
        Ok(Self {
            memory: Mapping::reserve(count << size_bits)?,
            segments: Table::reserve(count)?,
            live: Live::reserve(count, workers)?,
            size_bits,
            is_huge: AtomicBool::new(false),
        })
    }

    /// Bytes of a segment.
    #[inline]
    pub(crate) fn segment_size(&self) -> u32 {
        1 << self.size_bits
    }

    /// Segments there may ever be.
    pub(crate) fn count(&self) -> u32 {
        self.segments.all().len() as u32
    }

    #[inline]
    pub(crate) fn segment(&self, number: Number) -> &Segment {
        &self.segments.all()[number as usize]
    }

    #[inline]
    pub(crate) fn number_of(&self, location: Location) -> Number {
        ((location.units() * UNIT) >> self.size_bits) as Number
    }

    /// The segment a block lies in.
    #[inline]
    pub(crate) fn segment_of(&self, location: Location) -> &Segment {
        self.segment(self.number_of(location))
    }

    /// Where byte `at` of a segment is.
    pub(crate) fn location(&self, number: Number, at: u32) -> Option<Location> {
        Location::new(((u64::from(number) << self.size_bits) + u64::from(at)) / UNIT)
    }

    /// The block at a location.
    ///
    /// # Safety
    /// During `'h` the memory there stays this block, since
    /// - a worker is borrowed that has been led there since it was last quiescent, or
    /// - its segment is held, by a writer or by a pin, or
    /// - its segment is being evacuated and has not been retired.
    #[inline]
    pub(crate) unsafe fn block<'h>(&self, location: Location) -> Block<'h> {
        let at = (location.units() * UNIT) as usize;
        assert!(at + HEADER_LEN <= self.memory.len(), "a location outside");
        let start = self.memory.byte(at);
        // SAFETY: inside the mapping, aligned to 4 since segments are; the caller sees to the rest.
        unsafe { Block::at(start) }
    }

    /// The block that begins at byte `at` of a segment; none: the segment ends there.
    ///
    /// # Safety
    /// All its blocks have been written, and it is not retired during `'h`.
    pub(crate) unsafe fn block_in<'h>(
        &self,
        number: Number,
        at: u32,
    ) -> Option<(Location, Block<'h>)> {
        if at as usize + HEADER_LEN > self.segment_size() as usize {
            return None;
        }
        let location = self.location(number, at)?;
        // SAFETY: blocks lie one behind the other; the caller sees to the rest.
        let block = unsafe { self.block(location) };
        (!block.is_end()).then_some((location, block))
    }

    /// Writes the end of a segment at byte `at`, where nobody else writes.
    pub(crate) fn end(&self, number: Number, at: u32) {
        if at as usize + HEADER_LEN <= self.segment_size() as usize
            && let Some(location) = self.location(number, at)
        {
            // SAFETY: the caller alone writes there, and no longer than this takes.
            unsafe { self.block(location) }.make_end();
        }
    }

    /// Asks for the memory where a block begins. A hint.
    #[inline]
    pub(crate) fn prefetch(&self, location: Location) {
        if let Some(start) = self.start_of(location) {
            for line in 0..READ_LINES {
                crate::prefetch::line(start.wrapping_add(line * LINE));
            }
        }
    }

    /// Asks for the memory of the lines behind the first of a block that is looked at now. A hint.
    #[inline]
    pub(crate) fn prefetch_rest(&self, location: Location) {
        let at = (location.units() * UNIT) as usize;
        let start = self.memory.byte(at).as_ptr().cast_const();
        for line in 1..READ_LINES {
            crate::prefetch::line(start.wrapping_add(line * LINE));
        }
    }

    /// Asks for the memory of the first lines of a block that is to be written soon, and for the
    /// line of its segment that changes then. A hint.
    #[inline]
    pub(crate) fn prefetch_to_write(&self, location: Location, len: usize) {
        if let Some(start) = self.start_of(location) {
            let len = len.min(PREFETCH_BYTES);
            for line in 0..len.div_ceil(LINE) {
                crate::prefetch::line_to_write(start.wrapping_add(line * LINE));
            }
            // Blocks begin anywhere in a line.
            crate::prefetch::line_to_write(start.wrapping_add(len.saturating_sub(1)));
            self.segment_of(location).prefetch();
        }
    }

    /// Where a block begins, for hints: it may have left, but the mapping is there.
    #[inline]
    fn start_of(&self, location: Location) -> Option<*const u8> {
        let at = (location.units() * UNIT) as usize;
        (at < self.memory.len()).then(|| self.memory.byte(at).as_ptr().cast_const())
    }

    /// The largest block.
    pub(crate) fn block_max(&self) -> usize {
        (self.segment_size() - FIRST) as usize
    }

    pub(crate) fn advise_huge(&self) {
        self.memory.advise_huge();
        self.is_huge.store(true, Ordering::Relaxed);
    }

    /// Whether huge pages are asked for.
    pub(crate) fn is_huge(&self) -> bool {
        self.is_huge.load(Ordering::Relaxed)
    }

    /// Asks for no more of them; false: nor were they asked for. It calls the kernel.
    pub(crate) fn refuse_huge(&self) -> bool {
        let was_huge = self.is_huge.swap(false, Ordering::Relaxed);
        if was_huge {
            self.memory.refuse_huge();
        }
        was_huge
    }

    /// Gives the pages of a segment back; true: they are gone. It calls the kernel.
    pub(crate) fn discard(&self, number: Number) -> bool {
        let words = |number: Number| ((number as usize) << self.size_bits) / 8;
        self.memory
            .discard(words(number), words(number + 1))
            .is_ok()
    }

    /// Has the kernel find the pages of `most` bytes of a segment from byte `from` on, and of its
    /// lines; returns where they end. It calls the kernel.
    pub(crate) fn populate(&self, number: Number, from: u32, most: u32) -> u32 {
        let to = self.segment_size().min(from + most);
        let byte = |at: u32| ((number as usize) << self.size_bits) + at as usize;
        self.memory.populate(byte(from), byte(to));
        if from == 0 {
            self.segments.populate(number as usize);
        }
        to
    }
}
