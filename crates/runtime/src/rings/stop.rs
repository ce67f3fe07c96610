//! How a worker stops: it closes idle connections until none is left.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Closes idle connections after their input was answered. Returns true once none is left.
    pub(super) fn drain(&mut self) -> bool {
        for slot in self.table.slots() {
            if let Some(connection) = self.table.get(slot)
                && !connection.is_queued
                && connection.is_idle()
                && connection.io.is_idle()
            {
                self.close(slot);
            }
        }
        self.table.is_empty()
    }
}
