//! The thread that accepts: it admits or rejects, and deals connections to workers in turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::poll::{Events, Interest, Poll};
use sys::socket::{Listener, is_exhaustion};

use crate::dealer::Dealer;
use crate::limits::{ACCEPT_REST_NS, ACCEPTS_IN_A_ROW};
use crate::running::Running;

const WAKER: u64 = u64::MAX;

/// The thread that accepts.
pub(super) struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    dealer: Dealer,
    stopping: Arc<AtomicBool>,
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
        dealer: Dealer,
        running: &Running,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*running.accept_waker, WAKER, Interest::Read)?;
        for (token, listener) in listeners.iter().enumerate() {
            poll.add(listener, token as u64, Interest::Read)?;
        }
        Ok(Self {
            poll,
            listeners,
            dealer,
            stopping: Arc::clone(&running.stopping),
        })
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
            self.dealer.rouse();
            if exhausted {
                self.rest();
            }
        }
    }

    fn accept(&mut self, token: usize) -> Accepted {
        for _ in 0..ACCEPTS_IN_A_ROW {
            match self.listeners[token].accept() {
                Ok(stream) => self.dealer.deal(stream),
                Err(error) if is_exhaustion(&error) => return Accepted::Exhausted,
                Err(_) => return Accepted::AllThere,
            }
        }
        Accepted::Enough
    }

    /// Lets those who wait wait on in the kernel, until descriptors may have come free.
    fn rest(&self) {
        let census = &self.dealer.setup.census;
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
