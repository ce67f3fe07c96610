//! Round-robin dispatch of new connections to the workers of `events` and `rings`.

use std::mem;
use std::sync::Arc;

use crate::acceptor::{Dispatch, Exhausted, reject};
use crate::inbox::Inbox;
use crate::running::Running;
use crate::setup::Shared;
use crate::transport::{SocketTransport, Transport as _};

/// Passes each new connection to the inbox of the next worker.
pub(crate) struct RoundRobin {
    inboxes: Vec<Arc<Inbox>>,
    /// For each inbox, whether a connection was passed to it since the last flush. Its worker then
    /// has to be woken.
    inbox_is_ready: Vec<bool>,
    /// Index of the inbox of the last connection.
    last: usize,
    setup: Arc<Shared>,
}

impl RoundRobin {
    pub(crate) fn new(setup: &Arc<Shared>, running: &Running) -> Self {
        Self {
            inboxes: running.inboxes.clone(),
            inbox_is_ready: vec![false; running.inboxes.len()],
            last: 0,
            setup: Arc::clone(setup),
        }
    }
}

impl Dispatch for RoundRobin {
    fn take(&mut self, transport: SocketTransport) -> Result<(), Exhausted> {
        self.last = (self.last + 1) % self.inboxes.len();
        if let Err(transport) = self.inboxes[self.last].push(transport) {
            reject(transport.stream(), transport.is_plain(), &self.setup);
        }
        self.inbox_is_ready[self.last] = true;
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
