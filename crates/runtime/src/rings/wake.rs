//! How a worker is roused: an event of its inbox says that there are new connections, or that
//! somebody wants memory.

use super::worker::{INBOX, Worker};

impl Worker {
    /// Has the ring say when something has come to the inbox.
    pub(super) fn watch_inbox(&mut self) {
        self.ring.watch(&self.context.inbox.waker, INBOX);
    }

    /// Takes up what has come to the inbox.
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        let (now_s, slow) = self.context.read_inbox(&self.table, now_ns);
        slow.into_iter().for_each(|slot| self.close(slot));
        while let Some(stream) = self.context.inbox.take() {
            self.take_runnable(stream, now_s);
        }
    }
}
