//! How a worker is woken: the event of its inbox signals new connections, results of tickets, or a
//! request for memory.

use super::worker::{INBOX_TOKEN, Worker};
use crate::setup::second;

impl<S: service::Worker> Worker<S> {
    /// Watches the event of the inbox.
    pub(super) fn watch_inbox(&mut self) {
        self.ring.watch(&self.inbox.waker, INBOX_TOKEN);
    }

    /// Handles the inbox event.
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        self.inbox.waker.clear();
        for slot in self.context.slow_holders(&self.table, now_ns) {
            self.close(slot);
        }
        for slot in self.context.deliver(&mut self.table, now_ns) {
            self.close(slot);
        }
        while let Some(transport) = self.inbox.take() {
            self.register(transport, second(now_ns));
        }
    }
}
