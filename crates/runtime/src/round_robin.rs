//! Round-robin dispatch of new connections to workers.

use std::mem;
use std::sync::Arc;

use sys::socket::Stream;

use crate::acceptor::{Dispatch, Exhausted, reject};
use crate::inbox::Inbox;
use crate::running::Running;
use crate::setup::Setup;

/// Passes each new connection to the next worker.
pub(crate) struct RoundRobin {
    inboxes: Vec<Arc<Inbox>>,
    /// Inboxes that got a connection since the last flush.
    inbox_is_ready: Vec<bool>,
    next: usize,
    setup: Arc<Setup>,
}

impl RoundRobin {
    pub(crate) fn new(setup: &Arc<Setup>, running: &Running) -> Self {
        Self {
            inboxes: running.inboxes.clone(),
            inbox_is_ready: vec![false; running.inboxes.len()],
            next: 0,
            setup: Arc::clone(setup),
        }
    }
}

impl Dispatch for RoundRobin {
    fn take(&mut self, stream: Stream) -> Result<(), Exhausted> {
        self.next = (self.next + 1) % self.inboxes.len();
        if let Err(stream) = self.inboxes[self.next].push(stream) {
            reject(&stream, &self.setup.counts);
        }
        self.inbox_is_ready[self.next] = true;
        Ok(())
    }

    fn flush(&mut self) {
        for (inbox, inbox_is_ready) in self.inboxes.iter().zip(&mut self.inbox_is_ready) {
            if mem::take(inbox_is_ready) {
                inbox.waker.wake();
            }
        }
    }
}
