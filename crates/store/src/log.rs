//! The log: appends blocks to open segments, and moves segments through their life cycle.
//!
//! ```text
//!          one open segment for each stripe of workers, part and expiry class
//! free ──► open ──► sealed ──► evacuating ──► retired ──► free
//!                   (evacuation.rs: blocks to keep are copied to an open segment)
//! ```
//!
//! To append a block, a worker makes one atomic addition to the tail of the open segment. All other
//! steps happen once per segment, under the lock of the segment lists, and make no system calls. A
//! worker that has this lock takes no other lock, except that of the list in `epochs.rs`. A block
//! may also be written into a *hole*, the space of an overwritten or deleted item
//! (`worker/holes.rs`), instead of being appended. A *stripe* is a group of workers that share open
//! segments. The *parts* are the two queues of S3-FIFO: small for new items, main for those
//! requested again (`evacuation.rs`). An *expiry class* is a range of times to live (`class_of`). A
//! segment is *resident* while it may have pages of memory.

mod allocation;
mod content;
pub(crate) mod draft;
mod eviction;
mod flush;
mod pages;
mod reclaim_time;
mod reuse;
mod segment_list;
mod segment_lists;
mod victims;

use std::sync::PoisonError;

pub(crate) use allocation::{AllocTarget, Allocation};
use flush::Flushes;
use segment_list::Links;
use segment_lists::SegmentLists;
pub(crate) use victims::{EvacuationReason, Gain, Victim};

use crate::epochs::Epochs;
use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::segment::{FIRST_BLOCK, Phase};
use crate::heap::{Heap, SegmentNumber};
use crate::limits::{
    CLASSES_MAX, COPY_RESERVE, OPEN_PART, RESERVE_CRITICAL_PART, RESERVE_MIN, RESERVE_PART,
    STRIPES_MAX,
};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};

/// The segment number that means "no segment".
const NONE: SegmentNumber = SegmentNumber::MAX;

/// The number of an open segment, or [`NONE`], on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct OpenSegment(AtomicU32);

/// The log of a store: all its segments, open or not.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) heap: Heap,
    epochs: Arc<Epochs>,
    /// The open segments, ordered by stripe, then part, then expiry class.
    open_segments: Box<[OpenSegment]>,
    /// Number of stripes, the groups of workers that share open segments.
    stripes: usize,
    /// Number of expiry classes.
    classes: usize,
    lists: Mutex<SegmentLists>,
    /// Number of segments that may be resident under the memory limit.
    segment_limit: AtomicU32,
    /// Number of segments that may be resident in addition to `segment_limit`. When the limit is
    /// lowered, more segments may have content than the new limit allows. Writers evacuate the
    /// excess step by step, so that no writer has to wait until all of it is evacuated.
    over_limit: AtomicU32,
    /// Number of segments that writers can get without further evacuation and without waiting for a
    /// pin to be dropped, if at most `segment_limit` segments are resident.
    available: AtomicU32,
    /// The same number if at most `segment_limit + over_limit` segments are resident.
    allocatable: AtomicU32,
    flushes: Flushes,
    /// Whether the maintenance thread has work (`log/pages.rs`) or has to sleep for less time
    /// (`log/reclaim_time.rs`).
    needs_page_maintenance: AtomicBool,
    /// The earliest second at which a segment may be reclaimable (`log/reclaim_time.rs`).
    reclaim_s: AtomicU32,
    /// Number of calls of `seal_expired`. Modulo the length of `open_segments`, it is the index of
    /// the open segment that the next call examines.
    next_open_segment: AtomicU32,
    /// For each part, the *opening number* of the segment opened last. Each opening increases it by
    /// 2; its lowest bit is the part. The number distinguishes one use of a segment from later uses
    /// (`worker/holes.rs`), and gives the age of the segment (`log/reuse.rs`).
    openings: [AtomicU32; 2],
    /// Whether the segment that was most recently selected for evacuation was selected to evict its
    /// items, and not because it has few live bytes.
    is_evicting: AtomicBool,
    /// Index of the current policy in [`POLICIES`](crate::eviction_policy::POLICIES).
    eviction_policy: AtomicU32,
    /// The number of segments that the largest item written so far takes, or 0 if every item fits
    /// into a block.
    largest_item: AtomicU32,
    /// The `MeanLifetime` of main-part segments.
    mean_lifetime: AtomicU32,
}

impl Log {
    /// Creates a log in the segments of `heap`, of which up to `segment_limit` may be resident, for
    /// `workers` concurrent workers.
    pub(crate) fn new(heap: Heap, epochs: Arc<Epochs>, segment_limit: u32, workers: usize) -> Self {
        // Each stripe has an open segment for each of the two parts and each class.
        let open_max = (segment_limit as usize / OPEN_PART).max(2);
        let stripes = workers.clamp(1, STRIPES_MAX).min(open_max / 2);
        let classes = (open_max / (2 * stripes)).clamp(1, CLASSES_MAX);
        let open_segments = 2 * stripes * classes;
        let lists = SegmentLists::with_capacity(heap.count() as usize);
        Self {
            heap,
            epochs,
            open_segments: (0..open_segments)
                .map(|_| OpenSegment(AtomicU32::new(NONE)))
                .collect(),
            stripes,
            classes,
            lists: Mutex::new(lists),
            segment_limit: AtomicU32::new(segment_limit),
            over_limit: AtomicU32::new(0),
            available: AtomicU32::new(segment_limit),
            allocatable: AtomicU32::new(segment_limit),
            flushes: Flushes::new(),
            needs_page_maintenance: AtomicBool::new(true),
            reclaim_s: AtomicU32::new(Expiry::NEVER.word()),
            next_open_segment: AtomicU32::new(0),
            openings: Default::default(),
            is_evicting: AtomicBool::new(false),
            eviction_policy: AtomicU32::new(0),
            largest_item: AtomicU32::new(0),
            mean_lifetime: AtomicU32::new(0),
        }
    }

    /// Returns the number of flushes so far. A segment opened before the last flush contains only
    /// flushed items.
    #[inline]
    pub(crate) fn flush_count(&self) -> u32 {
        self.flushes.count()
    }

    /// Performs the delayed flush if it is due, and returns the number of flushes so far.
    #[inline]
    pub(crate) fn perform_due_flush(&self, now_s: u32) -> u32 {
        self.flushes.perform_due(now_s)
    }

    /// Invalidates all items that were written before second `at_s`, once that second has come. If
    /// `at_s` is not in the future, invalidates all present items immediately. Replaces a delayed
    /// flush that is not due yet.
    pub(crate) fn flush(&self, at_s: u32, now_s: u32) {
        self.flushes.flush(at_s, now_s);
    }

    /// Returns the reserve, the low watermark of free segments. While fewer segments are available,
    /// writers evacuate.
    pub(crate) fn reserve(&self) -> u32 {
        let fraction = self.segment_limit.load(Ordering::Relaxed) / RESERVE_PART;
        // One worker of each stripe may be evacuating a segment, which becomes free only at the end
        // of the evacuation. `RESERVE_MIN` includes one such segment.
        fraction + RESERVE_MIN + fraction.min(self.stripes as u32 - 1)
    }

    /// Returns the number of available segments (the field `available`).
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.available.load(Ordering::Relaxed)
    }

    /// Returns true if the number of allocatable segments is at or below the critical watermark,
    /// which is at least `COPY_RESERVE` if a writer waits for memory (`is_waiting`). At or below
    /// the watermark, eviction ignores access frequency, because copies of frequently requested
    /// items would use up the segments that evacuation gains.
    pub(crate) fn is_critical(&self, is_waiting: bool) -> bool {
        let threshold = match is_waiting {
            true => COPY_RESERVE,
            false => 0,
        };
        let left = self.allocatable.load(Ordering::Relaxed);
        left <= threshold.max(self.reserve() / RESERVE_CRITICAL_PART)
    }

    /// Returns the number of segments that may be resident under the memory limit.
    pub(crate) fn segment_limit(&self) -> u32 {
        self.segment_limit.load(Ordering::Relaxed)
    }

    /// Changes the number of segments that may be resident. If more segments than that have
    /// content, they stay in use until they are evacuated.
    pub(crate) fn set_segment_limit(&self, segments: u32) {
        let segments = segments.min(self.heap.count());
        let mut lists = self.lists();
        if segments != self.segment_limit.swap(segments, Ordering::Relaxed) {
            // `reclaim_retired` lowers this to the number that is needed (`update_over_limit`).
            self.over_limit.store(self.heap.count(), Ordering::Relaxed);
            self.reclaim_retired(&mut lists);
            // Segments may have to be discarded, or more segments may be populated.
            self.needs_page_maintenance.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of segments that may be resident in addition to the limit.
    pub(crate) fn over_limit(&self) -> u32 {
        self.over_limit.load(Ordering::Relaxed)
    }

    /// Lowers `over_limit` to the number of segments that are still needed above the limit: those
    /// with content, and a reserve.
    fn update_over_limit(&self, lists: &SegmentLists) {
        let over_limit = self.over_limit();
        if over_limit > 0 {
            let empty = (lists.free.len() + lists.retired.len()) as u32;
            let needed = lists.resident.saturating_sub(empty) + self.reserve();
            let excess = needed.saturating_sub(self.segment_limit());
            self.over_limit
                .store(over_limit.min(excess), Ordering::Relaxed);
        }
    }

    /// Returns the number of segments that may be resident at the moment.
    fn resident_max(&self) -> u32 {
        self.segment_limit() + self.over_limit()
    }

    /// Allocates memory for a block of `len` bytes. `None` if a new segment is needed and none is
    /// free.
    pub(crate) fn allocate(&self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        self.allocate_between(len, len, target)
            .map(|(allocation, _)| allocation)
    }

    /// Allocates memory for a block of `len_min` to `len_max` bytes: `len_max` bytes, or all space
    /// left in the open segment if that is less, but at least `len_min`. Also returns the length of
    /// the block. `None` if a new segment is needed and none is free.
    pub(crate) fn allocate_between(
        &self,
        len_min: usize,
        len_max: usize,
        target: &AllocTarget,
    ) -> Option<(Allocation, usize)> {
        debug_assert!(len_max <= self.heap.block_max());
        let open_segment = &self.open_segments[self.open_segment_index(target)].0;
        let size = self.heap.segment_size();
        loop {
            // Acquire: pairs with the release in `replace_open_segment`, so the metadata are
            // visible.
            let number = open_segment.load(Ordering::Acquire);
            // A segment opened before a flush is not used, because new items in it would count as
            // flushed.
            if number == NONE || self.heap.segment(number).flush_generation() != self.flush_count()
            {
                self.replace_open_segment(open_segment, number, target)
                    .then_some(())?;
                continue;
            }
            let segment = self.heap.segment(number);
            let space_left = size.saturating_sub(segment.tail()) as usize;
            if space_left == 0 {
                // The segment is full. Do not call `Segment::allocate`, because each call advances
                // the tail, and the tail would wrap after many calls while no segment is free.
                self.replace_open_segment(open_segment, number, target)
                    .then_some(())?;
                continue;
            }
            let len = if space_left >= len_min {
                // Blocks are aligned to four bytes.
                len_max.min(space_left & !3)
            } else {
                // `len_max` is more than the space left, so the allocation fails and the segment is
                // replaced.
                len_max
            };
            match segment.allocate(len as u32, size) {
                Ok(at) => {
                    segment.raise_expiry(target.expiry);
                    let location = self.heap.location(number, at)?;
                    return Some((Allocation { location, number }, len));
                }
                Err(at) => {
                    self.mark_end(number, at);
                    segment.release_writer();
                    self.replace_open_segment(open_segment, number, target)
                        .then_some(())?;
                }
            }
        }
    }

    /// Marks the end of the last block of a full segment, if this is the first failed allocation.
    /// `at` is the tail that the allocation found.
    fn mark_end(&self, number: SegmentNumber, at: u32) {
        // The first allocation that fails advances the tail beyond the end of the segment. Later
        // allocations find the tail there, so only the first finds it at or before the end.
        if at <= self.heap.segment_size() {
            self.heap.write_end(number, at);
            self.heap.segment(number).set_end(at);
        }
    }

    /// Returns the index in `open_segments` of the segment for a block.
    fn open_segment_index(&self, target: &AllocTarget) -> usize {
        let class = self.class(target.expiry, target.now_s);
        ((target.stripe % self.stripes) * 2 + target.part as usize) * self.classes + class
    }

    /// Returns the expiry class of an item among the `classes` of this log.
    fn class(&self, expiry: Expiry, now_s: u32) -> usize {
        class_of(expiry, now_s) * self.classes / CLASSES_MAX
    }

    /// Replaces the open segment `current`, which is full or flushed, by a free one, and seals
    /// `current`. Returns true if the segment was replaced by this worker, or meanwhile by another
    /// one. Returns false if no segment is free. `current` is `NONE` if no segment was open.
    fn replace_open_segment(
        &self,
        open_segment: &AtomicU32,
        current: SegmentNumber,
        target: &AllocTarget,
    ) -> bool {
        let mut lists = self.lists();
        if open_segment.load(Ordering::Relaxed) != current {
            return true;
        }
        let Some(number) = self.take_free_segment(&mut lists, target.is_copy) else {
            return false;
        };
        let segment = self.heap.segment(number);
        // The next number whose lowest bit is the part (`part_of_opening`).
        let openings = &self.openings[target.part as usize];
        let opening = openings.load(Ordering::Relaxed).wrapping_add(2) & !1 | target.part as u32;
        openings.store(opening, Ordering::Relaxed);
        debug_assert_eq!(
            self.heap.live.sum(number),
            0,
            "a segment with live bytes was free"
        );
        self.heap.live.clear(number);
        segment.open(target.part, self.flush_count(), target.now_s, opening);
        self.note_opened(target.expiry);
        // Release: pairs with the acquire in `allocate_between`. A writer that loads this number
        // sees the metadata that `Segment::open` has stored.
        open_segment.store(number, Ordering::Release);
        self.seal(&mut lists, current);
        true
    }

    /// Seals a segment that was open, so that no block can be appended, and adds it to the list of
    /// sealed segments. Does nothing for `NONE`.
    fn seal(&self, lists: &mut SegmentLists, number: SegmentNumber) {
        if number == NONE {
            return;
        }
        let segment = self.heap.segment(number);
        let size = self.heap.segment_size();
        // Advance the tail to the end of the segment, unless a failed allocation has done so. An
        // allocation of the size of a segment always fails here, and advances the tail.
        if segment.tail() < size {
            if let Err(at) = segment.allocate(size, size) {
                self.mark_end(number, at);
            }
            segment.release_writer();
        }
        segment.set_phase(Phase::Sealed);
        lists.bytes_occupied += u64::from(segment.record_occupied(size));
        lists.sealed[segment.part() as usize].push_last(&mut lists.links, number);
    }

    /// Takes a segment that may be opened: a free one, or one that becomes resident. `None` if no
    /// segment may be allocated.
    fn take_free_segment(&self, lists: &mut SegmentLists, is_copy: bool) -> Option<SegmentNumber> {
        self.reclaim_retired(lists);
        if !self.can_allocate(lists, is_copy) {
            return None;
        }
        let number = match lists.free.pop() {
            Some(number) => number,
            None => {
                let number = self.take_non_resident(lists)?;
                lists.resident += 1;
                number
            }
        };
        let is_short = (lists.free.len() as u32) < self.reserve();
        if is_short && !lists.absent.is_empty() && self.resident_headroom(lists) > 0 {
            self.needs_page_maintenance.store(true, Ordering::Relaxed);
        }
        self.update_available(lists);
        Some(number)
    }

    /// Takes an empty segment that does not count as resident, preferably one that still has its
    /// pages. `None` if there is none.
    fn take_non_resident(&self, lists: &mut SegmentLists) -> Option<SegmentNumber> {
        // A segment in `to_discard` still has its pages. Unused segments below `first_unpopulated`
        // have pages too, so they are taken before the absent ones.
        if let Some(number) = lists.to_discard.pop() {
            return Some(number);
        }
        if lists.first_unused >= lists.first_unpopulated
            && let Some(number) = lists.absent.pop()
        {
            return Some(number);
        }
        if lists.first_unused == self.heap.count() {
            return None;
        }
        lists.first_unused += 1;
        lists.links.push(Links::NONE);
        if lists.first_unused + self.reserve() > lists.first_unpopulated {
            self.needs_page_maintenance.store(true, Ordering::Relaxed);
        }
        Some(lists.first_unused - 1)
    }

    /// Moves retired segments to the free list under two conditions. Their stamp (`epochs.rs`) has
    /// passed, which means that every worker has been quiescent since they were retired. And no pin
    /// or upload holds them. Segments that meet only the first condition wait in the list `held`.
    /// Then, while more segments are resident than allowed, moves free segments to the list of
    /// segments to be discarded.
    fn reclaim_retired(&self, lists: &mut SegmentLists) {
        while let Some(&(number, stamp)) = lists.retired.front() {
            if !self.epochs.has_passed(stamp) {
                break;
            }
            lists.retired.pop_front();
            lists.held.push(number);
        }
        let heap = &self.heap;
        let free = &mut lists.free;
        lists.held.retain(|&number| {
            let segment = heap.segment(number);
            let is_held = segment.is_held();
            if !is_held {
                segment.set_phase(Phase::Free);
                free.push(number);
            }
            is_held
        });
        self.update_over_limit(lists);
        while lists.resident > self.resident_max()
            && let Some(number) = lists.free.pop()
        {
            lists.to_discard.push(number);
            lists.resident -= 1;
            self.needs_page_maintenance.store(true, Ordering::Relaxed);
        }
        self.update_available(lists);
    }

    /// Recomputes `available` and `allocatable`.
    fn update_available(&self, lists: &SegmentLists) {
        let free_soon = (lists.free.len() + lists.retired.len()) as u32;
        // The segments that are free soon, and `bound - resident` that may become resident.
        let count = |bound: u32| (free_soon + bound).saturating_sub(lists.resident);
        self.available
            .store(count(self.segment_limit()), Ordering::Relaxed);
        self.allocatable
            .store(count(self.resident_max()), Ordering::Relaxed);
    }

    /// Returns true if a segment may be taken for a new block, or for a copy if `is_copy` is true.
    /// The last free segments are reserved for copies.
    fn can_allocate(&self, lists: &SegmentLists, is_copy: bool) -> bool {
        let reserved = if is_copy { 0 } else { COPY_RESERVE };
        lists.free.len() as u32 + self.resident_headroom(lists) > reserved
    }

    /// Returns the number of segments that may become resident in addition to the resident ones.
    fn resident_headroom(&self, lists: &SegmentLists) -> u32 {
        let discarded = lists.to_discard.len() + lists.absent.len();
        let never_used = self.heap.count() - lists.first_unused;
        self.resident_max()
            .saturating_sub(lists.resident)
            .min(discarded as u32 + never_used)
    }

    /// Returns true if a segment is free for a new block.
    pub(crate) fn has_free_segment(&self) -> bool {
        let mut lists = self.lists();
        self.reclaim_retired(&mut lists);
        self.can_allocate(&lists, false)
    }

    /// Returns true if a segment is free for a new block, or is *pending*: it becomes free as soon
    /// as other workers have been quiescent, or as soon as it has been populated.
    pub(crate) fn has_free_or_pending_segment(&self) -> bool {
        self.is_free_or_pending(false)
    }

    /// As [`Log::has_free_or_pending_segment`], for a copy made by evacuation. A segment that is
    /// being populated does not count.
    pub(crate) fn has_free_or_pending_segment_for_copy(&self) -> bool {
        self.is_free_or_pending(true)
    }

    /// Returns true if a segment would be free for a new block if pins and uploads held none.
    pub(crate) fn would_be_free_without_pins(&self) -> bool {
        let lists = self.lists();
        (lists.free.len() + lists.held.len()) as u32 + self.resident_headroom(&lists) > COPY_RESERVE
    }

    /// Does the work of the two functions whose names begin with `has_free_or_pending`.
    fn is_free_or_pending(&self, is_copy: bool) -> bool {
        let mut lists = self.lists();
        self.reclaim_retired(&mut lists);
        let is_pending = !lists.retired.is_empty() || (!is_copy && lists.populating > 0);
        is_pending || self.can_allocate(&lists, is_copy)
    }

    /// The number of segments that may be open at a time.
    pub(crate) fn open_segment_count(&self) -> usize {
        self.open_segments.len()
    }

    /// Examines one open segment, a different one at each call. Seals it if all its items have
    /// expired or been flushed, so that it can be evacuated.
    pub(crate) fn seal_expired(&self, now_s: u32) {
        let next = self.next_open_segment.fetch_add(1, Ordering::Relaxed) as usize;
        let open_segment = &self.open_segments[next % self.open_segments.len()].0;
        let number = open_segment.load(Ordering::Relaxed);
        if number == NONE {
            return;
        }
        let segment = self.heap.segment(number);
        let is_flushed = segment.flush_generation() != self.flush_count();
        if segment.tail() > FIRST_BLOCK && (is_flushed || segment.expiry().is_past(now_s)) {
            let lists = &mut *self.lists();
            if open_segment.load(Ordering::Relaxed) == number {
                open_segment.store(NONE, Ordering::Relaxed);
                self.seal(lists, number);
            }
        }
    }

    /// Retires an evacuated segment, to which no index entry refers any more. The segment becomes
    /// free once no reader, pin or upload can access it.
    pub(crate) fn retire(&self, number: SegmentNumber) {
        let segment = self.heap.segment(number);
        segment.set_phase(Phase::Retired);
        let stamp = self.epochs.retire();
        let mut lists = self.lists();
        lists.bytes_occupied -= u64::from(segment.recorded_occupied());
        lists.retired.push_back((number, stamp));
        self.reclaim_retired(&mut lists);
    }

    /// Gives up the evacuation of a segment that is only partly evacuated. The segment is sealed
    /// again, and becomes the first in the list of its part.
    pub(crate) fn abandon(&self, number: SegmentNumber) {
        let segment = self.heap.segment(number);
        let lists = &mut *self.lists();
        // The phase is set under the lock of the lists, because the search for victims reads it
        // under this lock, and expects each sealed segment in its list.
        segment.set_phase(Phase::Sealed);
        segment.undo_close();
        lists.sealed[segment.part() as usize].push_first(&mut lists.links, number);
    }

    fn lists(&self) -> MutexGuard<'_, SegmentLists> {
        // No code panics while the lists are inconsistent.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the part of the segment with this opening number. Numbers of the small part are even,
/// and numbers of the main part odd.
pub(crate) fn part_of_opening(opening: u32) -> Part {
    match opening % 2 {
        0 => Part::Small,
        _ => Part::Main,
    }
}

/// Returns the expiry class of an item. Items of one class have similar expiry and are stored
/// together, so that all items of a segment expire at about the same time. The first class is for
/// items that expire within ten seconds. The time limit of each further class is six times that of
/// the class before it. The last class has no limit: it includes items that never expire.
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
