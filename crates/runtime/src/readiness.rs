//! The common part of the runtimes whose worker learns which connections are ready: `events`, by
//! epoll, and `memory`, by looking at its pipes.
//!
//! ```text
//! worker: wait → burst → maintain → wait …
//! ```
//!
//! The runtime waits, then calls [`ReadinessLoop::turn`] with the events and the time.

mod burst;

use std::io;

use service::{Output, Pin, Worker};

use crate::connection::{Connection, ConnectionIo};
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{BURST_CONNECTIONS, EVENTS_PER_WAIT, RECEIVE_LEN};
use crate::setup::second;
use crate::transport::{Sent, Transport};
use crate::worker_context::{Flushed, Outcome, WorkerContext};
use burst::Part;
use sys::poll::{Interest, Ready};

/// Registers the events that a worker waits for.
pub(crate) trait Registry<T> {
    /// Registers a connection.
    fn add(&self, transport: &T, slot: Slot, interest: Interest) -> io::Result<()>;

    /// Changes the events of a registered connection.
    fn change(&self, transport: &T, slot: Slot, interest: Interest) -> io::Result<()>;
}

/// The transport of a connection, and the events registered for it.
pub(crate) struct ReadinessIo<T> {
    pub(crate) transport: T,
    interest: Interest,
}

impl<T: Transport> ConnectionIo for ReadinessIo<T> {
    fn send<P: Pin>(&mut self, output: &Output<P>, sent: usize) -> io::Result<Sent> {
        self.transport.send(output, sent)
    }

    fn has_unsent(&self) -> bool {
        self.transport.has_unsent()
    }

    fn buffered(&self) -> usize {
        self.transport.buffered()
    }
}

/// The connections of a worker, and how it serves those that are ready.
pub(crate) struct ReadinessLoop<S: Worker, T, R> {
    pub(crate) context: WorkerContext<S>,
    pub(crate) registry: R,
    pub(crate) table: ConnectionTable<S, ReadinessIo<T>>,
    /// One receive buffer for each connection of a burst.
    buffers: Vec<Vec<u8>>,
    burst: Vec<Slot>,
    parts: Vec<Part>,
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
            burst: Vec::with_capacity(EVENTS_PER_WAIT),
            parts: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    /// Registers a new connection.
    pub(crate) fn accept(&mut self, transport: T, now_ns: u64) -> Slot {
        let io = ReadinessIo {
            transport,
            interest: Interest::Read,
        };
        let session = self.context.service.open();
        let slot = self.table.add(Connection::new(io, session, second(now_ns)));
        if let Some(connection) = self.table.get(slot) {
            let transport = &connection.io.transport;
            if self.registry.add(transport, slot, Interest::Read).is_err() {
                self.close(slot);
            }
        }
        slot
    }

    /// Serves the connections that are ready, and those that continue without an event. Returns
    /// their number.
    pub(crate) fn turn(&mut self, ready: impl Iterator<Item = Ready>, now_ns: u64) -> usize {
        let mut burst = std::mem::take(&mut self.burst);
        self.context.take_runnable(now_ns, &mut burst);
        for event in ready {
            self.on_event(event, &mut burst, now_ns);
        }
        self.context.woke_up(now_ns, burst.len());
        for slots in burst.chunks(BURST_CONNECTIONS) {
            self.serve(slots, now_ns);
        }
        let count = burst.len();
        burst.clear();
        self.burst = burst;
        count
    }

    /// Closes slow holders of memory that others need, and delivers the results of tickets. Called
    /// when the worker was woken by another thread.
    pub(crate) fn on_wake(&mut self, now_ns: u64) {
        for slot in self.context.slow_holders(&self.table, now_ns) {
            self.close(slot);
        }
        for slot in self.context.deliver(&mut self.table) {
            self.close(slot);
        }
    }

    /// Closes idle connections after a last receive on each. Returns true once none is left.
    pub(crate) fn drain(&mut self, now_ns: u64) -> bool {
        for slot in self.table.slots() {
            let is_idle =
                |connection: &Connection<_, _>| !connection.queued && connection.is_idle();
            if self.table.get(slot).is_some_and(is_idle) {
                self.serve(&[slot], now_ns);
                if self.table.get(slot).is_some_and(is_idle) {
                    self.close(slot);
                }
            }
        }
        self.table.is_empty()
    }

    /// Closes all connections after a panic.
    pub(crate) fn close_all(self) -> WorkerContext<S> {
        let Self {
            mut context, table, ..
        } = self;
        context.reset();
        context.close_all(table);
        context
    }

    /// Handles an event: unsent output is sent at once, input makes the connection part of the
    /// burst.
    fn on_event(&mut self, ready: Ready, burst: &mut Vec<Slot>, now_ns: u64) {
        let Ok(slot) = Slot::try_from(ready.token) else {
            return;
        };
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if ready.writable && connection.unsent.is_some() {
            self.send_unsent(slot, now_ns);
            return;
        }
        if ready.hung_up && connection.io.interest == Interest::None {
            // The peer hung up while its request waits for memory or for a completion. epoll would
            // report it again at every wait.
            self.context.forget_queued(slot);
            self.close(slot);
        } else if !connection.queued {
            connection.queued = true;
            burst.push(slot);
        }
        // A queued connection is not read before its turn. A hang-up shows when it is.
    }

    /// Sends unsent output. Once all is sent, the connection continues.
    fn send_unsent(&mut self, slot: Slot, now_ns: u64) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match self.context.send_unsent(connection, second(now_ns)) {
            Some(Flushed::Complete) if connection.closing => self.close(slot),
            Some(Flushed::Complete) => {
                // The held input may contain complete requests.
                connection.queued = true;
                self.context.again.push(slot);
                self.wait_for(slot, Interest::Read);
            }
            Some(Flushed::Lost) => self.close(slot),
            Some(Flushed::Partial) | None => {}
        }
        self.count_buffered(slot);
    }

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

    /// Counts the bytes that a connection keeps, and closes the largest connections if the worker's
    /// share is exceeded.
    fn count_buffered(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && self.context.count_buffered(connection)
        {
            for slot in self.context.overflow(&self.table) {
                self.close(slot);
            }
        }
    }

    fn close(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot) {
            self.context.release_buffered(connection);
        }
        self.table.close(slot, &self.context.setup.counts);
    }
}
