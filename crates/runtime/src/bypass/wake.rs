//! How other threads wake a worker of `bypass`: they wake the waker in the worker's inbox. In other
//! runtimes an inbox also contains new connections. Here the worker accepts connections itself.

use super::worker::Worker;

impl<S: service::Worker> Worker<'_, S> {
    /// Handles a wake-up: closes slow holders, then delivers the results of tickets to the sessions
    /// that wait for them.
    #[cold]
    pub(super) fn on_wake(&mut self, now_ns: u64) {
        self.port.inbox.waker.clear();
        self.server.connections.on_wake(now_ns);
    }
}
