//! The runtime without a device, threads or a clock: frames in, frames out, for tests.

use std::sync::Arc;

use service::{Service, Worker as _};
use tcpip::{Checksums, Config, Counts};

use super::server::Server;
use crate::memory::{Flag, only_context};
use crate::setup::Setup;

/// A server with one worker, whose caller passes it frames and time.
pub struct InMemory<S: Service> {
    server: Server<S::Worker>,
    /// Set when another thread wakes the worker.
    woken: Arc<Flag>,
}

impl<S: Service> InMemory<S> {
    /// Creates a server without connections. Of `setup`, the number of workers and the wait policy
    /// are ignored, because there is one worker and it never waits.
    #[must_use]
    pub fn new(service: &S, setup: Setup, config: Config) -> Self {
        let (context, woken) = only_context(service, setup);
        let now_ns = 0;
        Self {
            server: Server::new(context, config, now_ns),
            woken,
        }
    }

    /// Passes a frame to the stack. The next [`InMemory::run`] answers it.
    pub fn receive(&mut self, frame: &[u8], now_ns: u64) {
        let mut stack = self.server.stack.borrow_mut();
        stack.receive(frame, Checksums::Unverified, now_ns);
    }

    /// Serves all connections until nothing can be done at time `now_ns` without a further frame.
    /// Passes each frame that the server sends to `send`.
    pub fn run(&mut self, now_ns: u64, mut send: impl FnMut(&[u8])) {
        loop {
            self.server.connections.context.service.online();
            let has_served = self.server.serve_ready(now_ns);
            let was_woken = self.woken.take();
            if was_woken {
                self.server.connections.on_wake(now_ns);
            }
            self.server.end_round(now_ns);
            self.server.connections.context.service.offline();
            let mut stack = self.server.stack.borrow_mut();
            stack.frames().iter().for_each(&mut send);
            stack.frames().clear();
            drop(stack);
            if !has_served && !was_woken && !self.server.is_ready() {
                return;
            }
        }
    }

    /// Returns after how many nanoseconds [`InMemory::run`] has to be called again even if no frame
    /// arrives. `None` if this is not necessary.
    #[must_use]
    pub fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        self.server.wait_timeout_ns(now_ns)
    }

    /// Returns the counters of the stack.
    #[must_use]
    pub fn stack_counts(&self) -> Counts {
        self.server.stack.borrow().counts()
    }

    /// Returns the number of connections of the stack, half-open and closing ones included.
    #[must_use]
    pub fn stack_connections(&self) -> usize {
        self.server.stack.borrow().len()
    }
}
