//! Dealing new connections out: each is admitted or turned away, and goes to the next worker in
//! turn.

use std::sync::Arc;

use protocol::reply::TOO_MANY_CONNECTIONS;
use sys::socket::Stream;

use crate::inbox::Inbox;
use crate::running::Running;
use crate::setup::Setup;

/// Deals connections out to workers.
pub(crate) struct Dealer {
    inboxes: Vec<Arc<Inbox>>,
    /// Which inboxes were given something in this round.
    has_mail: Vec<bool>,
    next: usize,
    pub(crate) setup: Arc<Setup>,
}

impl Dealer {
    pub(crate) fn new(setup: Arc<Setup>, running: &Running) -> Self {
        Self {
            inboxes: running.inboxes.clone(),
            has_mail: vec![false; running.inboxes.len()],
            next: 0,
            setup,
        }
    }

    /// Hands a connection to the next worker, or turns it away.
    pub(crate) fn deal(&mut self, stream: Stream) {
        if !self.setup.census.admit() {
            turn_away(&stream);
            return;
        }
        stream.set_nodelay();
        self.next = (self.next + 1) % self.inboxes.len();
        if let Err(stream) = self.inboxes[self.next].push(stream) {
            self.setup.census.turn_away();
            turn_away(&stream);
        }
        self.has_mail[self.next] = true;
    }

    /// Rouses the workers that were given something.
    pub(crate) fn rouse(&mut self) {
        for (inbox, has_mail) in self.inboxes.iter().zip(&mut self.has_mail) {
            if std::mem::take(has_mail) {
                inbox.waker.wake();
            }
        }
    }
}

/// Says why, as far as there is room; the caller closes.
pub(crate) fn turn_away(stream: &Stream) {
    let _ = stream.send(TOO_MANY_CONNECTIONS);
}
