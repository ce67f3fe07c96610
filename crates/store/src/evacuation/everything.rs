//! Evicts all items, for tests that need them in the tier (the slower storage to which evicted
//! items are copied). In normal operation, popular items and the items of open segments stay in
//! memory.

use crate::evacuation::evict::Visited;
use crate::worker::{Cursor, Worker};

impl Worker {
    /// Evicts the items of all segments that no pin or unfinished upload holds. The items that the
    /// tier accepts are then only in the tier. No other worker may be online.
    #[doc(hidden)]
    pub fn evict_everything(&mut self, now_s: u32) {
        self.ensure_online();
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
                cursor.advance(block.len());
            }
            cursor.retire();
            self.quiescent();
        }
    }
}
