//! What is known of a segment beside its bytes.

use crate::item::Expiry;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A writer's hold, in `fill`.
const HOLD: u64 = 1 << 32;
const TAIL_MASK: u64 = HOLD - 1;
/// It is being drained, or has been and was not opened since: nobody writes where a block was.
const CLOSED: u64 = 1 << 63;

/// What a segment is doing. It goes round: free, open, sealed, draining, retired, free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Nothing of use is in it.
    Free = 0,
    /// Blocks are added.
    Open,
    /// Full.
    Sealed,
    /// A worker copies out what shall stay.
    Evacuating,
    /// Nothing leads there any more, but somebody may still be looking.
    Retired,
}

/// Which half of the log a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Part {
    /// New items, on trial.
    Small = 0,
    /// What has been asked for again.
    Main = 1,
}

/// A segment's two lines: every write changes the first, and hardly any the second. All zero, it is
/// free and in no lane; once it was in one, it is full until it is opened again, so that who comes
/// too late adds nothing.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Segment {
    busy: Busy,
    quiet: Quiet,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Busy {
    /// Whether it is closed (highest bit), writers that are filling blocks of it (rest of the high
    /// half), and where the next block begins.
    fill: AtomicU64,
    /// Pins, and uploads that wait for their peers.
    held: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Quiet {
    phase: AtomicU32,
    part: AtomicU32,
    /// Flushes before it was opened.
    flush_generation: AtomicU32,
    /// When all that is in it will have expired; `Expiry`'s word.
    expiry: AtomicU32,
    /// The second it was opened in.
    opened_s: AtomicU32,
    /// Where its last block ends, once it is full; 0: where the segment does.
    end: AtomicU32,
    /// Which of all openings of segments was its last.
    opening: AtomicU32,
    /// Bytes of its blocks as they were counted when it was sealed.
    counted: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Segment>() == 128);

// SAFETY: atomics only; `Phase::Free` and `Part::Small` are 0, and `Default` is zeroes too.
unsafe impl crate::region::Zeroed for Segment {}

/// Where a segment's first block begins: location 0 is none.
pub(crate) const FIRST: u32 = 8;

impl Segment {
    /// Makes a free segment ready for blocks. Its opener alone may.
    pub(crate) fn open(&self, part: Part, flush_generation: u32, now_s: u32, opening: u32) {
        self.quiet.part.store(part as u32, Ordering::Relaxed);
        self.quiet
            .flush_generation
            .store(flush_generation, Ordering::Relaxed);
        self.quiet.expiry.store(0, Ordering::Relaxed);
        self.quiet.opened_s.store(now_s, Ordering::Relaxed);
        self.quiet.end.store(0, Ordering::Relaxed);
        self.quiet.opening.store(opening, Ordering::Relaxed);
        self.set_phase(Phase::Open);
        // Release: pairs with the acquire in `take` and `join`: who adds a block sees the above.
        self.busy.fill.store(u64::from(FIRST), Ordering::Release);
    }

    /// Takes `len` bytes for a block and holds the segment for its writer. Err: where the bytes
    /// would have begun; the hold is the caller's all the same.
    pub(crate) fn take(&self, len: u32, size: u32) -> Result<u32, u32> {
        // Acquire: pairs with `open`. Release: with `is_ready`.
        let before = self
            .busy
            .fill
            .fetch_add(HOLD + u64::from(len), Ordering::AcqRel);
        let at = (before & TAIL_MASK) as u32;
        if at <= size && len <= size - at {
            Ok(at)
        } else {
            Err(at)
        }
    }

    /// Asks for the line that every write changes. A hint.
    #[inline]
    pub(super) fn prefetch(&self) {
        crate::prefetch::line_to_write(std::ptr::from_ref(&self.busy).cast());
    }

    /// Where the next block would begin.
    pub(crate) fn tail(&self) -> u32 {
        (self.busy.fill.load(Ordering::Relaxed) & TAIL_MASK) as u32
    }

    /// A writer is done with its block.
    pub(crate) fn release_writer(&self) {
        // Release: pairs with `is_ready` and `close`: the block is whole.
        self.busy.fill.fetch_sub(HOLD, Ordering::Release);
    }

    /// Holds the segment for who writes where a block was before; false: it is closed.
    fn join(&self) -> bool {
        let mut fill = self.busy.fill.load(Ordering::Relaxed);
        while fill & CLOSED == 0 {
            let joined = fill + HOLD;
            // Acquire: pairs with `open`. Release: with `close`, as in `take`.
            match self.busy.fill.compare_exchange_weak(
                fill,
                joined,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => fill = now,
            }
        }
        false
    }

    /// As [`join`](Self::join), if its last opening is `opening`: a hole that was left then is
    /// still one.
    #[inline]
    pub(crate) fn join_opening(&self, opening: u32) -> bool {
        if !self.join() {
            return false;
        }
        // It was closed and opened anew before `join`, or neither happens before `release_writer`.
        let is_same = self.opening() == opening;
        if !is_same {
            self.release_writer();
        }
        is_same
    }

    /// Whether it can be drained: no block can be added, none is being filled, and nobody holds it.
    pub(crate) fn is_ready(&self, size: u32) -> bool {
        // Acquire: pairs with `release_writer`.
        let fill = self.busy.fill.load(Ordering::Acquire);
        fill & TAIL_MASK >= u64::from(size) && fill < HOLD && !self.is_held()
    }

    /// Lets no writer come any more; false: one is there.
    pub(crate) fn close(&self) -> bool {
        let fill = self.busy.fill.load(Ordering::Relaxed);
        // Acquire: pairs with `release_writer`: what is to be drained is whole.
        let closed = self.busy.fill.compare_exchange(
            fill & TAIL_MASK,
            fill & TAIL_MASK | CLOSED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        closed.is_ok()
    }

    /// Lets writers come again.
    pub(crate) fn reopen(&self) {
        // Release: pairs with `join`.
        self.busy.fill.fetch_and(!CLOSED, Ordering::Release);
    }

    /// Which of all openings of segments was its last.
    pub(crate) fn opening(&self) -> u32 {
        self.quiet.opening.load(Ordering::Relaxed)
    }

    /// No block begins at `at` or behind it.
    pub(crate) fn set_end(&self, at: u32) {
        self.quiet.end.store(at, Ordering::Relaxed);
    }

    /// Bytes of its blocks, dead or alive, once it is full.
    pub(crate) fn written(&self, size: u32) -> u64 {
        let end = match self.quiet.end.load(Ordering::Relaxed) {
            0 => size,
            end => end,
        };
        u64::from(end - FIRST)
    }

    /// As [`written`](Self::written), kept until the segment is retired: another writer may yet set
    /// the end. The caller seals the segment, under the lock of the log.
    pub(crate) fn count_written(&self, size: u32) -> u32 {
        let written = self.written(size) as u32;
        self.quiet.counted.store(written, Ordering::Relaxed);
        written
    }

    /// What was counted when it was sealed.
    pub(crate) fn counted_written(&self) -> u32 {
        self.quiet.counted.load(Ordering::Relaxed)
    }

    /// Holds it for a peer; true: it was not held before.
    pub(crate) fn hold(&self) -> bool {
        // Relaxed: the holder is online, and what frees the segment waits until it is quiescent.
        self.busy.held.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// The reverse of [`hold`](Self::hold); true: nobody else holds it.
    pub(crate) fn release(&self) -> bool {
        // Release: pairs with `is_held`: its looking comes before our use.
        self.busy.held.fetch_sub(1, Ordering::Release) == 1
    }

    pub(crate) fn is_held(&self) -> bool {
        // Acquire: pairs with `release`.
        self.busy.held.load(Ordering::Acquire) > 0
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.quiet.phase.load(Ordering::Relaxed) {
            0 => Phase::Free,
            1 => Phase::Open,
            2 => Phase::Sealed,
            3 => Phase::Evacuating,
            _ => Phase::Retired,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.quiet.phase.store(phase as u32, Ordering::Relaxed);
    }

    pub(crate) fn part(&self) -> Part {
        if self.quiet.part.load(Ordering::Relaxed) == 0 {
            Part::Small
        } else {
            Part::Main
        }
    }

    #[inline]
    pub(crate) fn flush_generation(&self) -> u32 {
        self.quiet.flush_generation.load(Ordering::Relaxed)
    }

    /// When all that is in it will have expired.
    pub(crate) fn expiry(&self) -> Expiry {
        Expiry::of_word(self.quiet.expiry.load(Ordering::Relaxed))
    }

    /// Something in it lives until then.
    pub(crate) fn raise_expiry(&self, expiry: Expiry) {
        if self.quiet.expiry.load(Ordering::Relaxed) < expiry.word() {
            self.quiet
                .expiry
                .fetch_max(expiry.word(), Ordering::Relaxed);
        }
    }

    pub(crate) fn opened_s(&self) -> u32 {
        self.quiet.opened_s.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[cfg(loom)]
mod weak_memory;
