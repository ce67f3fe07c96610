//! How a worker is roused: an event of its inbox says that there are new connections, or that
//! somebody wants memory.

use super::worker::Worker;

impl Worker {
    /// Takes up what has come to the inbox.
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        let (now_s, slow) = self.context.read_inbox(&self.table, now_ns);
        slow.into_iter().for_each(|slot| self.close(slot));
        while let Some(stream) = self.context.inbox.take() {
            self.take_runnable(stream, now_s);
        }
    }
}
