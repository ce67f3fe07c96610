//! How a worker stops: it closes idle connections until none is left.

use super::worker::Worker;
use crate::connection::Connection;

impl Worker {
    /// Closes idle connections after a last receive on each. Returns true once none is left.
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
