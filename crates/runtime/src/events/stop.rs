//! How a worker ends: it closes who has nothing under way, until nobody is left.

use super::worker::Worker;
use crate::connection::Connection;

impl Worker {
    /// Closes what is idle, after a last look at what may have arrived; true when nobody is left.
    pub(super) fn drain(&mut self, now_ns: u64) -> bool {
        for slot in self.table.slots() {
            let is_idle = |connection: &Connection<_>| !connection.queued && connection.is_idle();
            if self.table.get(slot).is_some_and(is_idle) {
                self.serve(&[slot], now_ns);
                if self.table.get(slot).is_some_and(is_idle) {
                    self.close(slot);
                }
            }
        }
        self.table.is_empty()
    }
}
