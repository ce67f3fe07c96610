//! Evacuation: how segments become free. Eviction, expiry, flush and compaction all use it. It
//! works in steps of at most [`STEP_ITEMS`] blocks. A writer makes one step per 4 KiB it writes,
//! and more only if it finds no free segment.
//!
//! The policy is S3-FIFO (Yang and others, SOSP 2023) over segments. New items are written to the
//! *small* part. When its oldest segment is evicted, items that were requested again move to the
//! *main* part; the rest are evicted, and their hashes are remembered as ghosts. An item that
//! returns while its ghost is known is written to the main part at once. When the oldest segment of
//! the main part is evicted, items requested since the last pass are copied to an open segment and
//! the rest are evicted. The current policy (`eviction_policy.rs`) sets the size of the small part,
//! the decay of counters and the ghost window. Because live blocks are copied, any segment can be
//! evacuated, whatever the sizes of its items.

use std::sync::atomic::Ordering;

use crate::counters::Counter;
use crate::heap::BlockRef;
use crate::heap::block::Block;
use crate::heap::segment::{FIRST, Part};
use crate::index::{Entry, Found, Location, Writer};
use crate::insertion::Draft;
use crate::limits::{
    COPY_BYTES_PER_VISIT, COPY_WAITS_MAX, LIFETIME_MIN_S, PROMOTE_AT, REQUESTED_PARTS, STEP_BYTES,
    STEP_ITEMS, STEPS_MAX, WAIT_STEPS_MAX, WAIT_YIELDS_MAX,
};
use crate::log::{AllocTarget, Allocation, Task, Victim};
use crate::sync::{Arc, yield_now};
use crate::upload::Rejected;
use crate::worker::{Lease, Worker};

/// Progress in a segment. No other worker evacuates or retires the segment until this is dropped.
#[derive(Debug)]
pub(crate) struct Cursor {
    store: Arc<Lease>,
    victim: Victim,
    at: u32,
    is_done: bool,
}

impl Cursor {
    fn new(store: &Arc<Lease>, victim: Victim) -> Self {
        Self {
            store: Arc::clone(store),
            victim,
            at: FIRST,
            is_done: false,
        }
    }

    /// The next block. `None` at the end of the segment.
    fn next(&self) -> Option<(Location, Block<'_>)> {
        let heap = &self.store.log.heap;
        // SAFETY: the segment was closed after all its blocks had been written, and only `retire`,
        // which consumes the cursor, retires it.
        unsafe { heap.block_in(self.victim.number, self.at) }
    }

    /// A block that the cursor has visited.
    fn block(&self, location: Location) -> Block<'_> {
        let heap = &self.store.log.heap;
        assert!(heap.number_of(location) == self.victim.number);
        // SAFETY: as in `next`.
        unsafe { heap.block(location) }
    }

    /// Retires the segment: no location refers to it any more.
    fn retire(mut self) {
        self.is_done = true;
        self.store.log.retire(self.victim.number);
    }
}

impl Drop for Cursor {
    /// A partly evacuated segment may be evacuated by other workers.
    fn drop(&mut self) {
        if !self.is_done {
            self.store.log.abandon(self.victim.number);
        }
    }
}

/// Blocks whose index buckets are prefetched together.
const AHEAD: usize = 8;

/// What happens to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Leaves,
    Stays { part: Part, frequency: u8 },
}

/// The lifetime of a main-part segment that is evacuated.
struct Lifetime {
    opened_s: u32,
    now_s: u32,
    /// Recent mean lifetime of such segments, in seconds.
    usual_s: u32,
}

impl Lifetime {
    /// Whether an item with this last access was requested after the first quarter of its segment's
    /// lifetime. If any request sufficed, an item would stay for one to two passes after its last
    /// request, and longest if it was requested often right after it was written and never again. A
    /// lifetime much longer than the mean, because little was written, counts as the mean:
    /// otherwise everything requested before the pause would be evicted after it.
    fn is_requested(&self, asked_s: u32) -> bool {
        let lifetime_s = self.now_s.saturating_sub(self.opened_s);
        let after_s = u64::from(asked_s.saturating_sub(self.opened_s));
        lifetime_s < LIFETIME_MIN_S
            || after_s * REQUESTED_PARTS >= u64::from(lifetime_s.min(self.usual_s))
    }
}

impl Worker {
    /// Evacuates a bounded amount if few segments are free. Every operation calls it before it
    /// writes `bytes`.
    #[inline]
    pub(crate) fn assist_evacuation(&mut self, bytes: usize, now_s: u32) {
        let log = &self.store.log;
        let available = log.available();
        if available < log.reserve() {
            self.evacuate_for(bytes, now_s);
        } else if available < log.segment_limit() / 2 && self.store.config().evicts {
            // From half full on, so that the miniatures have a result when the first eviction
            // happens.
            self.store.miniatures.start(2 * self.store.index.len());
        }
    }

    #[cold]
    fn evacuate_for(&mut self, bytes: usize, now_s: u32) {
        for _ in 0..(1 + bytes / STEP_BYTES).min(STEPS_MAX) {
            if !self.evacuate_step(STEP_ITEMS, now_s) {
                break;
            }
        }
    }

    /// Reclaims expired segments, or else evicts, if few segments are free. Visits at most `budget`
    /// items. Returns true if more work may remain.
    pub fn maintain(&mut self, now_s: u32, budget: usize) -> bool {
        self.wake();
        // A delayed flush must not wait for a request.
        self.store.flushes(now_s);
        self.store.log.seal_expired(now_s);
        self.resize_step();
        let budget = budget.min(STEP_ITEMS);
        if self.store.log.available() < self.store.log.reserve() {
            return self.evacuate_step(budget, now_s);
        }
        if self.cursor.is_none()
            && let Some(victim) = self.store.log.clear_victim(now_s)
        {
            self.cursor = Some(Cursor::new(&self.lease, victim));
        }
        self.cursor.is_some() && self.evacuate_step(budget, now_s)
    }

    /// Waits for a free segment: evacuates if too few are about to become free, and yields so that
    /// other workers can become quiescent.
    ///
    /// # Errors
    /// [`Rejected::Deferred`] if a segment is about to become free but a worker is not quiescent
    /// for long, or if more evacuation is needed than one operation may do. Another error if no
    /// segment can become free.
    pub(crate) fn wait_for_segment(&mut self, now_s: u32) -> Result<(), Rejected> {
        if self.has_free_segment() {
            return Ok(());
        }
        self.counters.count(Counter::Waits);
        self.is_waiting = true;
        let waited = self.wait(now_s);
        self.is_waiting = false;
        waited
    }

    fn has_free_segment(&mut self) -> bool {
        self.pass();
        self.store.log.has_free_segment()
    }

    fn wait(&mut self, now_s: u32) -> Result<(), Rejected> {
        let (mut steps, mut yields, mut looks) = (0, 0, 0);
        loop {
            let log = &self.store.log;
            let is_behind = log.available() < log.reserve() && steps < WAIT_STEPS_MAX;
            if is_behind && self.evacuate_step(STEP_ITEMS, now_s) {
                steps += 1;
                looks = 0;
            } else if self.store.log.has_pending_segment(false) {
                if yields == WAIT_YIELDS_MAX {
                    return Err(Rejected::Deferred);
                }
                yields += 1;
                yield_now();
            } else {
                if steps == WAIT_STEPS_MAX && self.store.config().evicts {
                    // Items have to be evicted. The next attempt continues where this one ends.
                    return Err(Rejected::Deferred);
                }
                looks += 1;
                // One search examines only some of the segments.
                if !is_behind || looks > self.store.log.looks_around() {
                    return Err(Rejected::NoMemory);
                }
            }
            if self.has_free_segment() {
                return Ok(());
            }
        }
    }

    /// Visits up to `budget` blocks of the current or the next victim. Returns false if there is no
    /// victim.
    fn evacuate_step(&mut self, budget: usize, now_s: u32) -> bool {
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => match self.store.log.victim(now_s, self.store.config().evicts) {
                Some(victim) => {
                    self.record_lifetime(victim, now_s);
                    Cursor::new(&self.lease, victim)
                }
                None => return false,
            },
        };
        let mut left = budget;
        while left > 0 {
            let mut ahead = [None; AHEAD];
            let (passed, has_more) = self.look_ahead(&mut cursor, left, &mut ahead);
            self.counters.add(Counter::Visits, passed as u64);
            for block in ahead.iter().flatten() {
                match self.evacuate_block(block, &cursor, now_s) {
                    Evacuated::Moved(bytes) => {
                        left = left.saturating_sub(bytes / COPY_BYTES_PER_VISIT);
                    }
                    Evacuated::Gone => {}
                    Evacuated::Stuck => return false,
                }
            }
            if !has_more {
                self.counters.count(Counter::Evacuated);
                cursor.retire();
                return true;
            }
            left = left.saturating_sub(passed);
        }
        self.cursor = Some(cursor);
        true
    }

    /// Advances to the next few blocks that may be live, passing at most `budget` blocks, and
    /// prefetches their index buckets. Returns the number of passed blocks, dead ones included, and
    /// whether the segment continues.
    fn look_ahead(
        &self,
        cursor: &mut Cursor,
        budget: usize,
        ahead: &mut [Option<Visited>; AHEAD],
    ) -> (usize, bool) {
        let mut positions = ahead.iter_mut();
        let mut passed = 0;
        while passed < budget {
            let Some((location, block)) = cursor.next() else {
                return (passed, false);
            };
            if !block.is_marked_dead() {
                let Some(position) = positions.next() else {
                    break;
                };
                let hash = if block.is_piece() {
                    block.piece_hash()
                } else {
                    self.hash(block.key()).0
                };
                self.store.index.prefetch(hash);
                *position = Some(Visited { location, hash });
            }
            let len = block.len() as u32;
            cursor.at += len;
            passed += 1;
        }
        (passed, true)
    }

    fn evacuate_block(&mut self, visited: &Visited, cursor: &Cursor, now_s: u32) -> Evacuated {
        let (victim, block) = (cursor.victim, cursor.block(visited.location));
        let owner = |entry: Entry| self.is_owner(entry, visited.location, block);
        let Some(entry) = self.store.index.find(visited.hash, owner) else {
            // It was replaced or deleted.
            return Evacuated::Gone;
        };
        let head = entry.location();
        // If it is not dead any more, or its head has moved, treat it as any other item.
        let is_dead = self.death(head, self.block(head), now_s).is_some();
        if is_dead && self.unlink_dead(visited.hash, head, now_s) {
            return Evacuated::Gone;
        }
        if let Fate::Stays { part, frequency } = self.fate(entry, block, victim, now_s) {
            let len = block.len();
            if self.copy(visited, block, part, frequency, now_s) {
                return Evacuated::Moved(len);
            }
            if !self.store.config().evicts {
                return Evacuated::Stuck;
            }
        }
        self.evict(visited, block, victim, now_s);
        Evacuated::Gone
    }

    /// Whether this block is the item of the entry, or a piece of its value.
    fn is_owner(&self, entry: Entry, location: Location, block: Block<'_>) -> bool {
        if !block.is_piece() {
            return entry.location() == location;
        }
        let item = self.block(entry.location());
        item.is_in_pieces() && {
            let position = item.pieces().get(block.piece_number());
            position.is_some_and(|position| position.load(Ordering::Relaxed) == location.units())
        }
    }

    fn fate(&self, entry: Entry, block: Block<'_>, victim: Victim, now_s: u32) -> Fate {
        let log = &self.store.log;
        let part = log.heap.segment(victim.number).part();
        let frequency = entry.frequency();
        match (victim.task, part) {
            // Touched after the segment was selected, or one of few live items left in it.
            (Task::Clear | Task::Compact, part) => Fate::Stays { part, frequency },
            // If all items were requested, some have to be evicted nevertheless.
            (Task::Evict, _) if log.is_critical(self.is_waiting) => Fate::Leaves,
            // The head of its item was already copied to be kept.
            (Task::Evict, _) if block.is_piece() && log.has_moved_on(entry, victim) => {
                let part = Part::Main;
                Fate::Stays { part, frequency }
            }
            (Task::Evict, Part::Small) if frequency >= PROMOTE_AT => Fate::Stays {
                part: Part::Main,
                frequency: frequency - PROMOTE_AT,
            },
            (Task::Evict, Part::Main) if frequency > 0 && log.eviction_policy().decay => {
                Fate::Stays {
                    part,
                    frequency: frequency - 1,
                }
            }
            (Task::Evict, Part::Main)
                if frequency > 0 && self.is_requested(entry, victim, now_s) =>
            {
                Fate::Stays { part, frequency: 0 }
            }
            (Task::Evict, _) => Fate::Leaves,
        }
    }

    fn is_requested(&self, entry: Entry, victim: Victim, now_s: u32) -> bool {
        let log = &self.store.log;
        let lifetime = Lifetime {
            opened_s: log.heap.segment(victim.number).opened_s(),
            now_s,
            usual_s: log.mean_lifetime_s(),
        };
        lifetime.is_requested(self.block(entry.location()).access().second(now_s))
    }

    fn record_lifetime(&self, victim: Victim, now_s: u32) {
        let log = &self.store.log;
        let segment = log.heap.segment(victim.number);
        if matches!((victim.task, segment.part()), (Task::Evict, Part::Main)) {
            log.record_lifetime(now_s.saturating_sub(segment.opened_s()));
        }
    }

    /// Copies a block to an open segment and relinks it. Returns false if there is no space.
    fn copy(
        &mut self,
        visited: &Visited,
        block: Block<'_>,
        part: Part,
        frequency: u8,
        now_s: u32,
    ) -> bool {
        let target = AllocTarget {
            is_copy: true,
            ..self.target(part, block_expiry(block), now_s)
        };
        let len = block.len();
        let Some(allocation) = self.allocate_copy(len, &target) else {
            return false;
        };
        let draft = Draft::of(&self.store.log.heap, allocation);
        let copy = draft.block_ref;
        copy.block.copy_from(block);
        let writer = self.store.index.lock(visited.hash);
        let owner = |entry: Entry| self.is_owner(entry, visited.location, block);
        if let Some(found) = writer.find(owner) {
            let head = self.block(found.entry().location());
            if self.death(found.entry().location(), head, now_s).is_some() {
                self.unlink_found(&writer, &found, head);
            } else {
                self.relink(&writer, &found, &copy, block, frequency);
                self.sub_live(&self.block_ref(visited.location));
                self.add_live(&copy);
                self.counters.count(Counter::Copied);
                self.counters.add(Counter::CopiedBytes, len as u64);
            }
        }
        true
    }

    /// Allocates memory for a copy. If segments only wait for other workers to be quiescent, waits
    /// for them briefly, because the item is to be kept.
    fn allocate_copy(&mut self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        for _ in 0..COPY_WAITS_MAX {
            if let Some(allocation) = self.store.log.take(len, target) {
                return Some(allocation);
            }
            // The source is borrowed from the cursor, whose segment is not retired.
            self.pass();
            if !self.store.log.has_pending_segment(true) {
                return None;
            }
            yield_now();
        }
        None
    }

    /// Makes the index, or the piece list of the item, refer to the copy.
    fn relink(
        &self,
        writer: &Writer<'_>,
        found: &Found,
        to: &BlockRef<'_>,
        block: Block<'_>,
        frequency: u8,
    ) {
        if block.is_piece() {
            let head = self.block(found.entry().location());
            if let Some(position) = head.pieces().get(block.piece_number()) {
                // Release: pairs with the acquire in `pieces_of`: a reader that follows the
                // location sees the whole copy.
                position.store(to.location.units(), Ordering::Release);
            }
            return;
        }
        let copy = to.block;
        if block.is_in_pieces() {
            // A piece may have moved since it was copied.
            for (to, from) in copy.pieces().iter().zip(block.pieces()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        // So may the fields that touch and reads change.
        copy.set_expiry(block.expiry());
        copy.set_access(block.access());
        to.segment.raise_expiry(block.expiry());
        writer.replace(found, to.location, frequency);
    }

    fn evict(&self, visited: &Visited, block: Block<'_>, victim: Victim, now_s: u32) {
        let writer = self.store.index.lock(visited.hash);
        let owner = |entry: Entry| self.is_owner(entry, visited.location, block);
        if let Some(found) = writer.find(owner) {
            let part = self.store.log.heap.segment(victim.number).part();
            self.evict_found(writer, &found, part, now_s);
        }
    }

    /// Evicts an item of this part.
    pub(crate) fn evict_found(&self, writer: Writer<'_>, found: &Found, part: Part, now_s: u32) {
        let (hash, location) = (writer.hash(), found.entry().location());
        writer.remove(found);
        drop(writer);
        self.count_evicted(self.block(location), part, now_s);
        self.unlinked(&self.block_ref(location));
        if part == Part::Small {
            self.store.ghosts.remember(hash);
        }
    }
}

/// The result for a block.
enum Evacuated {
    /// It was copied, with this many bytes.
    Moved(usize),
    /// No location refers to it any more.
    Gone,
    /// It has to be kept and cannot be copied.
    Stuck,
}

/// A visited block, and the hash of its item's key.
#[derive(Debug, Clone, Copy)]
struct Visited {
    location: Location,
    hash: u64,
}

/// Pieces have no expiry; they are stored with items that never expire.
fn block_expiry(block: Block<'_>) -> crate::item::Expiry {
    if block.is_piece() {
        crate::item::Expiry::NEVER
    } else {
        block.expiry()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_for_in_the_first_quarter_alone_was_not() {
        let lifetime = |now_s, usual_s| Lifetime {
            opened_s: 100,
            now_s,
            usual_s,
        };
        let usual = lifetime(160, 60);
        assert!([115, 130, 160].into_iter().all(|at| usual.is_requested(at)));
        // The access is older than the segment: the item was copied here and not requested since.
        assert!([90, 100, 114].into_iter().all(|at| !usual.is_requested(at)));
        // A pause of five minutes does not change the result for earlier requests.
        let lull = lifetime(460, 60);
        assert!([115, 130, 160].into_iter().all(|at| lull.is_requested(at)));
        assert!(!lull.is_requested(114));
        // With a long mean lifetime the pause counts.
        assert!(!lifetime(460, 360).is_requested(160));
        // Too short to divide, or the mean is not known yet.
        assert!(lifetime(107, 60).is_requested(100));
        assert!(!lifetime(108, 60).is_requested(100));
        assert!(lifetime(160, 0).is_requested(100));
        // The clock went back.
        assert!(lifetime(90, 60).is_requested(120));
    }
}
