//! Selection of the next segment to evacuate.

use super::{Log, SegmentLists};
use crate::heap::SegmentNumber;
use crate::heap::segment::{Part, Phase};
use crate::index::Entry;
use crate::limits::{LIVE_FITS_PERCENT, SCAN_SEGMENTS, SPARSE_PERCENT, SPARSE_PERCENT_NO_EVICTION};
use crate::sync::atomic::Ordering;

/// What evacuation does with the live items of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// There are no live items: all have expired or been flushed.
    ReclaimEmpty,
    /// Few live items are left: evacuation copies them.
    Compact,
    /// The segment is the oldest of its part: evacuation evicts items that were not requested.
    Evict,
}

/// A segment selected for evacuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) number: SegmentNumber,
    pub(crate) task: Task,
}

impl Log {
    /// Selects a segment. `evicts` allows items to be evicted. `None` if no candidate was found.
    pub(crate) fn select_victim(&self, now_s: u32, evicts: bool) -> Option<Victim> {
        let mut lists = self.lists();
        let cheap = self.find_cheap_victim(&mut lists, now_s, evicts);
        let victim = match cheap.filter(|victim| self.close(victim)) {
            None if evicts => self.select_oldest(&mut lists),
            cheap => cheap,
        }?;
        self.begin_evacuation(&mut lists, &victim);
        Some(victim)
    }

    /// Selects a segment without live items. `None` if the search met none.
    pub(crate) fn select_empty_victim(&self, now_s: u32) -> Option<Victim> {
        let lists = &mut *self.lists();
        let victim = self.find_cheap_victim(lists, now_s, true)?;
        if victim.task != Task::ReclaimEmpty || !self.close(&victim) {
            return None;
        }
        self.begin_evacuation(lists, &victim);
        Some(victim)
    }

    /// Closes the segment for writers. Returns false if a writer has just begun to fill a hole in
    /// it.
    fn close(&self, victim: &Victim) -> bool {
        self.heap.segment(victim.number).close()
    }

    /// Removes a sealed segment from its list, out of order.
    fn begin_evacuation(&self, lists: &mut SegmentLists, victim: &Victim) {
        let segment = self.heap.segment(victim.number);
        segment.set_phase(Phase::Evacuating);
        lists.sealed[segment.part() as usize].remove(&mut lists.links, victim.number);
        let is_evicting = victim.task == Task::Evict;
        self.is_evicting.store(is_evicting, Ordering::Relaxed);
    }

    /// Selects a segment with few or no live bytes.
    fn find_cheap_victim(
        &self,
        lists: &mut SegmentLists,
        now_s: u32,
        evicts: bool,
    ) -> Option<Victim> {
        let size = self.heap.segment_size();
        let mut sparsest = [None; 2];
        let (mut live_sum, mut written_sum) = (0, 0);
        for _ in 0..SCAN_SEGMENTS.min(lists.first_unused) {
            lists.clock_hand = if lists.clock_hand + 1 < lists.first_unused {
                lists.clock_hand + 1
            } else {
                0
            };
            let number = lists.clock_hand;
            let segment = self.heap.segment(number);
            if segment.phase() != Phase::Sealed || !segment.can_be_evacuated(size) {
                continue;
            }
            if segment.flush_generation() != self.flush_count() || segment.expiry().is_past(now_s) {
                let task = Task::ReclaimEmpty;
                return Some(Victim { number, task });
            }
            // Relative to the occupied bytes: evacuation does not gain the unused end of a segment.
            let live = u64::from(self.heap.live.bytes(number));
            let written = segment.occupied(size).max(1);
            live_sum += live;
            written_sum += written;
            let share = live * 1000 / written;
            let sparsest = &mut sparsest[segment.part() as usize];
            if sparsest.is_none_or(|(least, _)| share < least) {
                *sparsest = Some((share, number));
            }
        }
        let live_items_fit = live_sum * 100 < written_sum * LIVE_FITS_PERCENT;
        let bounds = match (evicts, live_items_fit) {
            (false, _) => [SPARSE_PERCENT_NO_EVICTION; 2],
            (true, true) => [100; 2],
            (true, false) => SPARSE_PERCENT,
        };
        let sparse = sparsest.into_iter().zip(bounds);
        let sparse = sparse
            .filter_map(|(sparsest, bound)| sparsest.filter(|(share, _)| *share < bound * 10));
        let sparse = sparse.min();
        sparse.map(|(_, number)| Victim {
            number,
            task: Task::Compact,
        })
    }

    /// Selects the oldest segment of the part that exceeds its share.
    fn select_oldest(&self, lists: &mut SegmentLists) -> Option<Victim> {
        let small_share = self.part_shares()[Part::Small as usize] as usize;
        let [small, main] = &lists.sealed;
        let first = if small.len() > small_share || main.len() == 0 {
            Part::Small
        } else {
            Part::Main
        };
        let second = if first == Part::Small {
            Part::Main
        } else {
            Part::Small
        };
        [first, second]
            .into_iter()
            .find_map(|part| self.close_oldest(lists, part))
    }

    /// Closes the oldest segment of a part that can be evacuated.
    fn close_oldest(&self, lists: &mut SegmentLists, part: Part) -> Option<Victim> {
        let segment_list = &mut lists.sealed[part as usize];
        let mut next = segment_list.first();
        for _ in 0..SCAN_SEGMENTS {
            let number = next?;
            next = segment_list.next(&lists.links, number);
            let segment = self.heap.segment(number);
            if segment.is_held() {
                // A peer is still filling or sending a block of the segment, so the segment could
                // not be reclaimed.
                segment_list.remove(&mut lists.links, number);
                segment_list.push_last(&mut lists.links, number);
            } else if segment.can_be_evacuated(self.heap.segment_size()) && segment.close() {
                let task = Task::Evict;
                return Some(Victim { number, task });
            }
            // Otherwise a writer is using the segment at the moment: try the next.
        }
        None
    }

    /// Whether the head block of an item was copied since it was written. The victim holds a piece
    /// of the item. A head that was written together with the piece is in a segment of about the
    /// same age; a head in a much newer segment, or in the main part while the piece is in the
    /// small part, was copied.
    pub(crate) fn head_was_copied_out(&self, entry: Entry, victim: Victim) -> bool {
        let head = self.heap.segment_of(entry.location());
        let piece = self.heap.segment(victim.number);
        match (piece.part(), head.part()) {
            (Part::Small, Part::Main) => true,
            (Part::Main, Part::Main) => {
                let openings_between = head.opening().wrapping_sub(piece.opening()) / 2;
                let half = self.part_shares()[Part::Main as usize] / 2;
                (half + 1..u32::MAX / 4).contains(&openings_between)
            }
            (_, Part::Small) => false,
        }
    }

    /// Number of searches that together examine all segments once.
    pub(crate) fn searches_per_cycle(&self) -> usize {
        (self.lists().first_unused / SCAN_SEGMENTS) as usize + 1
    }
}
