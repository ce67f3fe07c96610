//! How a worker ends: it closes who has nothing under way, until nobody is left.

use super::worker::Worker;

impl Worker {
    /// Closes what is idle, after what has arrived was answered; true when nobody is left.
    pub(super) fn drain(&mut self) -> bool {
        for slot in self.table.slots() {
            if let Some(connection) = self.table.get(slot)
                && !connection.queued
                && connection.is_idle()
                && connection.io_state.is_idle()
            {
                self.close(slot);
            }
        }
        self.table.is_empty()
    }
}
