//! Selects the *victim*, the next segment to evacuate. In a *sparse* segment, few of the occupied
//! bytes are live; the occupied bytes are those of all blocks, live and dead. The victim is
//! *closed* (`Segment::close`), so that no writer can fill its holes any more.

use super::{Log, NONE, SegmentLists};
use crate::eviction_policy::{Part, next_part};
use crate::heap::SegmentNumber;
use crate::heap::segment::Phase;
use crate::limits::{SCAN_SEGMENTS, SPARSE_PERCENT, SPARSE_PERCENT_NO_EVICTION};
use crate::sync::atomic::Ordering;

/// The reason for which a segment is evacuated. It determines what evacuation does with live items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvacuationReason {
    /// All items of the segment have expired or been flushed, so there are no live items.
    ReclaimEmpty,
    /// The segment is sparse. Evacuation copies the live items.
    Compact,
    /// The segment is the oldest of its part. Evacuation copies items that were requested often or
    /// recently enough, and evicts the other live items.
    Evict,
}

/// What may be evacuated to gain memory, besides segments without live items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gain {
    /// The oldest segment, if none is sparse.
    Evict,
    /// A tenth of the memory is dead, so that no live item has to go: segments of which no more is
    /// live than the mean of all segments, in thousandths, or which are sparse. The oldest one only
    /// if a search of all segments finds none.
    Compact { live_thousandths: u64 },
    /// The store does not evict: any segment whose compaction gains something.
    NeverEvict,
}

/// A segment selected for evacuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) number: SegmentNumber,
    pub(crate) reason: EvacuationReason,
}

impl Log {
    /// Selects and closes a victim: preferably a segment that is cheap to evacuate, because it has
    /// few or no live bytes, and otherwise, if `gain` allows it, the oldest segment of a part.
    /// `None` if the search, which examines only some of the segments, found no victim.
    pub(crate) fn select_victim(&self, now_s: u32, gain: Gain) -> Option<Victim> {
        let mut lists = self.lists();
        let must_evict = std::mem::take(&mut lists.must_evict);
        let cheap = self
            .find_cheap_victim(&mut lists, now_s, gain)
            .filter(|it| !must_evict || it.reason == EvacuationReason::ReclaimEmpty)
            .filter(|victim| self.close(victim));
        let is_compacting = matches!(gain, Gain::Compact { .. });
        lists.fruitless = match cheap {
            None if is_compacting => lists.fruitless.saturating_add(SCAN_SEGMENTS),
            _ => 0,
        };
        let is_searching = is_compacting && !must_evict && lists.fruitless < lists.first_unused;
        let victim = match cheap {
            None if gain != Gain::NeverEvict && !is_searching => self.select_oldest(&mut lists),
            cheap => cheap,
        }?;
        self.begin_evacuation(&mut lists, &victim);
        Some(victim)
    }

    /// Makes the next victim one without live items, or one whose items are evicted, because no
    /// memory was left for the copies of a compaction.
    pub(crate) fn give_up_compaction(&self) {
        self.lists().must_evict = true;
    }

    /// Selects and closes a segment without live items. `None` if the search, which examines only
    /// some of the segments, found none.
    pub(crate) fn select_empty_victim(&self, now_s: u32) -> Option<Victim> {
        let lists = &mut *self.lists();
        let victim = self.find_cheap_victim(lists, now_s, Gain::Evict)?;
        if victim.reason != EvacuationReason::ReclaimEmpty || !self.close(&victim) {
            return None;
        }
        self.begin_evacuation(lists, &victim);
        Some(victim)
    }

    /// Seals all open segments. For tests.
    pub(crate) fn seal_all(&self) {
        let lists = &mut *self.lists();
        for open_segment in &self.open_segments {
            let number = open_segment.0.swap(NONE, Ordering::Relaxed);
            self.seal(lists, number);
        }
    }

    /// Selects and closes a segment to evict its items: the oldest one of either part, or, if that
    /// search finds none, any sealed segment that can be evacuated. `None` if there is no such
    /// segment. For tests.
    pub(crate) fn select_any_victim(&self) -> Option<Victim> {
        let lists = &mut *self.lists();
        let oldest = self.select_oldest(lists);
        let victim = oldest.or_else(|| self.close_any(lists))?;
        self.begin_evacuation(lists, &victim);
        Some(victim)
    }

    /// Closes the first sealed segment that can be evacuated, and returns it as a victim. Unlike
    /// [`close_oldest`](Self::close_oldest), examines all segments. For tests.
    fn close_any(&self, lists: &SegmentLists) -> Option<Victim> {
        let size = self.heap.segment_size();
        let number = (0..lists.first_unused).find(|&number| {
            let segment = self.heap.segment(number);
            segment.phase() == Phase::Sealed && segment.can_be_evacuated(size) && segment.close()
        })?;
        let reason = EvacuationReason::Evict;
        Some(Victim { number, reason })
    }

    /// Closes the victim, so that no writer can fill its holes. Returns false if a writer has begun
    /// to fill a hole since the victim was selected.
    fn close(&self, victim: &Victim) -> bool {
        self.heap.segment(victim.number).close()
    }

    /// Removes the victim, which is closed, from the list of sealed segments.
    fn begin_evacuation(&self, lists: &mut SegmentLists, victim: &Victim) {
        let segment = self.heap.segment(victim.number);
        segment.set_phase(Phase::Evacuating);
        lists.sealed[segment.part() as usize].remove(&mut lists.links, victim.number);
        let is_evicting = victim.reason == EvacuationReason::Evict;
        self.is_evicting.store(is_evicting, Ordering::Relaxed);
    }

    /// Examines the next [`SCAN_SEGMENTS`] segments. Returns the first of them without live items.
    /// If there is none, returns the sparsest of them if it is sparse enough.
    fn find_cheap_victim(
        &self,
        lists: &mut SegmentLists,
        now_s: u32,
        gain: Gain,
    ) -> Option<Victim> {
        let size = self.heap.segment_size();
        // For each part, the segment with the least share of live bytes.
        let mut sparsest = [None; 2];
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
                let reason = EvacuationReason::ReclaimEmpty;
                return Some(Victim { number, reason });
            }
            // Live bytes are compared with the occupied bytes, not with the segment size. The
            // unused end of the segment is no gain, because the segments of the copies will have an
            // unused end too.
            let live = u64::from(self.heap.live.bytes(number));
            let occupied = segment.occupied(size).max(1);
            let live_thousandths = live * 1000 / occupied;
            let sparsest = &mut sparsest[segment.part() as usize];
            if sparsest.is_none_or(|(least, _)| live_thousandths < least) {
                *sparsest = Some((live_thousandths, number));
            }
        }
        let bounds = match gain {
            Gain::NeverEvict => [SPARSE_PERCENT_NO_EVICTION * 10; 2],
            Gain::Compact { live_thousandths } => {
                SPARSE_PERCENT.map(|percent| (live_thousandths + 1).max(percent * 10))
            }
            Gain::Evict => SPARSE_PERCENT.map(|percent| percent * 10),
        };
        let sparse = sparsest.into_iter().zip(bounds);
        let sparse = sparse.filter_map(|(sparsest, bound)| {
            sparsest.filter(|(live_thousandths, _)| *live_thousandths < bound)
        });
        let sparse = sparse.min();
        sparse.map(|(_, number)| Victim {
            number,
            reason: EvacuationReason::Compact,
        })
    }

    /// Selects and closes the oldest segment of the small part if that part exceeds its share, and
    /// otherwise of the main part. If that fails, tries the other part.
    fn select_oldest(&self, lists: &mut SegmentLists) -> Option<Victim> {
        let small_share = u64::from(self.part_shares()[Part::Small as usize]);
        let [small, main] = &lists.sealed;
        let first = next_part(small.len() as u64, small_share, main.len() == 0);
        let second = if first == Part::Small {
            Part::Main
        } else {
            Part::Small
        };
        [first, second]
            .into_iter()
            .find_map(|part| self.close_oldest(lists, part))
    }

    /// Closes the first segment in the list of a part that can be evacuated. This is the oldest
    /// such segment, except that segments held by pins or uploads are moved to the end of the list.
    /// Examines at most [`SCAN_SEGMENTS`]. Returns the closed segment as a victim.
    fn close_oldest(&self, lists: &mut SegmentLists, part: Part) -> Option<Victim> {
        let segment_list = &mut lists.sealed[part as usize];
        let mut next = segment_list.first();
        for _ in 0..SCAN_SEGMENTS {
            let number = next?;
            next = segment_list.next(&lists.links, number);
            let segment = self.heap.segment(number);
            if segment.is_held() {
                // A pin or an unfinished upload holds the segment, so the memory could not be
                // reused. Move the segment to the end of its list.
                segment_list.remove(&mut lists.links, number);
                segment_list.push_last(&mut lists.links, number);
            } else if segment.can_be_evacuated(self.heap.segment_size()) && segment.close() {
                let reason = EvacuationReason::Evict;
                return Some(Victim { number, reason });
            }
            // A segment that is not held and cannot be closed has a writer that fills one of its
            // blocks, so try the next segment.
        }
        None
    }

    /// Returns the number of searches that together examine all segments at least once.
    pub(crate) fn searches_per_cycle(&self) -> usize {
        (self.lists().first_unused / SCAN_SEGMENTS) as usize + 1
    }
}
