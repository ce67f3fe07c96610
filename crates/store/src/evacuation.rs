//! Evacuation reclaims a segment. It visits all blocks of the segment, copies the live blocks that
//! it keeps to another segment, unlinks the other live items, and retires the segment. Eviction,
//! compaction, and the reclamation of expired or flushed items all use it. Evacuation proceeds in
//! steps of at most [`STEP_ITEMS`] blocks. While few segments are free, each write first makes one
//! step, and one more per 4 KiB that it writes. A write makes further steps only if it then finds
//! no free segment.
//!
//! Eviction follows S3-FIFO (Yang et al., SOSP 2023), applied to segments:
//!
//! - New items are written to the *small* part. When the oldest segment of the small part is
//!   evacuated, items that were requested again are copied to the *main* part. The other items are
//!   evicted, and their hashes are remembered as ghosts.
//! - An item that is written again while its ghost is remembered goes directly to the main part.
//! - When the oldest segment of the main part is evacuated, items that were requested often or
//!   recently enough are copied to an open segment of the main part. The other items are evicted.
//!
//! The current policy (`eviction_policy.rs`) decides about each item. Blocks are copied one by one,
//! so a segment can be evacuated whatever the sizes of its items are.

pub(crate) mod allocation;
mod everything;
pub(crate) mod evict;

use std::sync::atomic::Ordering;

use crate::evacuation::evict::Visited;
use crate::eviction_policy::{EvictionDecision, Lifetime, Part};
use crate::expiry::Expiry;
use crate::heap::BlockRef;
use crate::heap::block::Block;
use crate::index::writer::Writer;
use crate::index::{Entry, Found};
use crate::limits::{COPY_BYTES_PER_VISIT, COPY_WAITS_MAX, STEP_BYTES, STEP_ITEMS, STEPS_MAX};
use crate::log::draft::Draft;
use crate::log::{AllocTarget, Allocation, EvacuationReason, Victim};
use crate::statistics::counters::Counter;
use crate::sync::yield_now;
use crate::worker::{Cursor, Worker};

/// Number of blocks in a batch. The index buckets of all blocks of a batch are prefetched before
/// the first block is looked up, so that the cache misses overlap.
const PREFETCH_BATCH: usize = 8;

impl Worker {
    /// Makes a bounded number of evacuation steps if few segments are free. Every operation calls
    /// this before it writes; `bytes` is the number of bytes that it will write.
    #[inline]
    pub(crate) fn assist_evacuation(&mut self, bytes: usize, now_s: u32) {
        let log = &self.store.log;
        let available = log.available();
        if available < log.reserve() {
            self.evacuate_for(bytes, now_s);
        } else if available < log.segment_limit() / 2 && self.store.config().evicts {
            // More than half of the memory is in use. Start the miniatures (simulations of the
            // eviction policies) now, so that they have compared the policies before the first
            // eviction.
            self.store.miniatures.start(2 * self.store.index.len());
        }
    }

    /// Makes one evacuation step, and one more per [`STEP_BYTES`] of `bytes`, up to [`STEPS_MAX`].
    #[cold]
    fn evacuate_for(&mut self, bytes: usize, now_s: u32) {
        for _ in 0..(1 + bytes / STEP_BYTES).min(STEPS_MAX) {
            if !self.evacuate_step(STEP_ITEMS, now_s) {
                break;
            }
        }
    }

    /// Does one step of background work: performs a flush that is due, makes one step of index
    /// resizing, seals an open segment if all its items have expired, and visits at most `budget`
    /// blocks for evacuation. If few segments are free, evacuation also compacts sparse segments
    /// and evicts items. Otherwise it reclaims only segments whose items have all expired or been
    /// flushed. Returns true if the caller should call again, because evacuation may have more to
    /// do.
    pub fn maintain(&mut self, now_s: u32, budget: usize) -> bool {
        self.ensure_online();
        // Perform a delayed flush that is due even if no request arrives.
        self.store.log.perform_due_flush(now_s);
        self.store.log.seal_expired(now_s);
        self.resize_index_step();
        let budget = budget.min(STEP_ITEMS);
        if self.store.log.available() < self.store.log.reserve() {
            return self.evacuate_step(budget, now_s);
        }
        self.reclaim_step(budget, now_s)
    }

    /// Reclaims segments whose items have all expired, for a thread that serves no requests. Makes
    /// at most `steps` steps, each of which examines a few segments or visits [`STEP_ITEMS`]
    /// blocks. Returns true if there may be more to reclaim now, and otherwise determines when
    /// there may be ([`Store::reclaim_time`](crate::Store::reclaim_time)).
    pub fn reclaim_expired(&mut self, now_s: u32, steps: usize) -> bool {
        self.ensure_online();
        if self.cursor.is_none() && !self.store.log.update_reclaim_time(now_s) {
            return false;
        }
        for _ in 0..self.store.log.open_segment_count() {
            self.store.log.seal_expired(now_s);
        }
        let mut searches = self.store.log.searches_per_cycle();
        for _ in 0..steps {
            if !self.reclaim_step(STEP_ITEMS, now_s) {
                searches -= 1;
            }
            if searches == 0 {
                self.store.log.update_reclaim_time(now_s);
                return false;
            }
        }
        true
    }

    /// Continues the evacuation of a segment, or begins that of one without live items. Returns
    /// false if it found none.
    fn reclaim_step(&mut self, budget: usize, now_s: u32) -> bool {
        if self.cursor.is_none()
            && let Some(victim) = self.store.log.select_empty_victim(now_s)
        {
            self.cursor = Some(Cursor::new(&self.lease, victim));
        }
        self.cursor.is_some() && self.evacuate_step(budget, now_s)
    }

    /// Visits up to `budget` blocks of the segment that this worker is evacuating. If there is
    /// none, first selects a *victim*, the next segment to be evacuated. Returns false if no victim
    /// is found, or if a block has to be kept but there is no space for its copy.
    pub(crate) fn evacuate_step(&mut self, budget: usize, now_s: u32) -> bool {
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
        let mut budget_left = budget;
        while budget_left > 0 {
            let mut batch = [None; PREFETCH_BATCH];
            let (advanced, has_more) = self.prefetch_batch(&mut cursor, budget_left, &mut batch);
            self.counters.add(Counter::Visits, advanced as u64);
            for block in batch.iter().flatten() {
                match self.evacuate_block(block, &cursor, now_s) {
                    BlockOutcome::Copied(bytes) => {
                        budget_left = budget_left.saturating_sub(bytes / COPY_BYTES_PER_VISIT);
                    }
                    BlockOutcome::Unreferenced => {}
                    BlockOutcome::NoSpace => return false,
                }
            }
            if !has_more {
                self.counters.count(Counter::Evacuated);
                if cursor.victim().reason == EvacuationReason::Evict {
                    self.store.ghosts.fit(self.store.index.len());
                }
                cursor.retire();
                return true;
            }
            budget_left = budget_left.saturating_sub(advanced);
        }
        self.cursor = Some(cursor);
        true
    }

    /// Advances the cursor by at most `budget` blocks. Collects in `batch` those of the blocks that
    /// are not marked dead, and prefetches their index buckets. Stops early when `batch` is full.
    /// Returns the number of blocks by which the cursor advanced, dead ones included, and whether
    /// the segment may contain further blocks.
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
            cursor.advance(block.len());
            advanced += 1;
        }
        (advanced, true)
    }

    /// Copies, evicts or skips a block that the cursor has visited.
    fn evacuate_block(&mut self, visited: &Visited, cursor: &Cursor, now_s: u32) -> BlockOutcome {
        let (victim, block) = (cursor.victim(), cursor.block(visited.location));
        let has_block = |entry: Entry| self.item_has_block(entry, visited.location, block);
        let Some(entry) = self.store.index.find(visited.hash, has_block) else {
            // The index does not refer to this block, because its item was replaced or removed.
            return BlockOutcome::Unreferenced;
        };
        let head = entry.location();
        // `unlink_expired` returns false if, since the check, a touch has extended the item's
        // expiry or another worker has moved the head block. Then the item is treated as live.
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

    /// Decides whether to keep a live block of `victim`. `entry` is the entry of the block's item.
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
        match (victim.reason, part) {
            // A segment selected for `ReclaimEmpty` contains a live item if a touch has extended
            // the item's expiry since. A segment selected for `Compact` contains few live items.
            // In both cases, the live items are kept.
            (EvacuationReason::ReclaimEmpty | EvacuationReason::Compact, part) => {
                EvictionDecision::Keep { part, frequency }
            }
            // Hardly any segment is free, so there is no space for copies. Items that were
            // requested are evicted too.
            (EvacuationReason::Evict, _) if log.is_critical(self.is_waiting) => {
                EvictionDecision::Evict
            }
            // An earlier evacuation kept the item's head block, so its pieces are kept too.
            (EvacuationReason::Evict, _)
                if block.is_piece() && log.head_was_copied_out(entry, victim) =>
            {
                let part = Part::Main;
                EvictionDecision::Keep { part, frequency }
            }
            (EvacuationReason::Evict, part) => {
                log.eviction_policy().decide(part, frequency, || {
                    self.requested_after_first_quarter(entry, victim, now_s)
                })
            }
        }
    }

    /// Returns true if the last request for the item of `entry` counts as late in the lifetime of
    /// its segment, `victim` ([`Lifetime::requested_after_first_quarter`]).
    fn requested_after_first_quarter(&self, entry: Entry, victim: Victim, now_s: u32) -> bool {
        let log = &self.store.log;
        let lifetime = Lifetime {
            opened_s: log.heap.segment(victim.number).opened_s(),
            now_s,
            mean_s: log.mean_lifetime_s(),
        };
        lifetime.requested_after_first_quarter(self.block(entry.location()).access().time_s(now_s))
    }

    /// Adds the lifetime of `victim` to the mean, if it is a main-part segment selected for
    /// eviction.
    fn record_lifetime(&self, victim: Victim, now_s: u32) {
        let log = &self.store.log;
        let segment = log.heap.segment(victim.number);
        if matches!(
            (victim.reason, segment.part()),
            (EvacuationReason::Evict, Part::Main)
        ) {
            log.record_lifetime(now_s.saturating_sub(segment.opened_s()));
        }
    }

    /// Copies a block to an open segment of `part`. Then, under the lock of the item's index shard,
    /// makes the index refer to the copy, unless the block was unlinked or its item expired
    /// meanwhile. Returns false if there is no space for the copy.
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
        let has_block = |entry: Entry| self.item_has_block(entry, visited.location, block);
        if let Some(found) = writer.find(has_block) {
            let head = self.block(found.entry().location());
            if self
                .miss_reason(found.entry().location(), head, now_s)
                .is_some()
            {
                self.unlink_expired_found(&writer, &found, head, now_s);
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

    /// Allocates memory for a copy. If no segment is free but a retired one is about to become
    /// free, waits for it briefly. Returns `None` if no segment becomes free in time. Without a
    /// copy the item is then evicted. In a store that does not evict, the evacuation is abandoned.
    fn allocate_copy(&mut self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        for _ in 0..COPY_WAITS_MAX {
            if let Some(allocation) = self.store.log.allocate(len, target) {
                return Some(allocation);
            }
            // This worker may announce quiescence although it still has to copy the block, because
            // the block's segment is retired only later, through the cursor of this worker.
            self.announce_quiescence();
            if !self.store.log.has_free_or_pending_segment_for_copy() {
                return None;
            }
            yield_now();
        }
        None
    }

    /// Makes all references to `block` refer to its copy `to`. The index refers to a head block,
    /// the block with an item's key. The list of pieces in a head block refers to the pieces. The
    /// entry of a head block gets `frequency`. The caller holds the lock of the item's shard.
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
                // Release: pairs with the acquire in `pieces_of`. A reader that loads this location
                // sees the complete copy.
                slot.store(to.location.units(), Ordering::Release);
            }
            return;
        }
        let copy = to.block;
        if block.is_in_pieces() {
            // Another worker may have moved a piece since the list was copied without the lock.
            for (to, from) in copy.pieces().iter().zip(block.pieces()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        // A touch or a read may have changed these fields since they were copied without the lock.
        copy.set_expiry(block.expiry());
        copy.set_access(block.access());
        to.segment.raise_expiry(block.expiry());
        writer.relocate(found, to.location, frequency);
    }
}

/// What evacuation did with a block.
enum BlockOutcome {
    /// The block was copied. The value is its length in bytes.
    Copied(usize),
    /// No location refers to the block, because its item was evicted, has expired, or had been
    /// unlinked before.
    Unreferenced,
    /// The block is still live. The store may not evict, and there is no space for a copy.
    NoSpace,
}

/// Returns the expiry by which the open segment for a block is selected. A piece has no expiry of
/// its own, so it is stored with items that never expire.
fn block_expiry(block: Block<'_>) -> Expiry {
    if block.is_piece() {
        Expiry::NEVER
    } else {
        block.expiry()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
