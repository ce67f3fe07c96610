//! Allocates memory for a new block. If no memory is free, this worker first evacuates segments, or
//! waits until other workers are *quiescent*: until they have announced that they hold no
//! references to blocks. Memory to which workers may hold references is not reused (`epochs.rs`).

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::limits::{STEP_ITEMS, WAIT_STEPS_MAX, WAIT_YIELDS_MAX};
use crate::log::Allocation;
use crate::rejected::Rejected;
use crate::statistics::counters::Counter;
use crate::sync::yield_now;
use crate::worker::Worker;

impl Worker {
    /// Allocates memory for a block that the caller fills at once, without waiting for a client.
    /// Takes a hole (the space of an overwritten or deleted item) of the same length if there is
    /// one. Returns `None` if no memory is free. Does not wait, and does not make this worker
    /// quiescent, so locations that this worker has read before stay valid.
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

    /// Allocates memory for a block. If no memory is free, waits as [`Worker::wait_for_segment`]
    /// does. Waiting makes this worker quiescent, so the memory of blocks that this worker has
    /// found before may be reused.
    ///
    /// # Errors
    /// As [`Worker::wait_for_segment`].
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

    /// Waits until a segment is free for a new block. While fewer segments are available (free, or
    /// retired and soon free) than the reserve, this worker evacuates. If it need not or cannot
    /// evacuate, it yields the processor, so that other workers can become quiescent and retired
    /// segments can become free.
    ///
    /// # Errors
    /// - [`Rejected::Deferred`] if a segment can become free, but only later. There are three
    ///   reasons. Another worker takes too long to become quiescent. Or evacuation needs more steps
    ///   than one operation may make. Or the segment is held by a pin, which keeps a value for a
    ///   client that is receiving it, or by an upload, which receives a value from a client.
    /// - [`Rejected::NoMemory`] if no segment can become free.
    pub(crate) fn wait_for_segment(&mut self, now_s: u32) -> Result<(), Rejected> {
        if self.poll_free_segment() {
            return Ok(());
        }
        self.counters.count(Counter::Waits);
        self.is_waiting = true;
        let waited = self.wait_until_free(now_s);
        self.is_waiting = false;
        waited
    }

    /// Announces that this worker is quiescent, which may make retired segments free. Then returns
    /// true if a segment is free.
    fn poll_free_segment(&mut self) -> bool {
        self.announce_quiescence();
        self.store.log.has_free_segment()
    }

    /// Evacuates or yields until a segment is free. Gives up after [`WAIT_STEPS_MAX`] steps of
    /// evacuation or [`WAIT_YIELDS_MAX`] yields, or if no segment is left to evacuate.
    fn wait_until_free(&mut self, now_s: u32) -> Result<(), Rejected> {
        let (mut steps, mut yields, mut failed_searches) = (0, 0, 0);
        loop {
            let log = &self.store.log;
            let may_evacuate = log.available() < log.reserve() && steps < WAIT_STEPS_MAX;
            if may_evacuate && self.evacuate_step(STEP_ITEMS, now_s) {
                steps += 1;
                failed_searches = 0;
            } else if self.store.log.has_free_or_pending_segment() {
                if yields == WAIT_YIELDS_MAX {
                    return Err(Rejected::Deferred);
                }
                yields += 1;
                yield_now();
            } else {
                if steps == WAIT_STEPS_MAX && self.store.config().evicts {
                    // This operation has made all steps that it may make, but evacuation has more
                    // to do. When the deferred operation is tried again, evacuation continues where
                    // it stopped, from the position of this worker's cursor.
                    return Err(Rejected::Deferred);
                }
                failed_searches += 1;
                // Each search for a victim, the next segment to be evacuated, examines only some of
                // the segments. So give up only after as many failed searches as are needed to
                // examine all segments.
                if !may_evacuate || failed_searches > self.store.log.searches_per_cycle() {
                    // If a segment can become free only when a pin is dropped, yielding would not
                    // help. A pin lasts until a client has received the pinned value, which takes
                    // much longer than the few requests that a worker serves at a time. Also, this
                    // worker itself may own the pin. The operation is not deferred for ever: the
                    // owner drops the pin when the client has received the value, or closes the
                    // connection of a client that makes no progress.
                    return Err(match self.store.log.would_be_free_without_pins() {
                        true => Rejected::Deferred,
                        false => Rejected::NoMemory,
                    });
                }
            }
            if self.poll_free_segment() {
                return Ok(());
            }
        }
    }
}
