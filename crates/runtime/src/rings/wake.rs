//! How other threads wake a worker of `rings`: with an event of the worker's inbox. They do so for
//! new connections, for the results of tickets, when a connection waits for memory, and when the
//! worker has to stop.

use super::worker::{INBOX_TOKEN, Worker};

impl<S: service::Worker> Worker<S> {
    /// Starts an operation that makes the kernel post an event to the ring whenever another thread
    /// uses the inbox's waker.
    pub(super) fn watch_inbox(&mut self) {
        self.ring.watch_readable(&self.inbox.waker, INBOX_TOKEN);
    }

    /// Handles an event of the inbox. Closes slow holders (connections that hold store memory and
    /// whose peers are too slow), if another connection needs this memory. Delivers the results of
    /// tickets, and closes connections if they then keep too many bytes. Takes new connections.
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        self.inbox.waker.clear();
        for slot in self.context.slow_holders(&self.table, now_ns) {
            self.close(slot);
        }
        for slot in self.context.deliver(&mut self.table, now_ns) {
            self.close(slot);
        }
        if self.context.is_share_exceeded() {
            self.close_excess();
        }
        while let Some(transport) = self.inbox.take() {
            self.register(transport, now_ns);
        }
    }
}
