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
            let mut cursor = Cursor::new(&self.lease, victim);
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
