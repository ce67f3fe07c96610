//! Round-robin dispatch of new connections to workers. It is used by the runtimes `events` and
//! `rings` ([`Kind`](crate::Kind)), in which each worker has an epoll instance or an io_uring.

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
    /// For each inbox, whether `flush` has to wake the worker of the inbox. This is the case if
    /// the inbox was selected for a connection since the last `flush`, even if the inbox was full
    /// and the connection was rejected.
    inbox_is_ready: Vec<bool>,
    /// Index of the inbox that was selected for the last connection.
    last: usize,
    setup: Arc<Shared>,
}

impl RoundRobin {
    /// Creates the dispatcher. `setup` contains the parameters and the connection counters of the
    /// runtime, and `running` contains the inboxes of the runtime's workers.
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
