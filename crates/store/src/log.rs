//! The log: where the next block is written, and the life cycle of segments.
//!
//! ```text
//!          an open segment for each stripe of workers, part and class of expiry
//! free ──► open ──► sealed ──► evacuating ──► retired ──► free
//!                   (evacuate.rs: blocks to keep are copied to an open segment)
//! ```
//!
//! Adding a block is one atomic addition to the open segment, unless it fills a hole (`holes.rs`).
//! Everything else happens once per segment, under the lock of the segment lists. That lock is
//! never held across a system call, and under it only the lock of the worker slots is taken.

mod content;
mod pages;
mod reuse;
mod segment_list;
mod segment_lists;
mod victims;

use std::sync::PoisonError;

use segment_list::Links;
use segment_lists::SegmentLists;
pub(crate) use victims::{Task, Victim};

use crate::epochs::Epochs;
use crate::eviction_policy::{EvictionPolicy, POLICIES};
use crate::heap::segment::{FIRST_BLOCK, Part, Phase};
use crate::heap::{Heap, SegmentNumber};
use crate::index::Location;
use crate::item::Expiry;
use crate::limits::{
    CLASSES_MAX, COPY_RESERVE, LIFETIME_MAX_S, LIFETIME_UNIT, LIFETIME_WEIGHT, OPEN_PART,
    RESERVE_CRITICAL_PART, RESERVE_MIN, RESERVE_PART, STRIPES_MAX,
};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};

/// No segment.
const NONE: SegmentNumber = SegmentNumber::MAX;

/// The number of an open segment, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct OpenSegment(AtomicU32);

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) heap: Heap,
    epochs: Arc<Epochs>,
    open_segments: Box<[OpenSegment]>,
    stripes: usize,
    classes: usize,
    lists: Mutex<SegmentLists>,
    /// Segments that may be resident.
    segment_limit: AtomicU32,
    /// Segments above `segment_limit` that had content when the limit was lowered. Writers evacuate
    /// them step by step, so that no writer has to wait for all of them.
    over_limit: AtomicU32,
    /// Segments that are free or become free without further evacuation.
    available: AtomicU32,
    /// As `available`, including segments above the limit.
    allocatable: AtomicU32,
    /// Number of flushes.
    flushes: AtomicU32,
    /// Pages have to be discarded or populated.
    needs_page_maintenance: AtomicBool,
    /// Position of the search for open segments without live items.
    next_open_segment: AtomicU32,
    /// Number of segments opened in each part.
    openings: [AtomicU32; 2],
    /// The evacuation selected last may evict items.
    is_evicting: AtomicBool,
    /// Index of the current policy in [`POLICIES`].
    eviction_policy: AtomicU32,
    /// Moving average of the lifetime of segments, in units of [`LIFETIME_UNIT`].
    mean_lifetime: AtomicU32,
}

/// Memory allocated for a block. Its segment is held for the writer.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) location: Location,
    pub(crate) number: SegmentNumber,
}

/// Selects the open segment for a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocTarget {
    pub(crate) stripe: usize,
    pub(crate) part: Part,
    pub(crate) expiry: Expiry,
    pub(crate) now_s: u32,
    /// The block is a copy during evacuation, for which the last free segments are reserved.
    pub(crate) is_copy: bool,
}

impl Log {
    /// Creates a log in `heap`, with `segment_limit` usable segments, for `workers` concurrent
    /// workers.
    pub(crate) fn new(heap: Heap, epochs: Arc<Epochs>, segment_limit: u32, workers: usize) -> Self {
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
            flushes: AtomicU32::new(0),
            needs_page_maintenance: AtomicBool::new(true),
            next_open_segment: AtomicU32::new(0),
            openings: Default::default(),
            is_evicting: AtomicBool::new(false),
            eviction_policy: AtomicU32::new(0),
            mean_lifetime: AtomicU32::new(0),
        }
    }

    /// Number of flushes so far. A segment opened before the last flush contains only flushed
    /// items.
    #[inline]
    pub(crate) fn flush_count(&self) -> u32 {
        self.flushes.load(Ordering::Relaxed)
    }

    pub(crate) fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// The low watermark: number of segments to keep free.
    pub(crate) fn reserve(&self) -> u32 {
        let part = self.segment_limit.load(Ordering::Relaxed) / RESERVE_PART;
        // Each worker may be evacuating a segment, which becomes free only when it is empty.
        part + RESERVE_MIN + part.min(self.stripes as u32 - 1)
    }

    /// Segments that are free or become free without further evacuation.
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.available.load(Ordering::Relaxed)
    }

    /// Whether the critical watermark is reached, which is higher for a waiting writer. Eviction
    /// then ignores access frequency, because copying an item would use the segment that evacuation
    /// gains.
    pub(crate) fn is_critical(&self, is_waiting: bool) -> bool {
        let threshold = match is_waiting {
            true => COPY_RESERVE,
            false => 0,
        };
        let left = self.allocatable.load(Ordering::Relaxed);
        left <= threshold.max(self.reserve() / RESERVE_CRITICAL_PART)
    }

    /// Records the lifetime of a main-part segment selected for evacuation.
    pub(crate) fn record_lifetime(&self, lifetime_s: u32) {
        let mean = self.mean_lifetime.load(Ordering::Relaxed);
        let lifetime = lifetime_s.min(LIFETIME_MAX_S) * LIFETIME_UNIT;
        // An outlier has at most the effect of a lifetime of twice the mean.
        let next = match mean {
            0 => lifetime,
            _ => mean - mean / LIFETIME_WEIGHT + lifetime.min(2 * mean) / LIFETIME_WEIGHT,
        };
        // A concurrent update by another worker may be lost.
        self.mean_lifetime.store(next, Ordering::Relaxed);
    }

    /// Recent mean lifetime of main-part segments, in seconds.
    pub(crate) fn mean_lifetime_s(&self) -> u32 {
        self.mean_lifetime.load(Ordering::Relaxed) / LIFETIME_UNIT
    }

    pub(crate) fn segment_limit(&self) -> u32 {
        self.segment_limit.load(Ordering::Relaxed)
    }

    /// Changes the number of segments that may be resident. Segments above the limit with content
    /// stay in use until evacuated.
    pub(crate) fn set_segment_limit(&self, segments: u32) {
        let segments = segments.min(self.heap.count());
        let mut lists = self.lists();
        if segments != self.segment_limit.swap(segments, Ordering::Relaxed) {
            self.over_limit.store(self.heap.count(), Ordering::Relaxed);
            self.reclaim_retired(&mut lists);
            // The index has grown, or more pages may be populated.
            self.needs_page_maintenance.store(true, Ordering::Relaxed);
        }
    }

    /// Segments in use above the limit.
    pub(crate) fn over_limit(&self) -> u32 {
        self.over_limit.load(Ordering::Relaxed)
    }

    /// Subtracts the segments that have become free from the number of segments above the limit.
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

    /// Segments that may be resident at the moment.
    fn resident_max(&self) -> u32 {
        self.segment_limit() + self.over_limit()
    }

    /// The current eviction policy.
    #[inline]
    pub(crate) fn eviction_policy(&self) -> &'static EvictionPolicy {
        let number = self.eviction_policy.load(Ordering::Relaxed) as usize;
        POLICIES.get(number).unwrap_or(&POLICIES[0])
    }

    /// Switches to another of [`POLICIES`].
    pub(crate) fn set_eviction_policy(&self, number: usize) {
        self.eviction_policy.store(number as u32, Ordering::Relaxed);
    }

    /// The share of each part, in segments. The part that exceeds its share is evicted from first.
    /// Both shares are computed from one read of the limit, because another thread may change it.
    fn part_shares(&self) -> [u32; 2] {
        shares_of(
            self.segment_limit(),
            self.eviction_policy().small_thousandths,
        )
    }

    /// Allocates a block of `len` bytes. `None` if no segment is free.
    pub(crate) fn allocate(&self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        self.allocate_between(len, len, target)
            .map(|(allocation, _)| allocation)
    }

    /// Allocates a block of `len_min` to `len_max` bytes. If the space left in the open segment is
    /// less than `len_max` but not less than `len_min`, the block takes all of it. Also returns the
    /// block's length.
    pub(crate) fn allocate_between(
        &self,
        len_min: usize,
        len_max: usize,
        target: &AllocTarget,
    ) -> Option<(Allocation, usize)> {
        debug_assert!(len_max <= self.heap.block_max());
        let open_segment = &self.open_segments[self.open_segment(target)].0;
        let size = self.heap.segment_size();
        loop {
            // Acquire: pairs with the release in `open`.
            let number = open_segment.load(Ordering::Acquire);
            if number == NONE || self.heap.segment(number).flush_generation() != self.flush_count()
            {
                self.replace_open_segment(open_segment, number, target)
                    .then_some(())?;
                continue;
            }
            let segment = self.heap.segment(number);
            let left = size.saturating_sub(segment.tail()) as usize;
            if left == 0 {
                // The segment is full. Do not add to it again while no other is free: each attempt
                // advances its tail.
                self.replace_open_segment(open_segment, number, target)
                    .then_some(())?;
                continue;
            }
            let len = if left >= len_min {
                len_max.min(left & !3)
            } else {
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

    fn mark_end(&self, number: SegmentNumber, at: u32) {
        // Only the first addition that fails finds the tail inside the segment: it marks the end.
        if at <= self.heap.segment_size() {
            self.heap.write_end(number, at);
            self.heap.segment(number).set_end(at);
        }
    }

    fn open_segment(&self, target: &AllocTarget) -> usize {
        let class = self.class(target.expiry, target.now_s);
        ((target.stripe % self.stripes) * 2 + target.part as usize) * self.classes + class
    }

    fn class(&self, expiry: Expiry, now_s: u32) -> usize {
        class_of(expiry, now_s) * self.classes / CLASSES_MAX
    }

    /// Replaces the full open segment by a free one. Returns false if no segment is free. Returns
    /// true if the open segment was replaced, by this worker or another.
    fn replace_open_segment(
        &self,
        open_segment: &AtomicU32,
        full: SegmentNumber,
        target: &AllocTarget,
    ) -> bool {
        let mut lists = self.lists();
        if open_segment.load(Ordering::Relaxed) != full {
            return true;
        }
        let Some(number) = self.take_free_segment(&mut lists, target.is_copy) else {
            return false;
        };
        let segment = self.heap.segment(number);
        // The parity encodes the part, see `part_of_opening`.
        let openings = &self.openings[target.part as usize];
        let opening = openings.load(Ordering::Relaxed).wrapping_add(2) & !1 | target.part as u32;
        openings.store(opening, Ordering::Relaxed);
        debug_assert_eq!(
            self.heap.live.sum(number),
            0,
            "live bytes of an empty segment"
        );
        self.heap.live.clear(number);
        segment.open(target.part, self.flush_count(), target.now_s, opening);
        // Release: pairs with the acquire in `allocate_between`: a writer that adds to the segment
        // sees it open.
        open_segment.store(number, Ordering::Release);
        self.seal(&mut lists, full);
        true
    }

    /// Seals an open segment: no block is added to it any more.
    fn seal(&self, lists: &mut SegmentLists, number: SegmentNumber) {
        if number == NONE {
            return;
        }
        let segment = self.heap.segment(number);
        let size = self.heap.segment_size();
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

    /// Takes a segment that does not count as resident, preferably one that still has its pages.
    fn take_non_resident(&self, lists: &mut SegmentLists) -> Option<SegmentNumber> {
        // A segment that is to be discarded still has its pages.
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

    /// Moves retired segments whose stamp has passed to the free list. Then marks free segments for
    /// discarding while more segments are resident than allowed.
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

    fn update_available(&self, lists: &SegmentLists) {
        let pending = (lists.free.len() + lists.retired.len()) as u32;
        let left = |bound: u32| (pending + bound).saturating_sub(lists.resident);
        self.available
            .store(left(self.segment_limit()), Ordering::Relaxed);
        self.allocatable
            .store(left(self.resident_max()), Ordering::Relaxed);
    }

    /// Whether a segment may be allocated. The last free segments are reserved for copies.
    fn can_allocate(&self, lists: &SegmentLists, is_copy: bool) -> bool {
        let reserved = if is_copy { 0 } else { COPY_RESERVE };
        lists.free.len() as u32 + self.resident_headroom(lists) > reserved
    }

    /// Segments that may still become resident.
    fn resident_headroom(&self, lists: &SegmentLists) -> u32 {
        let discarded = lists.to_discard.len() + lists.absent.len();
        let never_used = self.heap.count() - lists.first_unused;
        self.resident_max()
            .saturating_sub(lists.resident)
            .min(discarded as u32 + never_used)
    }

    /// Whether a segment is free for a new block.
    pub(crate) fn has_free_segment(&self) -> bool {
        let mut lists = self.lists();
        self.reclaim_retired(&mut lists);
        self.can_allocate(&lists, false)
    }

    /// Whether a segment is free, or will be after other workers are quiescent, pins are dropped,
    /// or a discarded segment is populated.
    pub(crate) fn has_pending_segment(&self) -> bool {
        self.is_segment_pending(false)
    }

    /// As [`Log::has_pending_segment`], for a copy during evacuation.
    pub(crate) fn has_pending_segment_for_copy(&self) -> bool {
        self.is_segment_pending(true)
    }

    fn is_segment_pending(&self, is_copy: bool) -> bool {
        let mut lists = self.lists();
        self.reclaim_retired(&mut lists);
        let is_pending = !lists.retired.is_empty() || (!is_copy && lists.populating > 0);
        is_pending || self.can_allocate(&lists, is_copy)
    }

    /// Examines the next open segment, and seals it if all its items have expired or been flushed.
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

    /// Retires an evacuated segment: no location refers to it any more.
    pub(crate) fn retire(&self, number: SegmentNumber) {
        let segment = self.heap.segment(number);
        segment.set_phase(Phase::Retired);
        let stamp = self.epochs.retire();
        let mut lists = self.lists();
        lists.bytes_occupied -= u64::from(segment.recorded_occupied());
        lists.retired.push_back((number, stamp));
        self.reclaim_retired(&mut lists);
    }

    /// Ends an evacuation before the segment is empty.
    pub(crate) fn abandon(&self, number: SegmentNumber) {
        let segment = self.heap.segment(number);
        let lists = &mut *self.lists();
        // The phase is set under the lock, because the search for victims reads it there.
        segment.set_phase(Phase::Sealed);
        segment.undo_close();
        lists.sealed[segment.part() as usize].push_first(&mut lists.links, number);
    }

    /// Number of resident segments.
    pub(crate) fn resident(&self) -> u32 {
        let lists = self.lists();
        lists.resident + lists.to_discard.len() as u32
    }

    fn lists(&self) -> MutexGuard<'_, SegmentLists> {
        // No code panics while the lists are inconsistent.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shares_of(segment_limit: u32, small_thousandths: u64) -> [u32; 2] {
    let small = (u64::from(segment_limit) * small_thousandths / 1000) as u32;
    [small, segment_limit - small]
}

/// The part of a segment with this opening: even numbers are the small part.
pub(crate) fn part_of_opening(opening: u32) -> Part {
    match opening % 2 {
        0 => Part::Small,
        _ => Part::Main,
    }
}

/// The class of an expiry: items with similar expiry are stored together. The first class holds
/// lifetimes of up to ten seconds, and each further class reaches six times as far.
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
