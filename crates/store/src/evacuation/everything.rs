//! Evicts all items, for tests that need all items in the tier (the slower storage to which evicted
//! items are copied). Normal eviction would leave popular items and the items of open segments in
//! memory.

use crate::evacuation::evict::Visited;
use crate::worker::{Cursor, Worker};

impl Worker {
    /// Evicts all items, except those in segments that a pin or an unfinished upload holds. The
    /// tier gets a copy of each evicted item that it accepts. No other worker may be online.
    #[doc(hidden)]
    pub fn evict_everything(&mut self, now_s: u32) {
        self.ensure_online();
        // Abandon the evacuation that this worker has begun, and seal all open segments, so that
        // every segment can be selected below.
        self.cursor = None;
        self.store.log.seal_all();
        while let Some(victim) = self.store.log.select_any_victim() {
            let mut cursor = Cursor::new(&self.lease, victim, 0);
            while let Some((location, block)) = cursor.next() {
                let hash = match block.is_piece() {
                    true => block.piece_hash(),
                    false => self.hash(block.key()).0,
                };
                self.evict(&Visited { location, hash }, block, victim, now_s);
                cursor.advance();
            }
            cursor.retire();
            // Announce that this worker holds no references, so that the segment can become free.
            self.quiescent();
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use crate::expiry::Expiry;
    use crate::heap::segment::Phase;
    use crate::limits::SCAN_SEGMENTS;
    use crate::operations::request::{Mode, Write};
    use crate::store::store_of_small_segments;

    const NOW_S: u32 = 1;

    /// Regression: eviction ended at the first search that found only held segments. A search
    /// examines at most [`SCAN_SEGMENTS`].
    #[test]
    fn segments_behind_many_held_segments_are_evicted_too() {
        let held_count = SCAN_SEGMENTS + 1;
        let store = store_of_small_segments(2 * held_count as usize);
        let mut worker = store.worker();
        let heap = &store.log.heap;
        let count_sealed = || {
            let is_sealed = |&number: &u32| heap.segment(number).phase() == Phase::Sealed;
            (0..heap.count()).filter(is_sealed).count()
        };
        // Write items until more segments are sealed than are held below.
        for number in 0_u16.. {
            let key = number.to_le_bytes();
            let write = Write::plain(Mode::Set, Expiry::NEVER);
            let hash = worker.hash(&key);
            worker.put(&key, hash, &[0; 40], &write, NOW_S).unwrap();
            if count_sealed() > held_count as usize {
                break;
            }
        }
        // The oldest segments have the lowest numbers. Hold them, as pins would.
        for number in 0..held_count {
            heap.segment(number).hold();
        }
        worker.evict_everything(NOW_S);
        assert_eq!(count_sealed(), held_count as usize);
    }
}
