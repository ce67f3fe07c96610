//! How other threads wake a worker of `bypass`: by the waker of its inbox. No connections are
//! passed through the inbox, because the worker accepts them itself.

use super::worker::Worker;

impl<S: service::Worker> Worker<'_, S> {
    /// Handles a wake-up: closes slow holders (connections that hold memory for which others wait,
    /// and whose peers are inactive), and delivers the results of tickets (results that other
    /// threads produce).
    #[cold]
    pub(super) fn on_wake(&mut self, now_ns: u64) {
        self.port.inbox.waker.clear();
        self.server.connections.on_wake(now_ns);
    }
}
