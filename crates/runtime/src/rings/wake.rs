//! How other threads wake a worker of `rings`: by an event of its inbox. They do so for new
//! connections, for the results of tickets, and when a connection waits for memory.

use super::worker::{INBOX_TOKEN, Worker};

impl<S: service::Worker> Worker<S> {
    /// Starts an operation by which the kernel posts an event to the ring whenever another thread
    /// uses the inbox's waker.
    pub(super) fn watch_inbox(&mut self) {
        self.ring.watch_readable(&self.inbox.waker, INBOX_TOKEN);
    }

    /// Handles an event of the inbox: closes slow holders, delivers the results of tickets, and
    /// takes new connections.
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
