//! The thread that accepts: it admits or rejects, and deals connections to workers in turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::reply::TOO_MANY_CONNECTIONS;
use sys::poll::{Events, Interest, Poll, Waker};
use sys::socket::{Listener, Stream, is_exhaustion};

use super::wake::Inbox;
use crate::limits::{ACCEPT_REST_NS, ACCEPTS_IN_A_ROW};
use crate::setup::Setup;

const WAKER: u64 = u64::MAX;

/// The thread that accepts.
pub struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    inboxes: Vec<Arc<Inbox>>,
    /// Which inboxes were given something in this round.
    has_mail: Vec<bool>,
    next: usize,
    setup: Arc<Setup>,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

/// What came of accepting.
enum Accepted {
    /// Nobody waits any more.
    AllThere,
    /// Somebody may still wait.
    Enough,
    /// Descriptors or memory have run out.
    Exhausted,
}

impl Acceptor {
    pub(super) fn new(
        listeners: Vec<Listener>,
        inboxes: Vec<Arc<Inbox>>,
        setup: Arc<Setup>,
        stopping: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new()?);
        poll.add(&*waker, WAKER, Interest::Read)?;
        for (token, listener) in listeners.iter().enumerate() {
            poll.add(listener, token as u64, Interest::Read)?;
        }
        Ok(Self {
            poll,
            listeners,
            has_mail: vec![false; inboxes.len()],
            inboxes,
            next: 0,
            setup,
            stopping,
            waker,
        })
    }

    pub(super) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(self.listeners.len() + 1);
        while !self.stopping.load(Ordering::Relaxed) {
            if self.poll.wait(&mut events, None).is_err() {
                return;
            }
            let mut exhausted = false;
            for ready in events.iter() {
                if let Ok(token) = usize::try_from(ready.token)
                    && token < self.listeners.len()
                {
                    exhausted |= matches!(self.accept(token), Accepted::Exhausted);
                }
            }
            for (inbox, has_mail) in self.inboxes.iter().zip(&mut self.has_mail) {
                if std::mem::take(has_mail) {
                    inbox.waker.wake();
                }
            }
            if exhausted {
                self.rest();
            }
        }
    }

    fn accept(&mut self, token: usize) -> Accepted {
        for _ in 0..ACCEPTS_IN_A_ROW {
            match self.listeners[token].accept() {
                Ok(stream) => self.admit(stream),
                Err(error) if is_exhaustion(&error) => return Accepted::Exhausted,
                Err(_) => return Accepted::AllThere,
            }
        }
        Accepted::Enough
    }

    fn admit(&mut self, stream: Stream) {
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

    /// Lets those who wait wait on in the kernel, until descriptors may have come free.
    fn rest(&self) {
        let census = &self.setup.census;
        census.rest();
        let started_ns = sys::clock::monotonic_ns();
        self.listen_for(Interest::None);
        // Only the waker can be ready.
        let _ = self
            .poll
            .wait(&mut Events::with_capacity(1), Some(ACCEPT_REST_NS));
        self.listen_for(Interest::Read);
        census.resume(sys::clock::monotonic_ns() - started_ns);
    }

    fn listen_for(&self, interest: Interest) {
        for (token, listener) in self.listeners.iter().enumerate() {
            // They were added at the start; changing what is registered cannot fail.
            let _ = self.poll.change(listener, token as u64, interest);
        }
    }
}

/// Says why, as far as there is room, and closes.
fn turn_away(stream: &Stream) {
    let _ = stream.send(TOO_MANY_CONNECTIONS);
}
