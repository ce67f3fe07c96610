//! How a worker of `rings` stops: it closes its connections as they become idle, until no
//! connection is open or the deadline has passed.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Closes the idle connections. An idle connection has no unanswered input, no unsent reply and
    /// no unfinished upload, and waits for no result. Returns true if no connection is open any
    /// more.
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
