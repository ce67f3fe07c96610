//! A worker of the runtime `events` ([`Kind::Events`](crate::Kind::Events)). Each worker of this
//! runtime has an epoll instance. The worker waits by epoll for connections that are ready, answers
//! them in bursts, and runs the service's maintenance.

use std::io;
use std::sync::Arc;

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};

use crate::connection_table::Slot;
use crate::inbox::Inbox;
use crate::limits::EVENTS_PER_WAIT;
use crate::readiness::{ReadinessLoop, Registry};
use crate::restart::EventLoop;
use crate::transport::SocketTransport;
use crate::worker_context::WorkerContext;

/// The token of events of the worker's inbox. A *token* is the number that epoll returns with each
/// event of a descriptor. For a connection, it is the connection's slot (index in the worker's
/// table).
const INBOX_TOKEN: u64 = u64::MAX;

/// A worker of the runtime `events`.
pub(super) struct Worker<S: service::Worker> {
    pub(super) inbox: Arc<Inbox>,
    /// The worker's connections, and what the worker needs to serve them: its context (the
    /// service's state, counters and buffers) and its epoll instance.
    pub(super) connections: ReadinessLoop<S, SocketTransport, Poll>,
}

/// Creates the epoll instance of a worker and registers the worker's inbox.
pub(super) fn open(inbox: &Inbox) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(&inbox.waker, INBOX_TOKEN, Interest::Read)?;
    Ok(poll)
}

impl Registry<SocketTransport> for Poll {
    fn add(&self, transport: &SocketTransport, slot: Slot, interest: Interest) -> io::Result<()> {
        Self::add(self, transport, slot as u64, interest)
    }

    fn change(
        &self,
        transport: &SocketTransport,
        slot: Slot,
        interest: Interest,
    ) -> io::Result<()> {
        Self::change(self, transport, slot as u64, interest)
    }
}

impl<S: service::Worker> EventLoop for Worker<S> {
    type Service = S;
    /// The kernel object by which this loop waits: its epoll instance.
    type Kernel = Poll;

    fn open(inbox: &Inbox) -> io::Result<Poll> {
        open(inbox)
    }

    fn new(context: WorkerContext<S>, inbox: Arc<Inbox>, poll: Poll) -> Self {
        Self {
            inbox,
            connections: ReadinessLoop::new(context, poll),
        }
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_WAIT);
        // The slots of the connections in the current burst.
        let mut burst: Vec<Slot> = Vec::with_capacity(EVENTS_PER_WAIT);
        // If pauses are configured, reduces the thread's timer slack. Otherwise each pause in the
        // loop below could end up to 50 µs late.
        self.connections.context.set_up_thread();
        loop {
            // While the worker waits it is offline: it refers to no memory of the service. So
            // other workers can reclaim memory meanwhile.
            let context = &mut self.connections.context;
            context.service.offline();
            // A configured pause between two bursts, so that more requests are answered together.
            if context.must_pause() {
                context.pause();
            }
            let timeout_ns = context.wait_timeout_ns();
            self.connections.registry.wait(&mut events, timeout_ns)?;
            self.connections.context.service.online();
            let now_ns = monotonic_ns();
            let mut inbox_is_ready = false;
            let connection_events = events.iter().filter(|ready| {
                let is_inbox = ready.token == INBOX_TOKEN;
                inbox_is_ready |= is_inbox;
                !is_inbox
            });
            self.connections
                .serve_ready(connection_events, now_ns, &mut burst);
            // New connections get slots only now, after all events are handled. Otherwise a new
            // connection could get the slot of a connection that was just closed. An event of the
            // closed connection would then be handled as one of the new connection.
            if inbox_is_ready {
                self.drain_inbox(now_ns);
            }
            // Closes connections whose peers have been silent for too long. Each connection whose
            // input was not complete by the session's deadline gets a turn without new input.
            self.connections.sweep(now_ns);
            self.connections.context.maintain(now_ns);
            if self.has_stopped(now_ns) {
                return Ok(());
            }
        }
    }

    fn close_all(self) -> WorkerContext<S> {
        self.connections.close_all()
    }
}
