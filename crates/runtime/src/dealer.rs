//! Dealing new connections out: each goes to the next worker in turn.

use std::mem;
use std::sync::Arc;

use sys::socket::Stream;

use crate::acceptor::{Exhausted, Host, turn_away};
use crate::inbox::Inbox;
use crate::running::Running;
use crate::setup::Setup;

/// Deals connections out to workers.
pub(crate) struct Dealer {
    inboxes: Vec<Arc<Inbox>>,
    /// Which inboxes were given something in this round.
    has_mail: Vec<bool>,
    next: usize,
    setup: Arc<Setup>,
}

impl Dealer {
    pub(crate) fn new(setup: &Arc<Setup>, running: &Running) -> Self {
        Self {
            inboxes: running.inboxes.clone(),
            has_mail: vec![false; running.inboxes.len()],
            next: 0,
            setup: Arc::clone(setup),
        }
    }
}

impl Host for Dealer {
    fn take(&mut self, stream: Stream) -> Result<(), Exhausted> {
        self.next = (self.next + 1) % self.inboxes.len();
        if let Err(stream) = self.inboxes[self.next].push(stream) {
            turn_away(&stream, &self.setup.census);
        }
        self.has_mail[self.next] = true;
        Ok(())
    }

    fn rouse(&mut self) {
        for (inbox, has_mail) in self.inboxes.iter().zip(&mut self.has_mail) {
            if mem::take(has_mail) {
                inbox.waker.wake();
            }
        }
    }
}
