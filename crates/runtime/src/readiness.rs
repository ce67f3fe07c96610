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
use crate::limits::{BURST_CONNECTIONS, RECEIVE_LEN};
use crate::setup::second;
use crate::transport::{Sent, Transport};
use crate::worker_context::{Flushed, Outcome, WorkerContext};
use burst::BurstMember;
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
    /// It waits for memory held by others.
    waits_for_memory: bool,
}

impl<T: Transport> ConnectionIo for ReadinessIo<T> {
    #[inline]
    fn send<P: Pin>(&mut self, output: &Output<P>, sent: usize) -> io::Result<Sent> {
        self.transport.send(output, sent)
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        self.transport.has_unsent()
    }

    #[inline]
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

    /// Registers a new connection.
    pub(crate) fn accept(&mut self, transport: T, now_ns: u64) {
        let io = ReadinessIo {
            transport,
            interest: Interest::Read,
            waits_for_memory: false,
        };
        let Some(session) = self.context.open() else {
            return;
        };
        let slot = self.table.add(Connection::new(io, session, second(now_ns)));
        if let Some(connection) = self.table.get(slot) {
            let transport = &connection.io.transport;
            if self.registry.add(transport, slot, Interest::Read).is_err() {
                self.close(slot);
            }
        }
    }

    /// Serves the connections that are ready, and those that continue without an event. Leaves them
    /// in `burst`, which is emptied first.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        ready: impl Iterator<Item = Ready>,
        now_ns: u64,
        burst: &mut Vec<Slot>,
    ) {
        burst.clear();
        self.context.take_runnable(now_ns, burst);
        for event in ready {
            self.on_event(event, burst, now_ns);
        }
        self.context.woke_up(now_ns, burst.len());
        for slots in burst.chunks(BURST_CONNECTIONS) {
            self.serve(slots, now_ns);
        }
    }

    /// Closes slow holders of memory that others need, and delivers the results of tickets. Called
    /// when the worker was woken by another thread.
    pub(crate) fn on_wake(&mut self, now_ns: u64) {
        for slot in self.context.slow_holders(&self.table, now_ns) {
            self.close(slot);
        }
        for slot in self.context.deliver(&mut self.table, now_ns) {
            self.close(slot);
        }
    }

    /// Closes idle connections after a last receive on each. Returns true once none is left.
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

    /// Closes all connections after a panic.
    pub(crate) fn close_all(self) -> WorkerContext<S> {
        let Self {
            mut context, table, ..
        } = self;
        context.reset();
        context.close_all(table);
        context
    }

    /// Handles an event: unsent output is sent at once; a connection with input joins the burst.
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
            self.close(slot);
        } else if !connection.is_queued {
            connection.is_queued = true;
            burst.push(slot);
        }
        // A queued connection is read in its turn, and then notices a hang-up.
    }

    /// Sends unsent output. Once all is sent, the connection continues.
    fn send_unsent(&mut self, slot: Slot, now_ns: u64) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match self.context.send_unsent(connection, second(now_ns)) {
            Some(Flushed::Complete) if connection.close_after_send => self.close(slot),
            Some(Flushed::Complete) if connection.waits_for_ticket => {
                self.wait_for(slot, Interest::None);
            }
            Some(Flushed::Complete) => {
                // The held input may contain complete requests.
                connection.is_queued = true;
                self.context.runnable.push(slot);
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
            for slot in self.context.excess_connections(&self.table) {
                self.close(slot);
            }
        }
    }

    fn close(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot) {
            self.context.release_buffered(connection);
            if connection.is_queued {
                self.context.remove_runnable(slot);
            }
        }
        self.table.close(slot, &self.context.setup.counts);
    }
}
