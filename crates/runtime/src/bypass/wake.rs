//! How other threads wake a worker of `bypass`: they wake the waker in the worker's inbox. In other
//! runtimes an inbox also contains new connections. Here the worker accepts connections itself.

use super::worker::Worker;

impl<S: service::Worker> Worker<'_, S> {
    /// Handles a wake-up. Closes slow holders: connections that hold memory for which other
    /// connections wait, and whose peers are inactive. Then delivers the results of tickets to the
    /// sessions that wait for them. (A *ticket* stands for a result that another thread produces.)
    #[cold]
    pub(super) fn on_wake(&mut self, now_ns: u64) {
        self.port.inbox.waker.clear();
        self.server.connections.on_wake(now_ns);
    }
}
