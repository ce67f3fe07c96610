//! Draining: how segments become free. Eviction, expiry, flushing and compaction are this one
//! thing, made in steps of at most [`STEP_ITEMS`] blocks; a writer makes one for each 4 KiB it
//! writes, and only one that finds no segment at all makes more.
//!
//! S3-FIFO (Yang and others, SOSP 2023) over segments: new items are written to the *small* part.
//! When the oldest of its segments goes, what has been asked for again moves to the *main* part and
//! the rest leaves, remembered by name; who comes back while its name is known is written to the
//! main part at once. When the oldest segment of the main part goes, what has been asked for since
//! it was last looked at is copied behind the newest and the rest leaves. How large the small part
//! is, what becomes of counts and how long names are known follows what is asked for
//! (`eviction_policy.rs`). Copying, and nothing else, is why this never waits for the shape of what
//! is stored: any segment can be drained.

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

/// How far a worker is with a segment. No other worker drains or retires it until this is dropped.
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

    /// The next block; none: the segment ends here.
    fn next(&self) -> Option<(Location, Block<'_>)> {
        let heap = &self.store.log.heap;
        // SAFETY: it was closed when all its blocks had been written, and only `retire`, which
        // takes the cursor, retires it.
        unsafe { heap.block_in(self.victim.number, self.at) }
    }

    /// A block of the segment, which the cursor has visited.
    fn block(&self, location: Location) -> Block<'_> {
        let heap = &self.store.log.heap;
        assert!(heap.number_of(location) == self.victim.number);
        // SAFETY: as in `next`.
        unsafe { heap.block(location) }
    }

    /// Nothing leads to the segment any more.
    fn retire(mut self) {
        self.is_done = true;
        self.store.log.retire(self.victim.number);
    }
}

impl Drop for Cursor {
    /// What has not been drained to its end can be drained by others.
    fn drop(&mut self) {
        if !self.is_done {
            self.store.log.abandon(self.victim.number);
        }
    }
}

/// Blocks whose places in the index are asked for together.
const AHEAD: usize = 8;

/// What is to become of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Leaves,
    Stays { part: Part, frequency: u8 },
}

/// A segment of the main part as it is to be drained.
struct Lifetime {
    opened_s: u32,
    now_s: u32,
    /// How long such segments live of late.
    usual_s: u32,
}

impl Lifetime {
    /// Whether an item last asked for then was asked for after the first quarter of its segment's
    /// life. A second chance for each request alone lets an item stay for one to two laps after its
    /// last, those longest that were asked for again and again just when they came and never
    /// since. A life that was drawn out, for nothing was written for a while, counts as a usual
    /// one: or else all that was asked for before would leave after.
    fn is_requested(&self, asked_s: u32) -> bool {
        let lifetime_s = self.now_s.saturating_sub(self.opened_s);
        let after_s = u64::from(asked_s.saturating_sub(self.opened_s));
        lifetime_s < LIFETIME_MIN_S
            || after_s * REQUESTED_PARTS >= u64::from(lifetime_s.min(self.usual_s))
    }
}

impl Worker {
    /// Drains a little if free segments are few. Every operation that is about to write `bytes`
    /// begins so.
    #[inline]
    pub(crate) fn assist_evacuation(&mut self, bytes: usize, now_s: u32) {
        let log = &self.store.log;
        let available = log.available();
        if available < log.reserve() {
            self.evacuate_for(bytes, now_s);
        } else if available < log.segment_limit() / 2 && self.store.config().evicts {
            // Half full: it will be known how to lean when something has to leave.
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

    /// Reclaims what has expired, or else what is to be evicted, if free segments are few; visits
    /// at most `budget` items. True: there may be more to do.
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

    /// Waits for a segment to come free: drains if too little is on its way, and lets others be
    /// quiescent.
    ///
    /// # Errors
    /// One is on its way, but somebody has not been quiescent for long, or more would have to be
    /// drained than may be at a time ([`Rejected::Deferred`]); or none is.
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
                    // Somebody has to leave; the next try goes on where this one ends.
                    return Err(Rejected::Deferred);
                }
                looks += 1;
                // One look sees some of the segments only.
                if !is_behind || looks > self.store.log.looks_around() {
                    return Err(Rejected::NoMemory);
                }
            }
            if self.has_free_segment() {
                return Ok(());
            }
        }
    }

    /// Visits up to `budget` blocks of the segment that is being drained, or of the next. False:
    /// there is none.
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
            let (passed, goes_on) = self.look_ahead(&mut cursor, left, &mut ahead);
            self.counters.add(Counter::Visits, passed as u64);
            for block in ahead.iter().flatten() {
                match self.evacuate_block(block, &cursor, now_s) {
                    Evacuated::Moved(bytes) => {
                        left = left.saturating_sub(bytes / COPY_BYTES_PER_VISIT)
                    }
                    Evacuated::Gone => {}
                    Evacuated::Stuck => return false,
                }
            }
            if !goes_on {
                self.counters.count(Counter::Evacuated);
                cursor.retire();
                return true;
            }
            left = left.saturating_sub(passed);
        }
        self.cursor = Some(cursor);
        true
    }

    /// Goes on to the next few blocks that may be alive, passing at most `budget`, and asks for
    /// their places in the index. Returns how many it passed, dead ones included, and whether the
    /// segment goes on.
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
        // If it is not dead any more, or its head has moved, it is an item like any other.
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

    /// Whether the entry's item is this block, or this block is a piece of its value.
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
            // Touched after its segment was chosen, or hardly anything else is left here.
            (Task::Clear | Task::Compact, part) => Fate::Stays { part, frequency },
            // Where all has been asked for, somebody has to leave.
            (Task::Evict, _) if log.is_critical(self.is_waiting) => Fate::Leaves,
            // Its item has been judged already, and stays.
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

    /// Copies a block behind the newest and lets what led to it lead there. False: there is no
    /// room.
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

    /// Takes memory for a copy. Where segments only wait for other workers to be quiescent, it
    /// waits for them a little: what is copied shall stay.
    fn allocate_copy(&mut self, len: usize, target: &AllocTarget) -> Option<Allocation> {
        for _ in 0..COPY_WAITS_MAX {
            if let Some(allocation) = self.store.log.take(len, target) {
                return Some(allocation);
            }
            // What is copied is borrowed from the cursor, whose segment is not retired.
            self.pass();
            if !self.store.log.has_pending_segment(true) {
                return None;
            }
            yield_now();
        }
        None
    }

    /// Lets the index, or the list of the item, lead to the copy of a block.
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
                // Release: pairs with the acquire in `pieces_of`: who is led there sees it whole.
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
        // So may what touch and reads change.
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

    /// Lets an item leave, of which there was something in this part.
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

/// What became of a block.
enum Evacuated {
    /// It was copied: so many bytes.
    Moved(usize),
    /// Nothing leads there any more.
    Gone,
    /// It must stay and cannot be copied.
    Stuck,
}

/// A block that was visited, and the hash of its item's key.
#[derive(Debug, Clone, Copy)]
struct Visited {
    location: Location,
    hash: u64,
}

/// A piece does not know when it expires: it lies with what never does.
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
        // Before it was opened: it was copied here, and not asked for since.
        assert!([90, 100, 114].into_iter().all(|at| !usual.is_requested(at)));
        // Five quiet minutes since make no difference to what came before them.
        let lull = lifetime(460, 60);
        assert!([115, 130, 160].into_iter().all(|at| lull.is_requested(at)));
        assert!(!lull.is_requested(114));
        // Where segments live long, they do.
        assert!(!lifetime(460, 360).is_requested(160));
        // Too short to tell, or nothing is known yet.
        assert!(lifetime(107, 60).is_requested(100));
        assert!(!lifetime(108, 60).is_requested(100));
        assert!(lifetime(160, 0).is_requested(100));
        // A clock that went back.
        assert!(lifetime(90, 60).is_requested(120));
    }
}
