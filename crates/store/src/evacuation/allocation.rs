//! Allocates memory for a new block: immediately if memory is free, otherwise after evacuating or
//! waiting.

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::limits::{STEP_ITEMS, WAIT_STEPS_MAX, WAIT_YIELDS_MAX};
use crate::log::Allocation;
use crate::rejected::Rejected;
use crate::statistics::counters::Counter;
use crate::sync::yield_now;
use crate::worker::Worker;

impl Worker {
    /// Allocates memory for a block that is filled immediately. Takes a hole (the space of an
    /// overwritten item) of the same length if there is one. Returns `None` if no memory is free.
    /// Does not wait, and does not make the worker quiescent, so locations that the worker has read
    /// before stay valid.
    pub(crate) fn try_allocate(
        &self,
        len: usize,
        part: Part,
        expiry: Expiry,
        now_s: u32,
    ) -> Option<Allocation> {
        let target = self.target(part, expiry, now_s);
        let hole = self.take_hole(len, &target);
        hole.or_else(|| self.store.log.allocate(len, &target))
    }

    /// Allocates memory for a block. If no memory is free but some can become free, waits. Waiting
    /// makes the worker quiescent, so the memory of blocks that it has found before may be reused.
    pub(crate) fn allocate(
        &mut self,
        len: usize,
        part: Part,
        expiry: Expiry,
        now_s: u32,
    ) -> Result<Allocation, Rejected> {
        let target = self.target(part, expiry, now_s);
        loop {
            if let Some(allocation) = self.store.log.allocate(len, &target) {
                return Ok(allocation);
            }
            self.wait_for_segment(now_s)?;
        }
    }

    /// Waits until a segment is free for a new block. While few segments are free or about to
    /// become free, this worker evacuates. Otherwise it yields the processor, so that other workers
    /// can become quiescent and retired segments can become free.
    ///
    /// # Errors
    /// - [`Rejected::Deferred`] if a segment can become free, but only later: another worker takes
    ///   too long to become quiescent, a pin holds the segment, or evacuation needs more steps than
    ///   one operation may make.
    /// - [`Rejected::NoMemory`] if no segment can become free.
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

    /// Announces quiescence, which may make retired segments free, and checks for a free segment.
    fn has_free_segment(&mut self) -> bool {
        self.announce_quiescence();
        self.store.log.has_free_segment()
    }

    /// Evacuates or yields until a segment is free, or until a bound is reached.
    fn wait_until_free(&mut self, now_s: u32) -> Result<(), Rejected> {
        let (mut steps, mut yields, mut searches) = (0, 0, 0);
        loop {
            let log = &self.store.log;
            let may_evacuate = log.available() < log.reserve() && steps < WAIT_STEPS_MAX;
            if may_evacuate && self.evacuate_step(STEP_ITEMS, now_s) {
                steps += 1;
                searches = 0;
            } else if self.store.log.has_free_or_pending_segment() {
                if yields == WAIT_YIELDS_MAX {
                    return Err(Rejected::Deferred);
                }
                yields += 1;
                yield_now();
            } else {
                if steps == WAIT_STEPS_MAX && self.store.config().evicts {
                    // Evacuation has more to do. When the deferred request is tried again, the
                    // evacuation continues from the position of this worker's cursor.
                    return Err(Rejected::Deferred);
                }
                searches += 1;
                // Each search for a victim, the next segment to be evacuated, examines only some of
                // the segments. So give up only after as many searches as are needed to examine all
                // segments.
                if !may_evacuate || searches > self.store.log.searches_per_cycle() {
                    // If a segment can become free only when a pin is dropped, yielding would not
                    // help. A pin lasts until a client has received the pinned value, which takes
                    // much longer than a worker's burst of requests, and this worker itself may own
                    // the pin. The deferral ends, because the owner drops the pin when the client
                    // has the value, or closes the connection of a client that makes no progress.
                    return Err(match self.store.log.would_be_free_without_pins() {
                        true => Rejected::Deferred,
                        false => Rejected::NoMemory,
                    });
                }
            }
            if self.has_free_segment() {
                return Ok(());
            }
        }
    }
}
