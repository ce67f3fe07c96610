//! How a worker is woken: the event of its inbox signals new connections or a request for memory.

use super::worker::Worker;

impl Worker {
    /// Handles the inbox event.
    pub(super) fn drain_inbox(&mut self, now_ns: u64) {
        let (now_s, slow) = self.context.read_inbox(&self.table, now_ns);
        slow.into_iter().for_each(|slot| self.close(slot));
        while let Some(stream) = self.context.inbox.take() {
            self.take_runnable(stream, now_s);
        }
    }
}
