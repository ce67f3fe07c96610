//! How other threads wake a worker of `events`: by an event of the worker's inbox. The reasons are
//! a new connection, the result of a ticket, a connection of any worker that waits for memory, and
//! the stop of the server.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Handles an event of the inbox: takes new connections, delivers the results of tickets, and
    /// closes slow holders.
    #[cold]
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        self.inbox.waker.clear();
        // Closes slow holders and delivers results.
        self.connections.on_wake(now_ns);
        self.take_accepted(now_ns);
    }
}
