//! How a worker takes the connections dispatched to it.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Registers the connections in the inbox.
    pub(super) fn take_accepted(&mut self, now_ns: u64) {
        while let Some(transport) = self.inbox.take() {
            self.connections.accept(transport, now_ns);
        }
    }
}
