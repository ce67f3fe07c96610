//! How a worker ends: it closes who has nothing under way, until nobody is left.

use super::worker::Worker;

impl Worker {
    /// Closes what is idle, after what has arrived was answered; true when nobody is left.
    pub(super) fn drain(&mut self) -> bool {
        for place in self.table.places() {
            if let Some(connection) = self.table.get(place)
                && !connection.queued
                && connection.is_idle()
                && connection.wire.is_idle()
            {
                self.close(place);
            }
        }
        self.table.is_empty()
    }
}
