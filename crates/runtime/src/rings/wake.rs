//! How a worker is roused: an event of its inbox says that there are new connections, or that
//! somebody wants memory.

use super::worker::{INBOX, Worker};

impl Worker {
    /// Has the ring say when something has come to the inbox.
    pub(super) fn watch_inbox(&mut self) {
        self.ring.watch(&self.desk.inbox.waker, INBOX);
    }

    /// Takes up what has come to the inbox.
    pub(super) fn take_mail(&mut self, now_ns: u64) {
        let (now_s, slow) = self.desk.open_mail(&self.table, now_ns);
        slow.into_iter().for_each(|place| self.close(place));
        while let Some(stream) = self.desk.inbox.take() {
            self.take_up(stream, now_s);
        }
    }
}
