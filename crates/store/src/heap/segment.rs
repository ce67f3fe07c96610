//! The metadata of a segment. It determines which threads may write into the segment, and when the
//! segment may be evacuated and reused.
//!
//! A segment can be held in two ways:
//!
//! - A *writer's hold* lasts while a thread fills a block. It is counted in `append_state`, and
//!   prevents evacuation.
//! - A *hold for a peer* usually lasts while a value is sent to a peer, or arrives from one. (The
//!   peer is the client at the other end of a connection.) It belongs to a pin, which keeps a value
//!   valid, or to an upload. It is counted in `peer_holds`, and prevents the start of an
//!   evacuation. If the evacuation has already started, the hold prevents the reuse of the memory.

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The amount that one writer's hold adds to the field `append_state`.
const WRITER_HOLD: u64 = 1 << 32;
/// The bits of the tail, the offset of the next block, in `append_state`.
const TAIL_MASK: u64 = WRITER_HOLD - 1;
/// The bit of `append_state` that is set while the segment is closed: from the start of its
/// evacuation until it is opened again. While the bit is set, no hole (the space of an overwritten
/// item) of the segment may be filled.
const CLOSED: u64 = 1 << 63;

/// The phase of a segment. A segment passes through the phases in this order, and is then free
/// again. If an evacuation is abandoned, the segment is sealed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// The segment is empty.
    Free = 0,
    /// Writers append blocks.
    Open,
    /// No block can be appended. Writers may still fill holes.
    Sealed,
    /// A worker copies the live blocks to other segments.
    Evacuating,
    /// The index does not refer to the segment any more, but readers that found one of its blocks
    /// earlier may still use the block.
    Retired,
}

/// The metadata of a segment, on two cache lines. Every write changes the first line; few writes
/// change the second. If all bytes of the metadata are 0, the segment is free and was never opened.
/// Once a segment was opened, its tail is at or beyond the end of the segment in all phases except
/// `Open`. Therefore a writer that tries to append in another phase fails.
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
    /// Number of holds by pins and by unfinished uploads.
    peer_holds: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct ColdFields {
    phase: AtomicU32,
    part: AtomicU32,
    /// Number of flushes of the store before the segment was opened. If the store has been flushed
    /// since, all items of the segment are flushed.
    flush_generation: AtomicU32,
    /// The latest expiry of the segment's items, encoded by [`Expiry::word`].
    expiry: AtomicU32,
    /// The second in which the segment was opened.
    opened_s: AtomicU32,
    /// Offset of the end of the last block, set once the segment is full. 0 means that the last
    /// block ends at the end of the segment.
    end: AtomicU32,
    /// The number of the last opening of this segment. Each of the two parts of the log, small and
    /// main, numbers the openings of its segments: the small part with even numbers, the main part
    /// with odd ones. The number identifies the content of the segment, because each opening has a
    /// different number.
    opening: AtomicU32,
    /// The result of [`Segment::occupied`] when the segment was sealed.
    occupied: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Segment>() == 128);

// SAFETY: all fields are atomic integers with the default 0, so zero bytes are the default segment.
unsafe impl crate::region::Zeroed for Segment {}

/// Offset of the first block of a segment. It is not 0, because location 0 means "none".
pub(crate) const FIRST_BLOCK: u32 = 8;

impl Segment {
    /// Opens a free segment for new blocks. Called only by the worker that has removed the segment
    /// from the free list. Clears the closed bit.
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
        // Release: pairs with the acquire in `allocate` and `acquire_writer`. A writer of a block
        // sees the fields above.
        self.hot
            .append_state
            .store(u64::from(FIRST_BLOCK), Ordering::Release);
    }

    /// Allocates `len` bytes for a block by advancing the tail, and holds the segment for the
    /// writer. Returns the offset of the bytes. `size` is the size of the segment.
    ///
    /// # Errors
    /// There is no space. The error is the old tail. The tail has been advanced and the segment is
    /// held nevertheless, so the caller has to call [`release_writer`](Self::release_writer).
    pub(crate) fn allocate(&self, len: u32, size: u32) -> Result<u32, u32> {
        // Acquire: pairs with `open`. The caller publishes its writes later, by the release in
        // `release_writer`.
        let old_state = self
            .hot
            .append_state
            .fetch_add(WRITER_HOLD + u64::from(len), Ordering::Acquire);
        let at = (old_state & TAIL_MASK) as u32;
        if at <= size && len <= size - at {
            Ok(at)
        } else {
            Err(at)
        }
    }

    /// Prefetches the cache line that every write changes. A hint.
    #[inline]
    pub(super) fn prefetch(&self) {
        crate::prefetch::line_to_write(std::ptr::from_ref(&self.hot).cast());
    }

    /// Returns the tail, the offset of the next block. It may be beyond the end of the segment.
    pub(crate) fn tail(&self) -> u32 {
        (self.hot.append_state.load(Ordering::Relaxed) & TAIL_MASK) as u32
    }

    /// Releases the hold of a writer. The block that it was filling is complete, or was given up.
    pub(crate) fn release_writer(&self) {
        // Release: pairs with `can_be_evacuated` and `close`. The evacuating thread sees the
        // complete block.
        self.hot
            .append_state
            .fetch_sub(WRITER_HOLD, Ordering::Release);
    }

    /// Holds the segment for a writer that is going to fill a hole. Returns false, without holding
    /// the segment, if the segment is closed.
    fn acquire_writer(&self) -> bool {
        let mut state = self.hot.append_state.load(Ordering::Relaxed);
        while state & CLOSED == 0 {
            let held = state + WRITER_HOLD;
            // Acquire: pairs with `open` and `undo_close`. The writer publishes its block later, by
            // the release in `release_writer`.
            match self.hot.append_state.compare_exchange_weak(
                state,
                held,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(current) => state = current,
            }
        }
        false
    }

    /// Holds the segment for a writer that is going to fill a hole. `opening` is the number that
    /// the segment's last opening had when the hole was remembered. Returns false, without holding
    /// the segment, if the segment is closed, or was opened again since: then the hole no longer
    /// exists.
    #[inline]
    pub(crate) fn acquire_writer_if_opening(&self, opening: u32) -> bool {
        if !self.acquire_writer() {
            return false;
        }
        // If the segment was closed and opened again before `acquire_writer`, its opening has
        // changed. It cannot change after `acquire_writer`, because the segment cannot be closed
        // while a writer holds it.
        let is_same = self.opening() == opening;
        if !is_same {
            self.release_writer();
        }
        is_same
    }

    /// Returns true if the segment can be evacuated: no block can be appended, no writer holds the
    /// segment, it is not held for a peer, and it is not closed. `size` is the size of the segment.
    pub(crate) fn can_be_evacuated(&self, size: u32) -> bool {
        // Acquire: pairs with `release_writer`. The caller sees the complete blocks.
        let state = self.hot.append_state.load(Ordering::Acquire);
        let is_full = state & TAIL_MASK >= u64::from(size);
        // The bits above the tail are the number of writers and the closed bit.
        let has_writer_or_is_closed = state & !TAIL_MASK != 0;
        is_full && !has_writer_or_is_closed && !self.is_held()
    }

    /// Closes the segment, so that no writer can acquire it to fill a hole. Returns false if a
    /// writer holds the segment, or if it is closed already.
    pub(crate) fn close(&self) -> bool {
        let state = self.hot.append_state.load(Ordering::Relaxed);
        // The compare-exchange fails if the number of writers is not 0. Acquire: pairs with
        // `release_writer`. The blocks to be evacuated are complete.
        let closed = self.hot.append_state.compare_exchange(
            state & TAIL_MASK,
            state & TAIL_MASK | CLOSED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        closed.is_ok()
    }

    /// Clears the closed bit after an abandoned evacuation, so that holes can be filled again.
    pub(crate) fn undo_close(&self) {
        // Release: pairs with `acquire_writer`.
        self.hot.append_state.fetch_and(!CLOSED, Ordering::Release);
    }

    /// Returns the number of the segment's last opening.
    pub(crate) fn opening(&self) -> u32 {
        self.cold.opening.load(Ordering::Relaxed)
    }

    /// Records that the last block ends at offset `at`.
    pub(crate) fn set_end(&self, at: u32) {
        self.cold.end.store(at, Ordering::Relaxed);
    }

    /// Returns the total length, in bytes, of the blocks of a full segment, dead and live.
    pub(crate) fn occupied(&self, size: u32) -> u64 {
        let end = match self.cold.end.load(Ordering::Relaxed) {
            0 => size,
            end => end,
        };
        u64::from(end - FIRST_BLOCK)
    }

    /// Records the present result of [`occupied`](Self::occupied) and returns it. The record is
    /// needed because a writer that has found the segment full may call `set_end` later and so
    /// change the result. The caller is sealing the segment, under the lock of the segment lists.
    pub(crate) fn record_occupied(&self, size: u32) -> u32 {
        let occupied = self.occupied(size) as u32;
        self.cold.occupied.store(occupied, Ordering::Relaxed);
        occupied
    }

    /// Returns the bytes that [`record_occupied`](Self::record_occupied) recorded.
    pub(crate) fn recorded_occupied(&self) -> u32 {
        self.cold.occupied.load(Ordering::Relaxed)
    }

    /// Holds the segment for a peer. Returns true if it was not held for any peer before.
    pub(crate) fn hold(&self) -> bool {
        // Relaxed: other operations order this addition before the reuse of the segment.
        // - For a pin, this is the announcement of the worker that it no longer uses the memory of
        //   items (`crate::epochs`). The worker has found a block of the segment. The segment is
        //   not reused before the worker's next announcement, which comes after this addition.
        // - For an upload, this is `release_writer`, because the upload has a writer's hold, too.
        self.hot.peer_holds.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Undoes one [`hold`](Self::hold). Returns true if it was the last hold for a peer.
    pub(crate) fn release(&self) -> bool {
        // Release: pairs with `is_held`. The holder's reads come before the reuse of the memory.
        self.hot.peer_holds.fetch_sub(1, Ordering::Release) == 1
    }

    /// Returns true if the segment is held for a peer.
    pub(crate) fn is_held(&self) -> bool {
        // Acquire: pairs with `release`.
        self.hot.peer_holds.load(Ordering::Acquire) > 0
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

    /// Returns an expiry that is not before that of any item of the segment.
    pub(crate) fn expiry(&self) -> Expiry {
        Expiry::from_word(self.cold.expiry.load(Ordering::Relaxed))
    }

    /// Raises the segment's expiry to that of a new block, if the block's is later.
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
