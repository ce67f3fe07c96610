//! How a worker is woken: the event of its inbox signals new connections, results of tickets, or a
//! request for memory.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Handles the inbox event.
    #[cold]
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        self.inbox.waker.clear();
        self.connections.on_wake(now_ns);
        self.take_accepted(now_ns);
    }
}
