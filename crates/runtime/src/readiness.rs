//! The common part of the runtimes in which a worker waits until connections are ready, and then
//! receives and sends itself. The worker of `events` waits by epoll. The worker of `bypass`, which
//! has its own TCP/IP stack, waits for frames. The worker of `memory` does not wait, but checks its
//! pipes.
//!
//! ```text
//! worker: wait → burst → maintain → wait …
//! ```
//!
//! Each runtime implements the wait itself. After each wait, the runtime calls
//! [`ReadinessLoop::serve_ready`] with the events and the time. A *burst* is the connections that
//! are served after one wait.

mod burst;

use std::io;

use service::Worker;

use crate::connection::{Connection, ConnectionIo, Overdue};
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{BURST_CONNECTIONS, RECEIVE_LEN};
use crate::setup::second;
use crate::transport::Transport;
use crate::worker_context::{Flushed, Outcome, WorkerContext};
use burst::BurstMember;
use sys::poll::{Interest, Ready};

/// The registry of the events for which a worker waits: the epoll instance of `events`, the TCP/IP
/// stack of `bypass`, or the pipes of `memory`.
pub(crate) trait Registry<T> {
    /// Registers a connection. `interest` says for which events to wait. Each event of the
    /// connection has `slot` as its token.
    fn add(&self, transport: &T, slot: Slot, interest: Interest) -> io::Result<()>;

    /// Changes the interest of a registered connection.
    fn change(&self, transport: &T, slot: Slot, interest: Interest) -> io::Result<()>;
}

/// The transport of a connection, and the events registered for it.
pub(crate) struct ReadinessIo<T> {
    pub(crate) transport: T,
    /// The events registered for the connection.
    interest: Interest,
    /// Whether the connection waits for store memory that other connections hold.
    waits_for_memory: bool,
}

impl<T: Transport> ConnectionIo for ReadinessIo<T> {
    type Transport = T;

    #[inline]
    fn transport(&self) -> &T {
        &self.transport
    }

    #[inline]
    fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}

/// The connections of a worker, and the code that serves those that are ready.
pub(crate) struct ReadinessLoop<S: Worker, T, R> {
    pub(crate) context: WorkerContext<S>,
    pub(crate) registry: R,
    pub(crate) table: ConnectionTable<S, ReadinessIo<T>>,
    /// The receive buffers that are not in use. There are [`BURST_CONNECTIONS`] buffers. While a
    /// connection is served, it may have one of them, and returns it afterwards.
    buffers: Vec<Vec<u8>>,
    /// The memory of two lists that [`serve`](Self::serve) fills. Both lists are empty between two
    /// calls of `serve`.
    members: Vec<BurstMember>,
    outcomes: Vec<Outcome>,
}

impl<S: Worker, T: Transport, R: Registry<T>> ReadinessLoop<S, T, R> {
    pub(crate) fn new(context: WorkerContext<S>, registry: R) -> Self {
        Self {
            context,
            registry,
            table: ConnectionTable::new(),
            buffers: (0..BURST_CONNECTIONS)
                .map(|_| vec![0; RECEIVE_LEN])
                .collect(),
            members: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    /// Adds a new connection to the table and registers it. Drops the connection if that fails.
    pub(crate) fn accept(&mut self, transport: T, now_ns: u64) {
        let Some(session) = self.context.open(&transport, now_ns) else {
            return;
        };
        let io = ReadinessIo {
            transport,
            interest: Interest::Read,
            waits_for_memory: false,
        };
        let slot = self.table.add(Connection::new(io, session, second(now_ns)));
        if let Some(connection) = self.table.get(slot) {
            let transport = &connection.io.transport;
            if self.registry.add(transport, slot, Interest::Read).is_err() {
                self.close(slot);
            }
        }
    }

    /// Serves the connections to which the events `ready` belong, and the connections that continue
    /// without an event. On return, `burst` contains the slots that were served. The old content of
    /// `burst` is discarded.
    #[inline]
    pub(crate) fn serve_ready(
        &mut self,
        ready: impl Iterator<Item = Ready>,
        now_ns: u64,
        burst: &mut Vec<Slot>,
    ) {
        burst.clear();
        self.context.begin_round(now_ns, burst);
        for event in ready {
            self.on_event(event, burst);
        }
        self.context.woke_up(now_ns, burst.len());
        for slots in burst.chunks(BURST_CONNECTIONS) {
            self.serve(slots, now_ns);
        }
        // Unsent output is usually long, so the replies of the burst were sent first.
        while let Some(slot) = self.context.next_to_send() {
            self.send_unsent(slot, now_ns);
        }
    }

    /// Closes slow holders (connections that hold store memory and whose peers are too slow), if
    /// another connection needs this memory. Delivers the results of tickets. If the bytes that
    /// connections keep then exceed the worker's share of their bound, closes connections. Called
    /// after another thread has woken the worker.
    pub(crate) fn on_wake(&mut self, now_ns: u64) {
        for slot in self.context.slow_holders(&self.table, now_ns) {
            self.close(slot);
        }
        for slot in self.context.deliver(&mut self.table, now_ns) {
            self.close(slot);
        }
        if self.context.is_share_exceeded() {
            self.close_excess();
        }
    }

    /// Closes connections whose peers have been silent for too long, and gives a turn to those
    /// whose input was not complete in time. Called after each burst.
    pub(crate) fn sweep(&mut self, now_ns: u64) {
        if !self.context.must_sweep(now_ns) {
            return;
        }
        for (slot, overdue) in self.context.overdue(&self.table, now_ns) {
            match (overdue, self.table.get_mut(slot)) {
                (Overdue::Deadline, Some(connection)) => self.context.queue(connection, slot),
                _ => {
                    self.context.setup.counts.count_closed_idle();
                    self.close(slot);
                }
            }
        }
    }

    /// Closes the idle connections of a stopping worker. Before it closes a connection, it receives
    /// once more, and answers the requests that have arrived. Returns true once no connection is
    /// open.
    pub(crate) fn drain(&mut self, now_ns: u64) -> bool {
        for slot in self.table.slots() {
            let is_idle =
                |connection: &Connection<_, _>| !connection.is_queued && connection.is_idle();
            if self.table.get(slot).is_some_and(is_idle) {
                self.serve(&[slot], now_ns);
                if self.table.get(slot).is_some_and(is_idle) {
                    self.close(slot);
                }
            }
        }
        self.table.is_empty()
    }

    /// Closes all connections after a failure of the loop. Returns the context for the next loop.
    pub(crate) fn close_all(self) -> WorkerContext<S> {
        let Self {
            mut context, table, ..
        } = self;
        context.reset();
        context.close_all(table);
        context
    }

    /// Handles an event. If the transport is writable and the connection has unsent output, the
    /// connection waits to send it. Otherwise adds the connection to `burst`, in which it receives.
    fn on_event(&mut self, ready: Ready, burst: &mut Vec<Slot>) {
        let Ok(slot) = Slot::try_from(ready.token) else {
            return;
        };
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.waits_to_send {
            // It does not receive before its output has been sent.
            return;
        }
        if ready.writable && connection.unsent.is_some() {
            self.context.wait_to_send(connection, slot);
            return;
        }
        if ready.hung_up && connection.io.interest == Interest::None {
            // The peer has hung up while its request waits for memory or for the result of a
            // ticket. epoll reports a hang-up even if the interest is `None`, and at every wait. So
            // the worker could not sleep while the connection stayed open.
            self.close(slot);
        } else if !connection.is_queued {
            connection.is_queued = true;
            burst.push(slot);
        }
        // A connection that is already queued receives in its turn, and then notices a hang-up.
    }

    /// Sends the unsent output of a connection. Once all of it is sent, the connection continues.
    fn send_unsent(&mut self, slot: Slot, now_ns: u64) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match self.context.send_unsent(connection, slot, second(now_ns)) {
            Some(Flushed::Complete) if connection.close_after_send => self.close(slot),
            Some(Flushed::Complete) if connection.waits_for_ticket => {
                self.wait_for(slot, Interest::None);
            }
            Some(Flushed::Complete) => {
                // The held input may contain complete requests.
                self.context.queue(connection, slot);
                self.wait_for(slot, Interest::Read);
            }
            Some(Flushed::Blocked) => self.wait_for(slot, Interest::Write),
            Some(Flushed::Lost) => self.close(slot),
            Some(Flushed::Partial) | None => {}
        }
        self.count_buffered(slot);
    }

    /// Changes the events registered for a connection to `interest`. Closes the connection if that
    /// fails.
    fn wait_for(&mut self, slot: Slot, interest: Interest) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.interest != interest {
            connection.io.interest = interest;
            let transport = &connection.io.transport;
            if self.registry.change(transport, slot, interest).is_err() {
                self.close(slot);
            }
        }
    }

    /// Updates the count of the bytes that a connection keeps between bursts. If the kept bytes
    /// exceed the worker's share of their bound, closes connections (`crate::buffered` says which).
    fn count_buffered(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && self.context.count_buffered(connection)
        {
            self.close_excess();
        }
    }

    /// Closes connections, because the kept bytes exceed the worker's share of their bound.
    fn close_excess(&mut self) {
        for slot in self.context.excess_connections(&self.table) {
            self.close(slot);
        }
    }

    /// Closes the connection in a slot. Subtracts its bytes from the count of kept bytes, and
    /// removes it from the lists of the context.
    fn close(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot) {
            self.context.release_buffered(connection);
            self.context.remove_from_lists(connection, slot);
        }
        self.table.close(slot, &self.context.setup.counts);
    }
}
