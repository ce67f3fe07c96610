//! How a worker ends: it closes who has nothing under way, until nobody is left.

use super::worker::Worker;
use crate::connection::Connection;

impl Worker {
    /// Closes what is idle, after a last look at what may have arrived; true when nobody is left.
    pub(super) fn drain(&mut self, now_ns: u64) -> bool {
        for place in self.table.places() {
            let is_idle = |connection: &Connection<_>| !connection.queued && connection.is_idle();
            if self.table.get(place).is_some_and(is_idle) {
                self.serve(&[place], now_ns);
                if self.table.get(place).is_some_and(is_idle) {
                    self.close(place);
                }
            }
        }
        self.table.is_empty()
    }
}
