//! The stack of a worker and its connections, without a device and without a clock. A *round* of
//! the worker's loop serves the connections for which frames have arrived.

use std::cell::RefCell;
use std::rc::Rc;

use sys::poll::Ready;
use tcpip::{Config, Event, Stack};

use super::transport::{SharedStack, StackRegistry, StackTransport};
use crate::connection_table::Slot;
use crate::readiness::ReadinessLoop;
use crate::worker_context::WorkerContext;

/// A stack, and the sessions of its connections.
pub(super) struct Server<S: service::Worker> {
    pub(super) stack: SharedStack,
    pub(super) connections: ReadinessLoop<S, StackTransport, StackRegistry>,
    events: Vec<Event>,
    burst: Vec<Slot>,
}

impl<S: service::Worker> Server<S> {
    pub(super) fn new(context: WorkerContext<S>, config: Config, now_ns: u64) -> Self {
        let stack = Rc::new(RefCell::new(Stack::new(config, now_ns)));
        let registry = StackRegistry::new(&stack);
        Self {
            stack,
            connections: ReadinessLoop::new(context, registry),
            events: Vec::new(),
            burst: Vec::new(),
        }
    }

    /// Serves the connections that are ready after frames have been received. Returns whether any
    /// was served.
    pub(super) fn serve_ready(&mut self, now_ns: u64) -> bool {
        self.events.clear();
        {
            let mut stack = self.stack.borrow_mut();
            stack.advance(now_ns);
            stack.events(&mut self.events);
        }
        let ready = self.events.iter().map(|event| Ready {
            token: event.token,
            readable: event.readable,
            writable: event.writable,
            hung_up: event.hung_up,
        });
        self.connections.serve_ready(ready, now_ns, &mut self.burst);
        // New connections get slots (indices in the table of connections) only now, after all
        // events are handled. Otherwise an event of a closed connection could reach a new one in
        // its slot.
        self.take_accepted(now_ns);
        !self.burst.is_empty()
    }

    /// Ends a round: checks for overdue connections, runs maintenance, and makes frames of the
    /// bytes that the connections have sent.
    pub(super) fn end_round(&mut self, now_ns: u64) {
        self.connections.sweep(now_ns);
        self.connections.context.maintain(now_ns);
        self.stack.borrow_mut().flush(now_ns);
    }

    /// Returns whether something can be done without a further frame.
    pub(super) fn is_ready(&self) -> bool {
        let mut stack = self.stack.borrow_mut();
        stack.has_pending() || stack.has_events()
    }

    /// Returns after how many nanoseconds the next round is due, if no frame arrives and no other
    /// thread wakes the worker before. `None` if no round is due.
    pub(super) fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        if self.is_ready() {
            return Some(0);
        }
        let deadline_ns = self.stack.borrow().next_deadline_ns();
        let until_deadline_ns = deadline_ns.map(|at_ns| at_ns.saturating_sub(now_ns));
        let timeout_ns = self.connections.context.wait_timeout_ns();
        until_deadline_ns.into_iter().chain(timeout_ns).min()
    }
}
