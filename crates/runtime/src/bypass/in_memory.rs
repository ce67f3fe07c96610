//! The runtime `bypass` for tests, without a device, threads or a clock. The caller passes frames
//! and the time to the server, and gets the frames that the server sends.

use std::sync::Arc;

use service::{Service, Worker as _};
use tcpip::{Checksums, Config, Counts};

use super::server::Server;
use crate::memory::{Flag, only_context};
use crate::setup::Setup;

/// A server with one worker, which runs only while a method is called.
pub struct InMemory<S: Service> {
    server: Server<S::Worker>,
    /// A flag that another thread sets to wake the worker.
    woken: Arc<Flag>,
}

impl<S: Service> InMemory<S> {
    /// Creates a server without connections. The server ignores the number of workers and the wait
    /// policy in `setup`, because it has one worker, which never waits.
    #[must_use]
    pub fn new(service: &S, setup: Setup, config: Config) -> Self {
        // The context of the server's only worker.
        let (context, woken) = only_context(service, setup);
        let now_ns = 0;
        Self {
            server: Server::new(context, config, now_ns),
            woken,
        }
    }

    /// Passes a received frame to the stack, which verifies the frame's checksums. The next
    /// [`InMemory::run`] answers the frame.
    pub fn receive(&mut self, frame: &[u8], now_ns: u64) {
        let mut stack = self.server.stack.borrow_mut();
        stack.receive(frame, Checksums::Unverified, now_ns);
    }

    /// Serves connections until the server has nothing more to do at time `now_ns` unless another
    /// frame arrives. Calls `send` for each frame that the server sends. A *round* is one pass of
    /// the loop in this method.
    pub fn run(&mut self, now_ns: u64, mut send: impl FnMut(&[u8])) {
        loop {
            // `online`: the service may refer to shared memory until `offline` is called.
            self.server.connections.context.service.online();
            let has_served = self.server.serve_ready(now_ns);
            let was_woken = self.woken.take();
            if was_woken {
                // Deliver the results that another thread has produced.
                self.server.connections.on_wake(now_ns);
            }
            self.server.end_round(now_ns);
            self.server.connections.context.service.offline();
            let mut stack = self.server.stack.borrow_mut();
            stack.frames().iter().for_each(&mut send);
            stack.frames().clear();
            drop(stack);
            let has_work = self.server.connections.context.has_work();
            if !has_served && !was_woken && !has_work && !self.server.is_ready() {
                return;
            }
        }
    }

    /// Returns the number of nanoseconds until [`InMemory::run`] has to be called again even if no
    /// frame arrives. `None` if such a call is not necessary.
    #[must_use]
    pub fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        self.server.wait_timeout_ns(now_ns)
    }

    /// Returns the counters of the stack.
    #[must_use]
    pub fn stack_counts(&self) -> Counts {
        self.server.stack.borrow().counts()
    }

    /// Returns the number of connections in the stack. It includes half-open connections and those
    /// that the server has closed but the stack has not finished.
    #[must_use]
    pub fn stack_connections(&self) -> usize {
        self.server.stack.borrow().len()
    }
}
