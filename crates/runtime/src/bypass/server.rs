//! The part of a worker that uses neither a device nor a clock: the worker's TCP/IP stack, and the
//! connections over this stack. A *round* is one pass of the worker's loop. In a round, the worker
//! passes received frames to the stack, serves the burst of connections that are then ready, and
//! sends the stack's frames.

use std::cell::RefCell;
use std::rc::Rc;

use sys::poll::Ready;
use tcpip::{Config, Event, Stack};

use super::transport::{SharedStack, StackRegistry, StackTransport};
use crate::connection_table::Slot;
use crate::readiness::ReadinessLoop;
use crate::worker_context::WorkerContext;

/// A TCP/IP stack, its connections, and the code that serves those that are ready.
pub(super) struct Server<S: service::Worker> {
    pub(super) stack: SharedStack,
    /// The connections, each with its session (the service's state of the connection), and the
    /// worker's context.
    pub(super) connections: ReadinessLoop<S, StackTransport, StackRegistry>,
    /// The events of the current round.
    events: Vec<Event>,
    /// The slots of the last burst. A slot is an index in the table of connections.
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

    /// Serves a burst: the connections that are ready at time `now_ns`. Then takes the connections
    /// that the stack has accepted. Returns whether any connection was served.
    pub(super) fn serve_ready(&mut self, now_ns: u64) -> bool {
        self.events.clear();
        {
            let mut stack = self.stack.borrow_mut();
            // Runs the timers that are due, such as those of retransmissions.
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
        // New connections get slots only now, after all events are handled. Otherwise an event of a
        // connection that was closed in this round could reach a new connection in the same slot.
        self.take_accepted(now_ns);
        !self.burst.is_empty()
    }

    /// Ends a round: handles the connections that have been waiting for their peers for too long,
    /// runs a step of the service's maintenance, and fills frames with the segments that the
    /// connections have to send.
    pub(super) fn end_round(&mut self, now_ns: u64) {
        self.connections.sweep(now_ns);
        self.connections.context.maintain(now_ns);
        self.stack.borrow_mut().flush(now_ns);
    }

    /// Returns whether the stack has work for the next round even if no further frame arrives:
    /// segments that did not fit into the frames, a ready connection, or a connection to accept.
    pub(super) fn is_ready(&self) -> bool {
        let mut stack = self.stack.borrow_mut();
        stack.has_pending() || stack.has_events()
    }

    /// Returns the number of nanoseconds until the next round has to begin even if no frame arrives
    /// and no other thread wakes the worker. `None` if no round has to begin then.
    pub(super) fn wait_timeout_ns(&self, now_ns: u64) -> Option<u64> {
        if self.is_ready() {
            return Some(0);
        }
        let deadline_ns = self.stack.borrow().next_deadline_ns();
        let stack_timeout_ns = deadline_ns.map(|at_ns| at_ns.saturating_sub(now_ns));
        let context_timeout_ns = self.connections.context.wait_timeout_ns();
        stack_timeout_ns.into_iter().chain(context_timeout_ns).min()
    }
}
