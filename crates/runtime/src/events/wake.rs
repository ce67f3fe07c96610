//! How other threads wake a worker of `events`: by an event of its inbox. They do so for new
//! connections, for the results of tickets (results that other threads produce), and when a
//! connection waits for memory.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Handles an event of the inbox: closes slow holders (connections that hold memory for which
    /// others wait, and whose peers are inactive), delivers the results of tickets, and takes new
    /// connections.
    #[cold]
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        self.inbox.waker.clear();
        self.connections.on_wake(now_ns);
        self.take_accepted(now_ns);
    }
}
