//! The metadata of a segment.

use crate::item::Expiry;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The hold of one writer, in `fill`.
const WRITER_HOLD: u64 = 1 << 32;
const TAIL_MASK: u64 = WRITER_HOLD - 1;
/// The segment is closed: it is being evacuated, or was evacuated and not reopened since. No hole
/// in it may be filled.
const CLOSED: u64 = 1 << 63;

/// The phase of a segment. The cycle is free, open, sealed, evacuating, retired, free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// The segment is empty.
    Free = 0,
    /// Writers append blocks.
    Open,
    /// The segment is full.
    Sealed,
    /// A worker copies its live blocks out.
    Evacuating,
    /// No location refers to it any more, but readers may still use it.
    Retired,
}

/// The part of the log to which a segment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Part {
    /// New items (probation).
    Small = 0,
    /// Items that were requested again.
    Main = 1,
}

/// The metadata of a segment, on two cache lines. Every write changes the first line; few writes
/// change the second. A segment of zero bytes is free. From its first opening on, the tail of a
/// segment that is not open is at its end, so that a late writer cannot append to it.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Segment {
    hot: HotFields,
    cold: ColdFields,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct HotFields {
    /// Bit 63: closed. Bits 32 to 62: number of writers that are filling blocks. Bits 0 to 31:
    /// offset of the next block.
    append_state: AtomicU64,
    /// Number of pins and waiting uploads that hold the segment for a peer.
    held: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct ColdFields {
    phase: AtomicU32,
    part: AtomicU32,
    /// Flush generation: number of flushes before the segment was opened.
    flush_generation: AtomicU32,
    /// The latest expiry of the segment's items, as [`Expiry::word`].
    expiry: AtomicU32,
    /// The second in which the segment was opened.
    opened_s: AtomicU32,
    /// Offset of the end of the last block, once the segment is full. 0: the end of the segment.
    end: AtomicU32,
    /// Number of the segment's last opening, in the sequence of openings of its part.
    opening: AtomicU32,
    /// Bytes of the segment's blocks, recorded when the segment was sealed.
    occupied: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Segment>() == 128);

// SAFETY: a segment consists of atomics. `Phase::Free` and `Part::Small` are 0, and all fields are
// 0 by default.
unsafe impl crate::region::Zeroed for Segment {}

/// Offset of the first block: location 0 means "none".
pub(crate) const FIRST_BLOCK: u32 = 8;

impl Segment {
    /// Opens a free segment. Called only by the worker that removed it from the free list.
    pub(crate) fn open(&self, part: Part, flush_generation: u32, now_s: u32, opening: u32) {
        self.cold.part.store(part as u32, Ordering::Relaxed);
        self.cold
            .flush_generation
            .store(flush_generation, Ordering::Relaxed);
        self.cold.expiry.store(0, Ordering::Relaxed);
        self.cold.opened_s.store(now_s, Ordering::Relaxed);
        self.cold.end.store(0, Ordering::Relaxed);
        self.cold.opening.store(opening, Ordering::Relaxed);
        self.set_phase(Phase::Open);
        // Release: pairs with the acquire in `allocate` and `acquire_writer`: a writer of a block sees
        // the fields above.
        self.hot
            .append_state
            .store(u64::from(FIRST_BLOCK), Ordering::Release);
    }

    /// Reserves `len` bytes for a block and holds the segment for its writer. Returns the offset of
    /// the bytes.
    ///
    /// # Errors
    /// There is no space. The error is the offset at which the bytes would have begun. The segment
    /// is held nevertheless.
    pub(crate) fn allocate(&self, len: u32, size: u32) -> Result<u32, u32> {
        // Acquire: pairs with `open`. Release: pairs with `can_be_evacuated`.
        let old_state = self
            .hot
            .append_state
            .fetch_add(WRITER_HOLD + u64::from(len), Ordering::AcqRel);
        let at = (old_state & TAIL_MASK) as u32;
        if at <= size && len <= size - at {
            Ok(at)
        } else {
            Err(at)
        }
    }

    /// Prefetches the line that every write changes. A hint.
    #[inline]
    pub(super) fn prefetch(&self) {
        crate::prefetch::line_to_write(std::ptr::from_ref(&self.hot).cast());
    }

    /// Offset of the next block.
    pub(crate) fn tail(&self) -> u32 {
        (self.hot.append_state.load(Ordering::Relaxed) & TAIL_MASK) as u32
    }

    /// Releases the hold of a writer whose block is complete.
    pub(crate) fn release_writer(&self) {
        // Release: pairs with `can_be_evacuated` and `close`: the block is complete.
        self.hot
            .append_state
            .fetch_sub(WRITER_HOLD, Ordering::Release);
    }

    /// Holds the segment for a writer that fills a hole. Returns false if the segment is closed.
    fn acquire_writer(&self) -> bool {
        let mut state = self.hot.append_state.load(Ordering::Relaxed);
        while state & CLOSED == 0 {
            let held = state + WRITER_HOLD;
            // Acquire: pairs with `open`. Release: pairs with `close`, as in `allocate`.
            match self.hot.append_state.compare_exchange_weak(
                state,
                held,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(current) => state = current,
            }
        }
        false
    }

    /// As [`acquire_writer`](Self::acquire_writer), but only if the segment's last opening is
    /// `opening`, so that a hole of that opening still exists.
    #[inline]
    pub(crate) fn acquire_writer_if_opening(&self, opening: u32) -> bool {
        if !self.acquire_writer() {
            return false;
        }
        // If the segment was closed and reopened before `acquire_writer`, the opening differs.
        // Afterwards the hold prevents closing, and so reopening, until `release_writer`.
        let is_same = self.opening() == opening;
        if !is_same {
            self.release_writer();
        }
        is_same
    }

    /// Whether the segment can be evacuated: no block can be added, no writer fills one, and the
    /// segment is not held for a peer.
    pub(crate) fn can_be_evacuated(&self, size: u32) -> bool {
        // Acquire: pairs with `release_writer`.
        let state = self.hot.append_state.load(Ordering::Acquire);
        state & TAIL_MASK >= u64::from(size) && state < WRITER_HOLD && !self.is_held()
    }

    /// Closes the segment for writers. Returns false if a writer holds it.
    pub(crate) fn close(&self) -> bool {
        let state = self.hot.append_state.load(Ordering::Relaxed);
        // Acquire: pairs with `release_writer`: the blocks to be evacuated are complete.
        let closed = self.hot.append_state.compare_exchange(
            state & TAIL_MASK,
            state & TAIL_MASK | CLOSED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        closed.is_ok()
    }

    /// Reopens the segment for writers.
    pub(crate) fn undo_close(&self) {
        // Release: pairs with `acquire_writer`.
        self.hot.append_state.fetch_and(!CLOSED, Ordering::Release);
    }

    /// The number of the segment's last opening.
    pub(crate) fn opening(&self) -> u32 {
        self.cold.opening.load(Ordering::Relaxed)
    }

    /// Records the end of the last block: no block begins at or after `at`.
    pub(crate) fn set_end(&self, at: u32) {
        self.cold.end.store(at, Ordering::Relaxed);
    }

    /// Bytes of the blocks, dead or live, of a full segment.
    pub(crate) fn occupied(&self, size: u32) -> u64 {
        let end = match self.cold.end.load(Ordering::Relaxed) {
            0 => size,
            end => end,
        };
        u64::from(end - FIRST_BLOCK)
    }

    /// Records [`occupied`](Self::occupied), which another writer may still change by setting the
    /// end, and returns it. The caller seals the segment, under the lock of the segment lists.
    pub(crate) fn record_occupied(&self, size: u32) -> u32 {
        let occupied = self.occupied(size) as u32;
        self.cold.occupied.store(occupied, Ordering::Relaxed);
        occupied
    }

    /// The bytes that [`record_occupied`](Self::record_occupied) recorded.
    pub(crate) fn recorded_occupied(&self) -> u32 {
        self.cold.occupied.load(Ordering::Relaxed)
    }

    /// Holds the segment for a peer. Returns true if it was not held before.
    pub(crate) fn hold(&self) -> bool {
        // Relaxed: the holder is online, and the segment is not reused before it is quiescent.
        self.hot.held.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Undoes [`hold`](Self::hold). Returns true if no other holds remain.
    pub(crate) fn release(&self) -> bool {
        // Release: pairs with `is_held`: the holder's reads come before the reuse.
        self.hot.held.fetch_sub(1, Ordering::Release) == 1
    }

    pub(crate) fn is_held(&self) -> bool {
        // Acquire: pairs with `release`.
        self.hot.held.load(Ordering::Acquire) > 0
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.cold.phase.load(Ordering::Relaxed) {
            0 => Phase::Free,
            1 => Phase::Open,
            2 => Phase::Sealed,
            3 => Phase::Evacuating,
            _ => Phase::Retired,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.cold.phase.store(phase as u32, Ordering::Relaxed);
    }

    pub(crate) fn part(&self) -> Part {
        if self.cold.part.load(Ordering::Relaxed) == 0 {
            Part::Small
        } else {
            Part::Main
        }
    }

    #[inline]
    pub(crate) fn flush_generation(&self) -> u32 {
        self.cold.flush_generation.load(Ordering::Relaxed)
    }

    /// The latest expiry of the segment's items.
    pub(crate) fn expiry(&self) -> Expiry {
        Expiry::from_word(self.cold.expiry.load(Ordering::Relaxed))
    }

    /// Raises the segment's expiry to that of a new block.
    pub(crate) fn raise_expiry(&self, expiry: Expiry) {
        if self.cold.expiry.load(Ordering::Relaxed) < expiry.word() {
            self.cold.expiry.fetch_max(expiry.word(), Ordering::Relaxed);
        }
    }

    pub(crate) fn opened_s(&self) -> u32 {
        self.cold.opened_s.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[cfg(loom)]
mod weak_memory;
