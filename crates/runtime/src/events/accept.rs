//! How a worker of `events` takes the connections that the acceptor has passed to it.

use super::worker::Worker;

impl<S: service::Worker> Worker<S> {
    /// Takes all new connections out of the inbox, opens their sessions, and registers them with
    /// epoll.
    pub(super) fn take_accepted(&mut self, now_ns: u64) {
        while let Some(transport) = self.inbox.take() {
            self.connections.accept(transport, now_ns);
        }
    }
}
