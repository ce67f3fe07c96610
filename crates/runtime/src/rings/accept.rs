//! The thread that accepts: it admits or rejects, and deals connections to workers in turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::poll::Waker;
use sys::ring::{Event, Ring, RingConfig};
use sys::socket::{Listener, is_exhaustion};

use crate::dealer::Dealer;
use crate::limits::ACCEPT_REST_NS;
use crate::running::Running;

const WAKER: u32 = u32::MAX;

/// It receives nothing.
pub(super) const RING: RingConfig = RingConfig {
    entries: 64,
    buffers: 1,
    buffer_len: 64,
};

/// The thread that accepts.
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    dealer: Dealer,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Acceptor {
    pub(super) fn new(listeners: Vec<Listener>, dealer: Dealer, running: &Running) -> Self {
        Self {
            listeners,
            dealer,
            stopping: Arc::clone(&running.stopping),
            waker: Arc::clone(&running.accept_waker),
        }
    }

    pub(super) fn run(mut self, mut ring: Ring) {
        ring.watch(&*self.waker, WAKER);
        for (token, listener) in self.listeners.iter().enumerate() {
            ring.accept(listener, token as u32);
        }
        while !self.stopping.load(Ordering::Relaxed) {
            if ring.wait(None).is_err() {
                return;
            }
            // Listeners that do not go on by themselves.
            let mut ended = Vec::new();
            let mut is_exhausted = false;
            while let Some(event) = ring.next_event() {
                match event {
                    Event::Accepted {
                        token,
                        stream,
                        goes_on,
                    } => {
                        is_exhausted |= self.take(stream);
                        if !goes_on {
                            ended.push(token);
                        }
                    }
                    Event::Ready { goes_on, .. } => {
                        self.waker.clear();
                        if !goes_on {
                            ring.watch(&*self.waker, WAKER);
                        }
                    }
                    _ => {}
                }
            }
            self.dealer.rouse();
            if is_exhausted {
                self.rest(&mut ring);
            }
            for token in ended {
                ring.accept(&self.listeners[token as usize], token);
            }
        }
    }

    /// Deals a connection out; true: descriptors or memory have run out.
    fn take(&mut self, stream: io::Result<sys::socket::Stream>) -> bool {
        match stream {
            Ok(stream) => {
                self.dealer.deal(stream);
                false
            }
            Err(error) => is_exhaustion(&error),
        }
    }

    /// Lets those who wait wait on in the kernel, until descriptors may have come free.
    fn rest(&self, ring: &mut Ring) {
        let census = &self.dealer.setup.census;
        census.rest();
        let started_ns = sys::clock::monotonic_ns();
        // Only the waker can be ready, or another listener.
        let _ = ring.wait(Some(ACCEPT_REST_NS));
        census.resume(sys::clock::monotonic_ns() - started_ns);
    }
}
