//! Evacuation: copies the blocks to be kept out of a segment, so that the segment becomes free.
//! Eviction, expiry, flush and compaction all use it. Evacuation proceeds in steps of at most
//! [`STEP_ITEMS`] blocks. While few segments are free, a writer makes one step per 4 KiB that it
//! writes, and further steps only if it finds no free segment.
//!
//! Items are evicted by S3-FIFO (Yang et al., SOSP 2023), applied to segments. New items are
//! written to the *small* part. When its oldest segment is evicted, items that were requested again
//! move to the *main* part; the rest are evicted, and their hashes are remembered as ghosts. An
//! item that is written again while its ghost is remembered goes directly to the main part. When
//! the oldest segment of the main part is evicted, items that were requested often or recently
//! enough are copied to an open segment, and the rest are evicted. The current policy
//! (`eviction_policy.rs`) sets the size of the small part, the decay of counters and the ghost
//! window. Because the blocks to be kept are copied, any segment can be evacuated, whatever the
//! sizes of its items.

use std::sync::atomic::Ordering;

use crate::counters::Counter;
use crate::heap::BlockRef;
use crate::heap::block::Block;
use crate::heap::segment::{FIRST_BLOCK, Part};
use crate::index::{Entry, Found, Location, Writer};
use crate::insertion::Draft;
use crate::limits::{
    COPY_BYTES_PER_VISIT, COPY_WAITS_MAX, EARLY_REQUEST_PART, LIFETIME_MIN_S, PROMOTE_AT,
    STEP_BYTES, STEP_ITEMS, STEPS_MAX, WAIT_STEPS_MAX, WAIT_YIELDS_MAX,
};
use crate::log::{AllocTarget, Allocation, Task, Victim};
use crate::sync::{Arc, yield_now};
use crate::upload::Rejected;
use crate::worker::{Lease, Worker};

/// A worker's exclusive claim on the segment being evacuated, and its position in it. Until the
/// cursor is dropped, no other worker evacuates or retires that segment.
#[derive(Debug)]
pub(crate) struct Cursor {
    store: Arc<Lease>,
    victim: Victim,
    /// Offset of the next block.
    offset: u32,
    /// The segment is retired, so dropping the cursor does nothing.
    is_retired: bool,
}

impl Cursor {
    fn new(store: &Arc<Lease>, victim: Victim) -> Self {
        Self {
            store: Arc::clone(store),
            victim,
            offset: FIRST_BLOCK,
            is_retired: false,
        }
    }

    /// The next block. `None` at the end of the segment.
    fn next(&self) -> Option<(Location, Block<'_>)> {
        let heap = &self.store.log.heap;
        // SAFETY: the segment was closed after all its blocks had been written, and only `retire`,
        // which consumes the cursor, retires it.
        unsafe { heap.block_in(self.victim.number, self.offset) }
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
        self.is_retired = true;
        self.store.log.retire(self.victim.number);
    }
}

impl Drop for Cursor {
    /// Allows other workers to continue with a segment that is only partly evacuated.
    fn drop(&mut self) {
        if !self.is_retired {
            self.store.log.abandon(self.victim.number);
        }
    }
}

/// Number of blocks whose index buckets are prefetched together, before the first is looked up.
const PREFETCH_BATCH: usize = 8;

/// Whether evacuation keeps an item, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictionDecision {
    Evict,
    Keep { part: Part, frequency: u8 },
}

/// The lifetime of a main-part segment that is being evacuated.
struct Lifetime {
    opened_s: u32,
    now_s: u32,
    /// Recent mean lifetime of main-part segments, in seconds.
    mean_s: u32,
}

impl Lifetime {
    /// Whether an item was last requested after the first quarter of its segment's lifetime. An
    /// item that was not is evicted. If every request counted, an item would survive one to two
    /// segment lifetimes after its last request; an item requested only just after it was written
    /// would survive longest. A lifetime above the mean counts as the mean: otherwise a pause with
    /// few writes would lengthen the lifetime, and every item requested before the pause would be
    /// evicted.
    fn requested_after_first_quarter(&self, accessed_s: u32) -> bool {
        let lifetime_s = self.now_s.saturating_sub(self.opened_s);
        let accessed_after_s = u64::from(accessed_s.saturating_sub(self.opened_s));
        lifetime_s < LIFETIME_MIN_S
            || accessed_after_s * EARLY_REQUEST_PART >= u64::from(lifetime_s.min(self.mean_s))
    }
}

impl Worker {
    /// Makes a bounded number of evacuation steps if few segments are free. Every operation that
    /// writes `bytes` bytes calls this first.
    #[inline]
    pub(crate) fn assist_evacuation(&mut self, bytes: usize, now_s: u32) {
        let log = &self.store.log;
        let available = log.available();
        if available < log.reserve() {
            self.evacuate_for(bytes, now_s);
        } else if available < log.segment_limit() / 2 && self.store.config().evicts {
            // The memory is half full. The miniatures start now, so that they have a result when
            // the first eviction happens.
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

    /// Does a step of background work. If few segments are free, evacuates and, if necessary,
    /// evicts; otherwise reclaims only segments whose items have all expired or been flushed.
    /// Visits at most `budget` items. Also performs a flush that is due, and makes one step of
    /// index resizing. Returns true if more evacuation may remain.
    pub fn maintain(&mut self, now_s: u32, budget: usize) -> bool {
        self.ensure_online();
        // A delayed flush must not wait for a request.
        self.store.perform_due_flush(now_s);
        self.store.log.seal_expired(now_s);
        self.resize_step();
        let budget = budget.min(STEP_ITEMS);
        if self.store.log.available() < self.store.log.reserve() {
            return self.evacuate_step(budget, now_s);
        }
        if self.cursor.is_none()
            && let Some(victim) = self.store.log.select_empty_victim(now_s)
        {
            self.cursor = Some(Cursor::new(&self.lease, victim));
        }
        self.cursor.is_some() && self.evacuate_step(budget, now_s)
    }

    /// Waits for a free segment. Evacuates if too few segments are about to become free, and yields
    /// so that other workers can become quiescent.
    ///
    /// # Errors
    /// [`Rejected::Deferred`] if a segment is about to become free but another worker takes too
    /// long to become quiescent, or if more evacuation is needed than one operation may do.
    /// [`Rejected::NoMemory`] if no segment can become free.
    pub(crate) fn wait_for_segment(&mut self, now_s: u32) -> Result<(), Rejected> {
        if self.has_free_segment() {
            return Ok(());
        }
        self.counters.count(Counter::Waits);
        self.is_waiting = true;
        let waited = self.wait_until_free(now_s);
        self.is_waiting = false;
        waited
    }

    fn has_free_segment(&mut self) -> bool {
        self.announce_quiescence();
        self.store.log.has_free_segment()
    }

    fn wait_until_free(&mut self, now_s: u32) -> Result<(), Rejected> {
        let (mut steps, mut yields, mut searches) = (0, 0, 0);
        loop {
            let log = &self.store.log;
            let may_evacuate = log.available() < log.reserve() && steps < WAIT_STEPS_MAX;
            if may_evacuate && self.evacuate_step(STEP_ITEMS, now_s) {
                steps += 1;
                searches = 0;
            } else if self.store.log.has_pending_segment() {
                if yields == WAIT_YIELDS_MAX {
                    return Err(Rejected::Deferred);
                }
                yields += 1;
                yield_now();
            } else {
                if steps == WAIT_STEPS_MAX && self.store.config().evicts {
                    // More steps are needed. The next attempt continues where this one ends.
                    return Err(Rejected::Deferred);
                }
                searches += 1;
                // A search examines only some of the segments, so give up only after enough
                // searches to examine all of them.
                if !may_evacuate || searches > self.store.log.searches_per_cycle() {
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
            None => match self
                .store
                .log
                .select_victim(now_s, self.store.config().evicts)
            {
                Some(victim) => {
                    self.record_lifetime(victim, now_s);
                    Cursor::new(&self.lease, victim)
                }
                None => return false,
            },
        };
        let mut left = budget;
        while left > 0 {
            let mut batch = [None; PREFETCH_BATCH];
            let (advanced, has_more) = self.prefetch_batch(&mut cursor, left, &mut batch);
            self.counters.add(Counter::Visits, advanced as u64);
            for block in batch.iter().flatten() {
                match self.evacuate_block(block, &cursor, now_s) {
                    BlockOutcome::Copied(bytes) => {
                        left = left.saturating_sub(bytes / COPY_BYTES_PER_VISIT);
                    }
                    BlockOutcome::Unreferenced => {}
                    BlockOutcome::NoSpace => return false,
                }
            }
            if !has_more {
                self.counters.count(Counter::Evacuated);
                cursor.retire();
                return true;
            }
            left = left.saturating_sub(advanced);
        }
        self.cursor = Some(cursor);
        true
    }

    /// Fills `batch` with the next blocks that are not marked dead, and prefetches their index
    /// buckets. Advances the cursor by at most `budget` blocks. Returns the number of blocks it
    /// advanced by, including dead ones, and whether the segment has more.
    fn prefetch_batch(
        &self,
        cursor: &mut Cursor,
        budget: usize,
        batch: &mut [Option<Visited>; PREFETCH_BATCH],
    ) -> (usize, bool) {
        let mut unused = batch.iter_mut();
        let mut advanced = 0;
        while advanced < budget {
            let Some((location, block)) = cursor.next() else {
                return (advanced, false);
            };
            if !block.is_marked_dead() {
                let Some(next) = unused.next() else {
                    break;
                };
                let hash = if block.is_piece() {
                    block.piece_hash()
                } else {
                    self.hash(block.key()).0
                };
                self.store.index.prefetch(hash);
                *next = Some(Visited { location, hash });
            }
            let len = block.len() as u32;
            cursor.offset += len;
            advanced += 1;
        }
        (advanced, true)
    }

    fn evacuate_block(&mut self, visited: &Visited, cursor: &Cursor, now_s: u32) -> BlockOutcome {
        let (victim, block) = (cursor.victim, cursor.block(visited.location));
        let owner = |entry: Entry| self.is_owner(entry, visited.location, block);
        let Some(entry) = self.store.index.find(visited.hash, owner) else {
            // The item was replaced or deleted.
            return BlockOutcome::Unreferenced;
        };
        let head = entry.location();
        // `unlink_expired` fails if a touch has extended the item's expiry, or if the head block
        // has moved. In these cases the item is treated as a live one.
        let is_expired = self.miss_reason(head, self.block(head), now_s).is_some();
        if is_expired && self.unlink_expired(visited.hash, head, now_s) {
            return BlockOutcome::Unreferenced;
        }
        if let EvictionDecision::Keep { part, frequency } =
            self.eviction_decision(entry, block, victim, now_s)
        {
            let len = block.len();
            if self.copy_block(visited, block, part, frequency, now_s) {
                return BlockOutcome::Copied(len);
            }
            if !self.store.config().evicts {
                return BlockOutcome::NoSpace;
            }
        }
        self.evict(visited, block, victim, now_s);
        BlockOutcome::Unreferenced
    }

    /// Whether the block belongs to the item of this entry: as its head block, or as a piece of its
    /// value.
    fn is_owner(&self, entry: Entry, location: Location, block: Block<'_>) -> bool {
        if !block.is_piece() {
            return entry.location() == location;
        }
        let item = self.block(entry.location());
        item.is_in_pieces() && {
            let slot = item.pieces().get(block.piece_number());
            slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == location.units())
        }
    }

    fn eviction_decision(
        &self,
        entry: Entry,
        block: Block<'_>,
        victim: Victim,
        now_s: u32,
    ) -> EvictionDecision {
        let log = &self.store.log;
        let part = log.heap.segment(victim.number).part();
        let frequency = entry.frequency();
        match (victim.task, part) {
            // `ReclaimEmpty`: the item is live because it was touched after the segment was
            // selected. `Compact`: the item is one of the few live ones in the segment.
            (Task::ReclaimEmpty | Task::Compact, part) => {
                EvictionDecision::Keep { part, frequency }
            }
            // Hardly any segment is free, so even items that were requested have to be evicted.
            (Task::Evict, _) if log.is_critical(self.is_waiting) => EvictionDecision::Evict,
            // The item's head block was kept, so its pieces are kept too.
            (Task::Evict, _) if block.is_piece() && log.head_was_copied_out(entry, victim) => {
                let part = Part::Main;
                EvictionDecision::Keep { part, frequency }
            }
            (Task::Evict, Part::Small) if frequency >= PROMOTE_AT => EvictionDecision::Keep {
                part: Part::Main,
                frequency: frequency - PROMOTE_AT,
            },
            (Task::Evict, Part::Main) if frequency > 0 && log.eviction_policy().decay => {
                EvictionDecision::Keep {
                    part,
                    frequency: frequency - 1,
                }
            }
            (Task::Evict, Part::Main)
                if frequency > 0 && self.requested_after_first_quarter(entry, victim, now_s) =>
            {
                EvictionDecision::Keep { part, frequency: 0 }
            }
            (Task::Evict, _) => EvictionDecision::Evict,
        }
    }

    fn requested_after_first_quarter(&self, entry: Entry, victim: Victim, now_s: u32) -> bool {
        let log = &self.store.log;
        let lifetime = Lifetime {
            opened_s: log.heap.segment(victim.number).opened_s(),
            now_s,
            mean_s: log.mean_lifetime_s(),
        };
        lifetime.requested_after_first_quarter(self.block(entry.location()).access().time_s(now_s))
    }

    fn record_lifetime(&self, victim: Victim, now_s: u32) {
        let log = &self.store.log;
        let segment = log.heap.segment(victim.number);
        if matches!((victim.task, segment.part()), (Task::Evict, Part::Main)) {
            log.record_lifetime(now_s.saturating_sub(segment.opened_s()));
        }
    }

    /// Copies a block to an open segment, and makes the index refer to the copy if the block is
    /// still live. Returns false if there is no space.
    fn copy_block(
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
        let draft = Draft::new(&self.store.log.heap, allocation);
        let copy = draft.block_ref;
        copy.block.copy_from(block);
        let writer = self.store.index.lock(visited.hash);
        let owner = |entry: Entry| self.is_owner(entry, visited.location, block);
        if let Some(found) = writer.find(owner) {
            let head = self.block(found.entry().location());
            if self
                .miss_reason(found.entry().location(), head, now_s)
                .is_some()
            {
                self.unlink_expired_found(&writer, &found, head);
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

    /// Allocates memory for a copy. If no segment is free but some are about to be, waits for them
    /// briefly, because the item would otherwise be evicted.
    fn allocate_copy(&mut self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        for _ in 0..COPY_WAITS_MAX {
            if let Some(allocation) = self.store.log.allocate(len, target) {
                return Some(allocation);
            }
            // Announcing quiescence is sound here: the source block belongs to the cursor's
            // segment, which is not retired before the copy is done.
            self.announce_quiescence();
            if !self.store.log.has_pending_segment_for_copy() {
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
            if let Some(slot) = head.pieces().get(block.piece_number()) {
                // Release: pairs with the acquire in `pieces_of`: a reader that follows the
                // location sees the whole copy.
                slot.store(to.location.units(), Ordering::Release);
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
        // A touch or a read may have changed these fields since they were copied.
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

    /// Evicts an item that is stored in `part`.
    pub(crate) fn evict_found(&self, writer: Writer<'_>, found: &Found, part: Part, now_s: u32) {
        let (hash, location) = (writer.hash(), found.entry().location());
        writer.remove(found);
        drop(writer);
        self.count_evicted(self.block(location), part, now_s);
        self.account_unlinked(&self.block_ref(location));
        if part == Part::Small {
            self.store.ghosts.remember(hash);
        }
    }
}

/// The result of evacuating a block.
enum BlockOutcome {
    /// The block was copied; its length in bytes.
    Copied(usize),
    /// No location refers to the block any more.
    Unreferenced,
    /// The block has to be kept, but there is no space for a copy.
    NoSpace,
}

/// The location of a visited block, and the hash of its item's key.
#[derive(Debug, Clone, Copy)]
struct Visited {
    location: Location,
    hash: u64,
}

/// The expiry that selects the open segment for a block. A piece has none, so it is stored with
/// items that never expire.
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
    fn a_request_in_the_first_quarter_of_the_lifetime_does_not_count() {
        let lifetime = |now_s, mean_s| Lifetime {
            opened_s: 100,
            now_s,
            mean_s,
        };
        let usual = lifetime(160, 60);
        assert!(
            [115, 130, 160]
                .into_iter()
                .all(|at| usual.requested_after_first_quarter(at))
        );
        // The access is older than the segment: the item was copied here and not requested since.
        assert!(
            [90, 100, 114]
                .into_iter()
                .all(|at| !usual.requested_after_first_quarter(at))
        );
        // A pause of five minutes does not change the result for earlier requests.
        let after_pause = lifetime(460, 60);
        assert!(
            [115, 130, 160]
                .into_iter()
                .all(|at| after_pause.requested_after_first_quarter(at))
        );
        assert!(!after_pause.requested_after_first_quarter(114));
        // With a long mean lifetime, the pause is part of the lifetime.
        assert!(!lifetime(460, 360).requested_after_first_quarter(160));
        // Below `LIFETIME_MIN_S` (eight seconds), and while the mean is unknown, every request
        // counts.
        assert!(lifetime(107, 60).requested_after_first_quarter(100));
        assert!(!lifetime(108, 60).requested_after_first_quarter(100));
        assert!(lifetime(160, 0).requested_after_first_quarter(100));
        // The segment was opened after the present second, by a thread whose clock is later.
        assert!(lifetime(90, 60).requested_after_first_quarter(120));
    }
}
