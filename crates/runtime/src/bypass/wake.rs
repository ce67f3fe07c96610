//! How other threads wake a worker of `bypass`: by an event of its inbox, which is otherwise empty.

use super::worker::Worker;

impl<S: service::Worker> Worker<'_, S> {
    /// Handles an event of the inbox: closes slow holders, and delivers results of tickets.
    #[cold]
    pub(super) fn on_wake(&mut self, now_ns: u64) {
        self.port.inbox.waker.clear();
        self.server.connections.on_wake(now_ns);
    }
}
