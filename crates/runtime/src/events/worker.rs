//! A worker: it waits for its connections by epoll, answers them in bursts, and runs the service's
//! maintenance.

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

const INBOX: u64 = u64::MAX;

/// A worker.
pub(super) struct Worker<S: service::Worker> {
    pub(super) inbox: Arc<Inbox>,
    pub(super) connections: ReadinessLoop<S, SocketTransport, Poll>,
}

/// Creates the epoll instance of a worker.
pub(super) fn open(inbox: &Inbox) -> io::Result<Poll> {
    let poll = Poll::new()?;
    poll.add(&inbox.waker, INBOX, Interest::Read)?;
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
        self.connections.context.begin();
        loop {
            let context = &mut self.connections.context;
            context.service.offline();
            if context.must_pause() {
                context.rest();
            }
            let timeout_ns = context.wait_timeout_ns();
            self.connections.registry.wait(&mut events, timeout_ns)?;
            self.connections.context.service.online();
            let now_ns = monotonic_ns();
            let inbox_is_ready = events.iter().any(|ready| ready.token == INBOX);
            let of_connections = events.iter().filter(|ready| ready.token != INBOX);
            self.connections.turn(of_connections, now_ns);
            // Slots are reused only after all events of their old connections are handled.
            if inbox_is_ready {
                self.drain_inbox(now_ns);
            }
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
