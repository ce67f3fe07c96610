//! Evacuation reclaims a segment, which is a fixed part of the store's memory and contains blocks.
//! A small item is one block. A large item has a *head block* with the key, and *pieces*, the
//! blocks of its value. A block is *live* if it belongs to an item that is in the index, and
//! otherwise *dead*. Evacuation visits all blocks of a segment. Each live block is copied to
//! another segment, or its item is *unlinked*, which means that the item is removed from the index.
//! Finally evacuation retires the segment, which becomes free once no reader uses it any more
//! (`epochs.rs`). Eviction and compaction use evacuation, and so does the reclamation of expired
//! and flushed items.
//!
//! Evacuation proceeds in steps of at most [`STEP_ITEMS`] blocks. While fewer segments are
//! available than the *reserve* (the low watermark of free segments), each write first makes one
//! step, and one more per [`STEP_BYTES`] that it writes. If the write then finds no free segment,
//! it makes further steps.
//!
//! Eviction follows S3-FIFO (Yang et al., SOSP 2023). Its two queues, the small and the main *part*
//! of the log, are queues of segments:
//!
//! - New items are written to the small part. When the oldest segment of the small part is
//!   evacuated, items that were requested again are copied to the main part. The other items are
//!   evicted, and their hashes are remembered as ghosts.
//! - An item that is written again while its ghost is remembered goes directly to the main part.
//! - When the oldest segment of the main part is evacuated, items that were requested often enough
//!   or late enough are copied to an open segment of the main part. The other items are evicted.
//!
//! The current policy (`eviction_policy.rs`) decides about each item. One of the policies has no
//! small part. Evacuation copies one block at a time, so the blocks of a segment may have any
//! lengths.

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
use crate::limits::{
    COMPACTION_STEPS, COPY_BYTES_PER_VISIT, COPY_WAITS_MAX, DEAD_PART, STEP_BYTES, STEP_ITEMS,
    STEPS_MAX,
};
use crate::log::draft::Draft;
use crate::log::{AllocTarget, Allocation, EvacuationReason, Gain, Log, Victim};
use crate::statistics::counters::Counter;
use crate::sync::yield_now;
use crate::worker::{Cursor, Worker};

/// Number of blocks in a batch. The index buckets of all blocks of a batch are prefetched before
/// the first block is looked up, so that the cache misses overlap.
const PREFETCH_BATCH: usize = 8;

impl Worker {
    /// Makes a bounded number of evacuation steps if fewer segments are available than the reserve.
    /// A write of `bytes` bytes calls this before it allocates memory.
    #[inline]
    pub(crate) fn assist_evacuation(&mut self, bytes: usize, now_s: u32) {
        let log = &self.store.log;
        let available = log.available();
        if available < log.reserve() {
            self.evacuate_for_write(bytes, now_s);
        } else if available < log.segment_limit() / 2 && self.store.config().evicts {
            // More than half of the memory is in use. Start the miniatures (simulations of the
            // eviction policies) now, so that they have compared the policies before the first
            // eviction. The memory is about half full, so a full one has about twice the items.
            let items_when_full = 2 * self.store.index.len();
            self.store.miniatures.start(items_when_full);
        }
    }

    /// Makes the evacuation steps of a write of `bytes` bytes: one, and one more per
    /// [`STEP_BYTES`], or [`COMPACTION_STEPS`] times as many of a compaction, but at most
    /// [`STEPS_MAX`].
    #[cold]
    fn evacuate_for_write(&mut self, bytes: usize, now_s: u32) {
        let mut steps = 1 + bytes / STEP_BYTES;
        let mut made = 0;
        while made < steps.min(STEPS_MAX) && self.evacuate_step(STEP_ITEMS, now_s) {
            made += 1;
            let is_compacting =
                |cursor: &Cursor| cursor.victim().reason == EvacuationReason::Compact;
            if made == 1 && self.cursor.as_ref().is_some_and(is_compacting) {
                steps *= COMPACTION_STEPS;
            }
        }
    }

    /// Does one step of background work:
    ///
    /// - Performs the delayed flush (the invalidation of all items) if it is due.
    /// - Examines one open segment. If all its items have expired or been flushed, seals it, which
    ///   means that no block can be appended to it.
    /// - Makes one step of index resizing.
    /// - Visits at most `budget` blocks for evacuation, but not more than [`STEP_ITEMS`]. If fewer
    ///   segments are available than the reserve, evacuation selects segments as for a write.
    ///   Otherwise it selects only segments whose items have all expired or been flushed.
    ///
    /// Returns true if evacuation may have more to do, so that the caller should call again.
    pub fn maintain(&mut self, now_s: u32, budget: usize) -> bool {
        self.ensure_online();
        // Requests perform a delayed flush that is due. Without requests, this call performs it.
        self.store.log.perform_due_flush(now_s);
        self.store.log.seal_expired(now_s);
        self.resize_index_step();
        let budget = budget.min(STEP_ITEMS);
        if self.store.log.available() < self.store.log.reserve() {
            return self.evacuate_step(budget, now_s);
        }
        self.reclaim_step(budget, now_s)
    }

    /// Reclaims segments whose items have all expired. For a thread that serves no requests. Makes
    /// at most `steps` steps. A step examines a few segments to find one to reclaim, and visits up
    /// to [`STEP_ITEMS`] of its blocks.
    ///
    /// Returns true if there may be more to reclaim now. Otherwise returns false, after computing
    /// the second from which there may be more to reclaim
    /// ([`Store::reclaim_time`](crate::Store::reclaim_time)).
    pub fn reclaim_expired(&mut self, now_s: u32, steps: usize) -> bool {
        self.ensure_online();
        // `update_reclaim_time` returns true if some segment may be reclaimable now.
        if self.cursor.is_none() && !self.store.log.update_reclaim_time(now_s) {
            return false;
        }
        // Each call of `seal_expired` examines another open segment.
        for _ in 0..self.store.log.open_segment_count() {
            self.store.log.seal_expired(now_s);
        }
        // Each search for a segment examines only some of the segments. Give up after as many
        // searches without a result as are needed to examine all segments.
        let mut searches_left = self.store.log.searches_per_cycle();
        for _ in 0..steps {
            if !self.reclaim_step(STEP_ITEMS, now_s) {
                searches_left -= 1;
            }
            if searches_left == 0 {
                self.store.log.update_reclaim_time(now_s);
                return false;
            }
        }
        true
    }

    /// Visits up to `budget` blocks of the segment that this worker is evacuating. If the worker is
    /// evacuating none, first selects a segment without live items. Returns false if no such
    /// segment is found, or for the second reason of [`Worker::evacuate_step`].
    fn reclaim_step(&mut self, budget: usize, now_s: u32) -> bool {
        if self.cursor.is_none()
            && let Some(victim) = self.store.log.select_empty_victim(now_s)
        {
            // The cursor is the right to evacuate the victim, and the position in it. The lease is
            // the worker's reference to the store, which the cursor clones.
            self.cursor = Some(self.cursor_of(victim));
        }
        self.cursor.is_some() && self.evacuate_step(budget, now_s)
    }

    /// Visits up to `budget` blocks of the segment that this worker is evacuating. Copying
    /// [`COPY_BYTES_PER_VISIT`] bytes counts as one further visit. If the worker is evacuating no
    /// segment, first selects a *victim*, the next segment to be evacuated. Returns false for two
    /// reasons:
    ///
    /// - No victim was found.
    /// - A block has to be kept but there is no space for its copy. The evacuation is abandoned:
    ///   the segment is sealed again, and keeps the blocks that were not copied or unlinked.
    pub(crate) fn evacuate_step(&mut self, budget: usize, now_s: u32) -> bool {
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => match self.store.log.select_victim(now_s, self.gain()) {
                Some(victim) => {
                    self.record_lifetime(victim, now_s);
                    self.cursor_of(victim)
                }
                None => return false,
            },
        };
        let mut budget_left = budget;
        while budget_left > 0 {
            let mut batch = [None; PREFETCH_BATCH];
            let (visits, has_more) = self.prefetch_batch(&mut cursor, budget_left, &mut batch);
            self.counters.add(Counter::Visits, visits as u64);
            for block in batch.iter().flatten() {
                let len = cursor.block(block.location).len();
                match self.evacuate_block(block, &cursor, now_s) {
                    BlockOutcome::Copied => {
                        cursor.count(len, false);
                        budget_left = budget_left.saturating_sub(len / COPY_BYTES_PER_VISIT);
                    }
                    BlockOutcome::Evicted => cursor.count(len, false),
                    BlockOutcome::Expired { item_len } => cursor.count(len.max(item_len), true),
                    BlockOutcome::Dead => {}
                    // Dropping the cursor abandons the evacuation.
                    BlockOutcome::NoSpace => return false,
                }
            }
            if !has_more {
                self.counters.count(Counter::Evacuated);
                if cursor.victim().reason == EvacuationReason::Evict {
                    let part = self.store.log.heap.segment(cursor.victim().number).part();
                    self.expired_thousandths[part as usize] = cursor.expired_thousandths();
                    // Adapt the number of ghosts to the number of items.
                    self.store.ghosts.fit(self.store.index.len());
                }
                // Retire the segment, to whose blocks nothing refers any more.
                cursor.retire();
                return true;
            }
            budget_left = budget_left.saturating_sub(visits);
        }
        self.cursor = Some(cursor);
        true
    }

    fn cursor_of(&self, victim: Victim) -> Cursor {
        let part = self.store.log.heap.segment(victim.number).part();
        Cursor::new(&self.lease, victim, self.expired_thousandths[part as usize])
    }

    /// How the next victim may gain memory.
    fn gain(&self) -> Gain {
        if !self.store.config().evicts {
            return Gain::NeverEvict;
        }
        let log = &self.store.log;
        let (live, occupied) = self.store.live_and_occupied_bytes();
        let memory = u64::from(log.segment_limit()) * u64::from(log.heap.segment_size());
        let is_dead = occupied.saturating_sub(live) * DEAD_PART >= memory.max(occupied);
        // After the limit was lowered, live items may have to go in any case. And copies would use
        // up the last free segments.
        match is_dead && live <= memory && !log.is_critical(false) {
            true => Gain::Compact {
                live_thousandths: live * 1000 / occupied.max(1),
            },
            false => Gain::Evict,
        }
    }

    /// Advances the cursor by at most `budget` blocks. Skips blocks that are marked dead, which
    /// means that their item was unlinked. Puts the other blocks into `batch`, and prefetches their
    /// index buckets. Stops early when `batch` is full. Returns two values: the number of blocks by
    /// which the cursor advanced, including the skipped ones, and whether the segment may contain
    /// further blocks.
    fn prefetch_batch(
        &self,
        cursor: &mut Cursor,
        budget: usize,
        batch: &mut [Option<Visited>; PREFETCH_BATCH],
    ) -> (usize, bool) {
        let mut unused_slots = batch.iter_mut();
        let mut visits = 0;
        while visits < budget {
            let Some((location, block)) = cursor.next() else {
                return (visits, false);
            };
            if !block.is_marked_dead() {
                let Some(slot) = unused_slots.next() else {
                    break;
                };
                let hash = if block.is_piece() {
                    block.piece_hash()
                } else {
                    self.hash(block.key()).0
                };
                self.store.index.prefetch(hash);
                *slot = Some(Visited { location, hash });
            }
            cursor.advance();
            visits += 1;
        }
        (visits, true)
    }

    /// Copies a block that the cursor has visited, or unlinks its item. Does nothing if the block
    /// is dead.
    fn evacuate_block(&mut self, visited: &Visited, cursor: &Cursor, now_s: u32) -> BlockOutcome {
        let (victim, block) = (cursor.victim(), cursor.block(visited.location));
        let has_block = |entry: Entry| self.item_has_block(entry, visited.location, block);
        let Some(entry) = self.store.index.find(visited.hash, has_block) else {
            // The block is dead, because its item was replaced or removed.
            return BlockOutcome::Dead;
        };
        let head = entry.location();
        // `miss_reason` returns a reason if the item has expired or was flushed. `unlink_expired`
        // checks this again under a lock, and returns false if meanwhile a touch (a command that
        // sets the expiry of an item) has extended the item's expiry, or another worker has moved
        // the head block. Then the item is treated as one that has not expired.
        let is_invalid = self.miss_reason(head, self.block(head), now_s).is_some();
        if is_invalid && self.unlink_expired(visited.hash, head, now_s) {
            let item_len = self.block(head).value_len();
            return BlockOutcome::Expired { item_len };
        }
        if let EvictionDecision::Keep { part, frequency } =
            self.eviction_decision(entry, block, cursor, now_s)
        {
            if self.copy_block(visited, block, part, frequency, now_s) {
                return BlockOutcome::Copied;
            }
            if !self.store.config().evicts {
                return BlockOutcome::NoSpace;
            }
            if victim.reason == EvacuationReason::Compact {
                self.store.log.give_up_compaction();
                return BlockOutcome::NoSpace;
            }
        }
        self.evict(visited, block, victim, now_s);
        BlockOutcome::Evicted
    }

    /// Decides whether to keep a live block of the cursor's segment. `entry` is the index entry of
    /// the block's item.
    fn eviction_decision(
        &self,
        entry: Entry,
        block: Block<'_>,
        cursor: &Cursor,
        now_s: u32,
    ) -> EvictionDecision {
        let victim = cursor.victim();
        let log = &self.store.log;
        let part = log.heap.segment(victim.number).part();
        let frequency = entry.frequency();
        match (victim.reason, part) {
            // A segment selected for `ReclaimEmpty` contains a live item only if a touch has
            // extended the item's expiry after the selection. A segment selected for `Compact` is
            // evacuated to gain the space between its live items. In both cases, all live items
            // are kept, in the same part.
            (EvacuationReason::ReclaimEmpty | EvacuationReason::Compact, part) => {
                EvictionDecision::Keep { part, frequency }
            }
            // The number of free segments is at or below the critical watermark, which may be
            // higher for a worker that waits for a segment. There is no space for copies, so items
            // that were requested are evicted too.
            (EvacuationReason::Evict, _) if log.is_critical(self.is_waiting) => {
                EvictionDecision::Evict
            }
            // What has expired makes room enough.
            (EvacuationReason::Evict, part) if cursor.finds_expired_items() => {
                EvictionDecision::Keep { part, frequency }
            }
            // An earlier evacuation kept the item's head block, so the item's pieces are kept too.
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

    /// Returns true if the item of `entry` was last requested after the first quarter of the
    /// lifetime of `victim`. See [`Lifetime::requested_after_first_quarter`] for exceptions.
    fn requested_after_first_quarter(&self, entry: Entry, victim: Victim, now_s: u32) -> bool {
        let log = &self.store.log;
        let lifetime = Lifetime {
            opened_s: log.heap.segment(victim.number).opened_s(),
            now_s,
            mean_s: log.mean_lifetime_s(),
        };
        lifetime.requested_after_first_quarter(self.block(entry.location()).access().time_s(now_s))
    }

    /// Adds the lifetime of `victim` to the moving average of lifetimes, if `victim` belongs to the
    /// main part and was selected for eviction.
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
    /// makes the item refer to the copy ([`Worker::relink`]). If the item has expired or was
    /// flushed meanwhile, unlinks the item instead. If the block was unlinked meanwhile, does
    /// nothing. Returns false only if there is no space for the copy.
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
        // The draft holds the segment of the copy until this function returns, so that the segment
        // is not evacuated before an item refers to the copy.
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

    /// Allocates memory for a copy. If no segment is free but there are retired segments, which
    /// will become free, waits briefly: yields at most [`COPY_WAITS_MAX`] times. Returns `None` if
    /// no segment becomes free in time. The caller then evicts the item or, in a store that does
    /// not evict, abandons the evacuation.
    fn allocate_copy(&mut self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        for _ in 0..COPY_WAITS_MAX {
            if let Some(allocation) = self.store.log.allocate(len, target) {
                return Some(allocation);
            }
            // Announce that this worker holds no references to blocks, so that retired segments can
            // become free. The block that is to be copied nevertheless stays valid, because only
            // this worker's cursor retires the block's segment.
            self.announce_quiescence();
            if !self.store.log.has_free_or_pending_segment_for_copy() {
                return None;
            }
            yield_now();
        }
        None
    }

    /// Makes an item refer to `copy` instead of `block`. If `block` is a piece, changes the piece's
    /// location in the list of pieces, which is in the item's head block. If `block` is a head
    /// block, changes the location in the item's index entry, `found`, and sets the frequency
    /// counter of the entry to `frequency`. `writer` is the lock of the item's index shard.
    fn relink(
        &self,
        writer: &Writer<'_>,
        found: &Found,
        copy: &BlockRef<'_>,
        block: Block<'_>,
        frequency: u8,
    ) {
        if block.is_piece() {
            let head = self.block(found.entry().location());
            if let Some(slot) = head.pieces().get(block.piece_number()) {
                // Release: pairs with the acquire in `pieces_of`. A reader that loads this location
                // sees the complete copy.
                slot.store(copy.location.units(), Ordering::Release);
            }
            return;
        }
        let new_head = copy.block;
        if block.is_in_pieces() {
            // Another worker may have moved a piece after the list was copied without the lock, so
            // copy the list again.
            for (to, from) in new_head.pieces().iter().zip(block.pieces()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        // A touch or a read may have changed these fields after they were copied without the lock,
        // so copy them again.
        new_head.set_expiry(block.expiry());
        new_head.set_access(block.access());
        copy.segment.raise_expiry(block.expiry());
        writer.relocate(found, copy.location, frequency);
    }
}

impl Log {
    /// Returns true if the head block of an item (the block with its key) was copied by an
    /// evacuation since the item was written. `entry` is the item's entry, and `victim` contains a
    /// piece of the item. A head that was written together with the piece is in a segment of the
    /// same part and about the same age. So the head was copied if it is in the main part and the
    /// piece in the small part, or if its segment was opened much later than the piece's segment.
    pub(crate) fn head_was_copied_out(&self, entry: Entry, victim: Victim) -> bool {
        let head = self.heap.segment_of(entry.location());
        let piece = self.heap.segment(victim.number);
        match (piece.part(), head.part()) {
            (Part::Small, Part::Main) => true,
            (Part::Main, Part::Main) => {
                let openings_between = head.opening().wrapping_sub(piece.opening()) / 2;
                let half = self.part_shares()[Part::Main as usize] / 2;
                // If the head's segment was opened first, the difference wraps to a larger number.
                (half + 1..u32::MAX / 4).contains(&openings_between)
            }
            (_, Part::Small) => false,
        }
    }
}

/// What evacuation did with a block.
enum BlockOutcome {
    Copied,
    Evicted,
    /// The block's item had expired or been flushed, and was unlinked. Its other blocks, if any,
    /// are dead now.
    Expired {
        item_len: usize,
    },
    /// The block was dead before.
    Dead,
    /// The block is still live, and there is no space for the copy that would keep it.
    NoSpace,
}

/// Returns the expiry of a block. It selects the open segment for the copy of the block. A piece
/// has no expiry of its own, so its copy goes to a segment for items that never expire.
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
