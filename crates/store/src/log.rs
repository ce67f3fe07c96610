//! The log: where the next block goes, and where segments come from and go to.
//!
//! ```text
//!          lanes: an open segment for each stripe of workers, part and class of expiry
//! shelf ──► open ──► sealed ──► draining ──► retired ──► free ┐
//!   ▲        (drain.rs: what stays is copied to a lane)       │
//!   └─────────────────────────────────────────────────────────┘
//! ```
//!
//! Adding a block is one atomic addition to the open segment, unless it fills a hole (`freed.rs`).
//! Everything else happens once a segment, under the shelf's lock, which is never held across a
//! system call; under it no lock is taken but that of the list of seats.

mod chain;
mod content;
mod pages;
mod shelf;
mod victims;

use std::sync::PoisonError;

use chain::Links;
use shelf::Shelf;
pub(crate) use victims::{Task, Victim};

use crate::epochs::Epochs;
use crate::heap::segment::{FIRST, Part, Phase, Segment};
use crate::heap::{Heap, Number};
use crate::index::Location;
use crate::item::Expiry;
use crate::leaning::{LEANINGS, Leaning};
use crate::limits::{
    CLASSES_MAX, COPY_SEGMENTS, LIFE_MOST_S, LIFE_UNIT, LIFE_WEIGHT, OPEN_PART, RESERVE_END_PART,
    RESERVE_LEAST, RESERVE_PART, STRIPES_MAX,
};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};

/// No segment.
const NONE: Number = Number::MAX;

/// A lane's open segment, with a line to itself.
#[derive(Debug)]
#[repr(align(64))]
struct Lane(AtomicU32);

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) heap: Heap,
    epochs: Arc<Epochs>,
    lanes: Box<[Lane]>,
    stripes: usize,
    classes: usize,
    shelf: Mutex<Shelf>,
    /// Segments that may be resident.
    allowed: AtomicU32,
    /// Segments beyond those, which had content when the limit fell: they come free by and by, as
    /// writers pay, and nobody has to wait for all of them.
    lent: AtomicU32,
    /// Segments that are free, or will be without further work.
    spare: AtomicU32,
    /// The same, with those that are lent.
    within_reach: AtomicU32,
    /// Flushes so far.
    flushes: AtomicU32,
    /// There are pages to be given back or found.
    wants_tending: AtomicBool,
    /// Where looking for dead open segments goes on.
    next_lane: AtomicU32,
    /// Segments of each part opened so far.
    openings: [AtomicU32; 2],
    /// The last segment to be drained was so that items leave.
    is_evicting: AtomicBool,
    /// Which of [`LEANINGS`] decides what leaves.
    leaning: AtomicU32,
    /// A moving average, in parts of a second ([`LIFE_UNIT`]).
    usual_life: AtomicU32,
}

/// Memory taken for a block, held for its writer.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) location: Location,
    pub(crate) number: Number,
}

/// Which lane a block goes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) stripe: usize,
    pub(crate) part: Part,
    pub(crate) expiry: Expiry,
    pub(crate) now_s: u32,
    /// It is a copy of what has to stay: the last free segments are kept for these.
    pub(crate) is_copy: bool,
}

impl Log {
    /// In `heap`, of which `allowed` segments may be used for now; for `workers` at a time.
    pub(crate) fn new(heap: Heap, epochs: Arc<Epochs>, allowed: u32, workers: usize) -> Self {
        let open_max = (allowed as usize / OPEN_PART).max(2);
        let stripes = workers.clamp(1, STRIPES_MAX).min(open_max / 2);
        let classes = (open_max / (2 * stripes)).clamp(1, CLASSES_MAX);
        let lanes = 2 * stripes * classes;
        let shelf = Shelf::for_segments(heap.count() as usize);
        Self {
            heap,
            epochs,
            lanes: (0..lanes).map(|_| Lane(AtomicU32::new(NONE))).collect(),
            stripes,
            classes,
            shelf: Mutex::new(shelf),
            allowed: AtomicU32::new(allowed),
            lent: AtomicU32::new(0),
            spare: AtomicU32::new(allowed),
            within_reach: AtomicU32::new(allowed),
            flushes: AtomicU32::new(0),
            wants_tending: AtomicBool::new(true),
            next_lane: AtomicU32::new(0),
            openings: Default::default(),
            is_evicting: AtomicBool::new(false),
            leaning: AtomicU32::new(0),
            usual_life: AtomicU32::new(0),
        }
    }

    /// Flushes so far: what lies in a segment opened before the last is flushed.
    #[inline]
    pub(crate) fn flushes(&self) -> u32 {
        self.flushes.load(Ordering::Relaxed)
    }

    pub(crate) fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Segments that are wanted free.
    pub(crate) fn reserve(&self) -> u32 {
        let part = self.allowed.load(Ordering::Relaxed) / RESERVE_PART;
        // What workers drain at the same time comes free when each is done.
        part + RESERVE_LEAST + part.min(self.stripes as u32 - 1)
    }

    /// Segments that are free, or will be without further work.
    #[inline]
    pub(crate) fn spare(&self) -> u32 {
        self.spare.load(Ordering::Relaxed)
    }

    /// Whether hardly any segment is left, to somebody who waits for one or not: then nothing may
    /// stay for having been asked for, since its copy takes the segment that draining wins.
    pub(crate) fn is_at_its_end(&self, is_waiting: bool) -> bool {
        let least = match is_waiting {
            true => COPY_SEGMENTS,
            false => 0,
        };
        let left = self.within_reach.load(Ordering::Relaxed);
        left <= least.max(self.reserve() / RESERVE_END_PART)
    }

    /// Notes how long a segment of the main part that is to be drained has lived.
    pub(crate) fn note_life(&self, life_s: u32) {
        let usual = self.usual_life.load(Ordering::Relaxed);
        let life = life_s.min(LIFE_MOST_S) * LIFE_UNIT;
        // One that was drawn out moves it by no more than one of twice the usual.
        let next = match usual {
            0 => life,
            _ => usual - usual / LIFE_WEIGHT + life.min(2 * usual) / LIFE_WEIGHT,
        };
        // Another worker's may be lost to it.
        self.usual_life.store(next, Ordering::Relaxed);
    }

    /// How long segments of the main part live of late.
    pub(crate) fn usual_life_s(&self) -> u32 {
        self.usual_life.load(Ordering::Relaxed) / LIFE_UNIT
    }

    pub(crate) fn allowed(&self) -> u32 {
        self.allowed.load(Ordering::Relaxed)
    }

    /// Changes how many segments may be resident. If more have content, they are lent until they
    /// have been drained.
    pub(crate) fn allow(&self, segments: u32) {
        let segments = segments.min(self.heap.count());
        let mut shelf = self.shelf();
        if segments != self.allowed.swap(segments, Ordering::Relaxed) {
            self.lent.store(self.heap.count(), Ordering::Relaxed);
            self.collect(&mut shelf);
            // The index has grown, or there is room for more.
            self.wants_tending.store(true, Ordering::Relaxed);
        }
    }

    /// Segments lent beyond the limit.
    pub(crate) fn lent(&self) -> u32 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Takes back what has come free of the segments that were lent.
    fn take_back(&self, shelf: &Shelf) {
        let lent = self.lent();
        if lent > 0 {
            let empty = (shelf.free.len() + shelf.retired.len()) as u32;
            let wanted = shelf.resident.saturating_sub(empty) + self.reserve();
            let beyond = wanted.saturating_sub(self.allowed());
            self.lent.store(lent.min(beyond), Ordering::Relaxed);
        }
    }

    /// Segments that may be resident for now.
    fn ceiling(&self) -> u32 {
        self.allowed() + self.lent()
    }

    /// How eviction weighs what is new now.
    #[inline]
    pub(crate) fn leaning(&self) -> &'static Leaning {
        let number = self.leaning.load(Ordering::Relaxed) as usize;
        LEANINGS.get(number).unwrap_or(&LEANINGS[0])
    }

    /// Lets eviction weigh as another of [`LEANINGS`] does.
    pub(crate) fn lean(&self, number: usize) {
        self.leaning.store(number as u32, Ordering::Relaxed);
    }

    /// Segments that each part fills before its oldest goes first. Both are parts of one reading of
    /// the limit, which another thread may change at any time.
    fn shares(&self) -> [u32; 2] {
        shares_of(self.allowed(), self.leaning().small_thousandths)
    }

    /// Takes memory for a block of `len` bytes. None: no segment is free just now.
    pub(crate) fn take(&self, len: usize, way: &Way) -> Option<Taken> {
        self.take_some(len, len, way).map(|(taken, _)| taken)
    }

    /// Takes memory for a block of `least` to `most` bytes, as many as the open segment has left if
    /// that is in between. Returns how many they are.
    pub(crate) fn take_some(&self, least: usize, most: usize, way: &Way) -> Option<(Taken, usize)> {
        debug_assert!(most <= self.heap.block_max());
        let lane = &self.lanes[self.lane(way)].0;
        let size = self.heap.segment_size();
        loop {
            // Acquire: pairs with the release in `open`.
            let number = lane.load(Ordering::Acquire);
            if number == NONE || self.heap.segment(number).birth() != self.flushes() {
                self.open(lane, number, way).then_some(())?;
                continue;
            }
            let segment = self.heap.segment(number);
            let left = size.saturating_sub(segment.tail()) as usize;
            if left == 0 {
                // It is full, and must not be asked in vain for as long as no other is free: every
                // asking moves its tail on.
                self.open(lane, number, way).then_some(())?;
                continue;
            }
            let len = if left >= least {
                most.min(left & !3)
            } else {
                most
            };
            match segment.take(len as u32, size) {
                Ok(at) => {
                    segment.raise_expiry(way.expiry);
                    let location = self.heap.location(number, at)?;
                    return Some((Taken { location, number }, len));
                }
                Err(at) => {
                    self.heap_end(number, at);
                    segment.release_writer();
                    self.open(lane, number, way).then_some(())?;
                }
            }
        }
    }

    fn heap_end(&self, number: Number, at: u32) {
        // Only the first to be refused finds the tail inside.
        if at <= self.heap.segment_size() {
            self.heap.end(number, at);
            self.heap.segment(number).set_end(at);
        }
    }

    fn lane(&self, way: &Way) -> usize {
        let class = self.class(way.expiry, way.now_s);
        ((way.stripe % self.stripes) * 2 + way.part as usize) * self.classes + class
    }

    fn class(&self, expiry: Expiry, now_s: u32) -> usize {
        class_of(expiry, now_s) * self.classes / CLASSES_MAX
    }

    /// Whether a block that would go that way may lie in this segment of its part instead.
    #[inline]
    pub(crate) fn suits(&self, segment: &Segment, way: &Way) -> bool {
        let is_evicting = self.is_evicting.load(Ordering::Relaxed);
        self.suits_expiry(segment, way) && !(is_evicting && self.is_old(segment))
    }

    /// Whether it is neither flushed nor held by a peer.
    #[inline]
    pub(crate) fn is_open_to_all(&self, segment: &Segment) -> bool {
        segment.birth() == self.flushes() && !segment.is_held()
    }

    #[inline]
    fn suits_expiry(&self, segment: &Segment, way: &Way) -> bool {
        segment.expiry() == way.expiry || self.suits_other_expiry(segment, way)
    }

    /// As [`Log::suits_expiry`], of a segment that lives longer or less long than the block.
    // Inlined, its arithmetic would come before the comparison that spares it.
    #[inline(never)]
    fn suits_other_expiry(&self, segment: &Segment, way: &Way) -> bool {
        let (present, wanted) = (segment.expiry(), way.expiry);
        // It lives longer for this block by no more than that itself does from the start: or else
        // one block that is written again and again would keep the expired around it.
        let may_raise = || {
            let open_for_s = way.now_s.saturating_sub(segment.opened_s());
            let left_s = wanted.seconds_left(way.now_s);
            left_s.is_none_or(|left_s| open_for_s <= left_s)
        };
        self.class(present, way.now_s) == self.class(wanted, way.now_s)
            && (present >= wanted || may_raise())
    }

    /// Whether it is of the oldest quarter of its part: while items leave, what is written there
    /// would go before it could be asked for.
    fn is_old(&self, segment: &Segment) -> bool {
        let part = segment.part();
        let share = self.shares()[part as usize];
        // Each part counts in twos (`part_of_opening`).
        let openings = self.openings[part as usize].load(Ordering::Relaxed);
        let age = openings.wrapping_sub(segment.opening()) / 2;
        // As many as may be open at a time are not old.
        let young = (share / 4 * 3).max((self.stripes * self.classes) as u32);
        age > young
    }

    /// Puts a free segment in the place of `full` in a lane; false: none is free. True as well if
    /// another worker has done so.
    fn open(&self, lane: &AtomicU32, full: Number, way: &Way) -> bool {
        let mut shelf = self.shelf();
        if lane.load(Ordering::Relaxed) != full {
            return true;
        }
        let Some(number) = self.next_free(&mut shelf, way.is_copy) else {
            return false;
        };
        let segment = self.heap.segment(number);
        // As `part_of_opening` reads it.
        let openings = &self.openings[way.part as usize];
        let opening = openings.load(Ordering::Relaxed).wrapping_add(2) & !1 | way.part as u32;
        openings.store(opening, Ordering::Relaxed);
        debug_assert_eq!(self.heap.live.sum(number), 0, "what came and left");
        self.heap.live.clear(number);
        segment.open(way.part, self.flushes(), way.now_s, opening);
        // Release: pairs with the acquire in `take_some`: who adds to it sees it open.
        lane.store(number, Ordering::Release);
        self.seal(&mut shelf, full);
        true
    }

    /// Nothing more is added to a segment that was open.
    fn seal(&self, shelf: &mut Shelf, number: Number) {
        if number == NONE {
            return;
        }
        let segment = self.heap.segment(number);
        let size = self.heap.segment_size();
        if segment.tail() < size {
            if let Err(at) = segment.take(size, size) {
                self.heap_end(number, at);
            }
            segment.release_writer();
        }
        segment.set_phase(Phase::Sealed);
        shelf.written += u64::from(segment.count_written(size));
        shelf.sealed[segment.part() as usize].push_last(&mut shelf.links, number);
    }

    fn next_free(&self, shelf: &mut Shelf, is_copy: bool) -> Option<Number> {
        self.collect(shelf);
        if !self.is_enough(shelf, is_copy) {
            return None;
        }
        let number = match shelf.free.pop() {
            Some(number) => number,
            None => {
                let number = self.next_other(shelf)?;
                shelf.resident += 1;
                number
            }
        };
        let is_short = (shelf.free.len() as u32) < self.reserve();
        if is_short && !shelf.absent.is_empty() && self.room(shelf) > 0 {
            self.wants_tending.store(true, Ordering::Relaxed);
        }
        self.count_spare(shelf);
        Some(number)
    }

    /// A segment that does not count as resident, rather one that has its pages.
    fn next_other(&self, shelf: &mut Shelf) -> Option<Number> {
        // What is on its way out is still there.
        if let Some(number) = shelf.leaving.pop() {
            return Some(number);
        }
        if shelf.fresh >= shelf.populated
            && let Some(number) = shelf.absent.pop()
        {
            return Some(number);
        }
        if shelf.fresh == self.heap.count() {
            return None;
        }
        shelf.fresh += 1;
        shelf.links.push(Links::NONE);
        if shelf.fresh + self.reserve() > shelf.populated {
            self.wants_tending.store(true, Ordering::Relaxed);
        }
        Some(shelf.fresh - 1)
    }

    /// Sorts segments whose time has come, and sees to it that no more are resident than may.
    fn collect(&self, shelf: &mut Shelf) {
        while let Some(&(number, stamp)) = shelf.retired.front() {
            if !self.epochs.is_over(stamp) {
                break;
            }
            shelf.retired.pop_front();
            shelf.held.push(number);
        }
        let heap = &self.heap;
        let free = &mut shelf.free;
        shelf.held.retain(|&number| {
            let segment = heap.segment(number);
            let is_held = segment.is_held();
            if !is_held {
                segment.set_phase(Phase::Free);
                free.push(number);
            }
            is_held
        });
        self.take_back(shelf);
        while shelf.resident > self.ceiling()
            && let Some(number) = shelf.free.pop()
        {
            shelf.leaving.push(number);
            shelf.resident -= 1;
            self.wants_tending.store(true, Ordering::Relaxed);
        }
        self.count_spare(shelf);
    }

    fn count_spare(&self, shelf: &Shelf) {
        let coming = (shelf.free.len() + shelf.retired.len()) as u32;
        let left = |bound: u32| (coming + bound).saturating_sub(shelf.resident);
        self.spare.store(left(self.allowed()), Ordering::Relaxed);
        self.within_reach
            .store(left(self.ceiling()), Ordering::Relaxed);
    }

    /// Whether a segment may be taken: for what is new, not one of the last.
    fn is_enough(&self, shelf: &Shelf, is_copy: bool) -> bool {
        let kept = if is_copy { 0 } else { COPY_SEGMENTS };
        shelf.free.len() as u32 + self.room(shelf) > kept
    }

    /// Segments that may become resident.
    fn room(&self, shelf: &Shelf) -> u32 {
        let given_back = shelf.leaving.len() + shelf.absent.len();
        let never_used = self.heap.count() - shelf.fresh;
        self.ceiling()
            .saturating_sub(shelf.resident)
            .min(given_back as u32 + never_used)
    }

    /// Whether a segment is free for what is new.
    pub(crate) fn is_one_free(&self) -> bool {
        let mut shelf = self.shelf();
        self.collect(&mut shelf);
        self.is_enough(&shelf, false)
    }

    /// Whether a segment is free, or will be when others have been quiescent or let go, or
    /// when the pages of one that was given back have been found.
    pub(crate) fn is_one_coming(&self, is_copy: bool) -> bool {
        let mut shelf = self.shelf();
        self.collect(&mut shelf);
        let is_coming = !shelf.retired.is_empty() || (!is_copy && shelf.returning > 0);
        is_coming || self.is_enough(&shelf, is_copy)
    }

    /// Seals an open segment in which all is dead, if the next to be looked at is one.
    pub(crate) fn seal_the_dead(&self, now_s: u32) {
        let next = self.next_lane.fetch_add(1, Ordering::Relaxed) as usize;
        let lane = &self.lanes[next % self.lanes.len()].0;
        let number = lane.load(Ordering::Relaxed);
        if number == NONE {
            return;
        }
        let segment = self.heap.segment(number);
        let is_flushed = segment.birth() != self.flushes();
        if segment.tail() > FIRST && (is_flushed || segment.expiry().is_past(now_s)) {
            let shelf = &mut *self.shelf();
            if lane.load(Ordering::Relaxed) == number {
                lane.store(NONE, Ordering::Relaxed);
                self.seal(shelf, number);
            }
        }
    }

    /// A segment that was being drained leads nowhere any more.
    pub(crate) fn retire(&self, number: Number) {
        let segment = self.heap.segment(number);
        segment.set_phase(Phase::Retired);
        let stamp = self.epochs.retire();
        let mut shelf = self.shelf();
        shelf.written -= u64::from(segment.counted_written());
        shelf.retired.push_back((number, stamp));
        self.collect(&mut shelf);
    }

    /// A segment will not be drained to its end now.
    pub(crate) fn give_up(&self, number: Number) {
        let segment = self.heap.segment(number);
        let shelf = &mut *self.shelf();
        // Not before the lock is held: who looks for victims goes by it.
        segment.set_phase(Phase::Sealed);
        segment.reopen();
        shelf.sealed[segment.part() as usize].push_first(&mut shelf.links, number);
    }

    /// Segments that are resident.
    pub(crate) fn resident(&self) -> u32 {
        let shelf = self.shelf();
        shelf.resident + shelf.leaving.len() as u32
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Nothing panics half way through a change of the shelf.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shares_of(allowed: u32, small_thousandths: u64) -> [u32; 2] {
    let small = (u64::from(allowed) * small_thousandths / 1000) as u32;
    [small, allowed - small]
}

/// The part of a segment with this opening: even numbers are those of the small one.
pub(crate) fn part_of_opening(opening: u32) -> Part {
    match opening % 2 {
        0 => Part::Small,
        _ => Part::Main,
    }
}

/// Items that expire at about the same time lie together. Each class spans six times as long as the
/// one before, from ten seconds on.
fn class_of(expiry: Expiry, now_s: u32) -> usize {
    let Some(left_s) = expiry.seconds_left(now_s) else {
        return CLASSES_MAX - 1;
    };
    let mut bound_s = 10_u64;
    for class in 0..CLASSES_MAX - 1 {
        if u64::from(left_s) <= bound_s {
            return class;
        }
        bound_s *= 6;
    }
    CLASSES_MAX - 1
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
