//! A worker: it waits for its connections, answers them in bursts, and runs store maintenance.

mod burst;

use std::io;

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll, Ready};

use self::burst::Part;
use crate::connection_table::{ConnectionTable, Slot};
use crate::inbox::Inbox;
use crate::limits::{BURST_CONNECTIONS, EVENTS_PER_WAIT, RECEIVE_LEN};
use crate::restart::EventLoop;
use crate::worker_context::{Flushed, Outcome, WorkerContext};

pub(super) const INBOX: u64 = u64::MAX;

/// A worker.
pub(super) struct Worker {
    pub(super) context: WorkerContext,
    pub(super) poll: Poll,
    /// Its connections, and the interest registered for each.
    pub(super) table: ConnectionTable<Interest>,
    /// One receive buffer for each connection of a burst.
    buffers: Vec<Vec<u8>>,
    parts: Vec<Part>,
    outcomes: Vec<Outcome>,
}

impl EventLoop for Worker {
    type Kernel = Poll;

    fn open(inbox: &Inbox) -> io::Result<Poll> {
        let poll = Poll::new()?;
        poll.add(&inbox.waker, INBOX, Interest::Read)?;
        Ok(poll)
    }

    fn new(context: WorkerContext, poll: Poll) -> Self {
        Self {
            context,
            poll,
            table: ConnectionTable::new(),
            buffers: (0..BURST_CONNECTIONS)
                .map(|_| vec![0; RECEIVE_LEN])
                .collect(),
            parts: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_WAIT);
        let mut burst: Vec<Slot> = Vec::with_capacity(EVENTS_PER_WAIT);
        self.context.begin();
        loop {
            self.context.store.offline();
            if self.context.must_pause() {
                self.context.rest();
            }
            self.poll
                .wait(&mut events, self.context.wait_timeout_ns())?;
            self.context.store.online();
            let now_ns = monotonic_ns();
            let mut inbox_is_ready = false;
            self.context.take_runnable(now_ns, &mut burst);
            for ready in events.iter() {
                if ready.token == INBOX {
                    inbox_is_ready = true;
                } else {
                    self.on_event(ready, &mut burst);
                }
            }
            self.context.woke_up(now_ns, burst.len());
            for slots in burst.chunks(BURST_CONNECTIONS) {
                self.serve(slots, now_ns);
                self.context.store.quiescent();
            }
            burst.clear();
            // Slots are reused only after all events of their old connections are handled.
            if inbox_is_ready {
                self.drain_inbox(now_ns);
            }
            self.context.maintain(now_ns);
            if self.context.is_ending(now_ns)
                && (self.drain(now_ns) || self.context.is_out_of_time(now_ns))
            {
                return Ok(());
            }
        }
    }

    fn close_all(self) -> WorkerContext {
        let Self {
            mut context, table, ..
        } = self;
        context.reset();
        context.close_all(table);
        context
    }
}

impl Worker {
    /// Handles an event: unsent output is sent at once, input makes the connection part of the
    /// burst.
    fn on_event(&mut self, ready: Ready, burst: &mut Vec<Slot>) {
        let Ok(slot) = Slot::try_from(ready.token) else {
            return;
        };
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if ready.writable && connection.unsent.is_some() {
            self.send_unsent(slot);
            return;
        }
        if !connection.queued {
            connection.queued = true;
            burst.push(slot);
        } else if ready.hung_up && connection.io_state == Interest::None {
            // The peer hung up while its request waits for memory. epoll would report it again at
            // every wait.
            self.context.waiting.retain(|&waiting| waiting != slot);
            self.close(slot);
        }
        // A queued connection is not read before its turn. A hang-up shows when it is.
    }

    /// Sends unsent output. Once all is sent, the connection continues.
    fn send_unsent(&mut self, slot: Slot) {
        let now_s = self.context.setup.clock.now().elapsed_s;
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match self.context.send_unsent(connection, now_s) {
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
        if connection.io_state != interest {
            connection.io_state = interest;
            if self
                .poll
                .change(&connection.transport, slot as u64, interest)
                .is_err()
            {
                self.close(slot);
            }
        }
    }

    /// Counts the bytes that a connection keeps, and closes the largest connections if the worker's
    /// share is exceeded.
    pub(super) fn count_buffered(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && self.context.count_buffered(connection)
        {
            for slot in self.context.overflow(&self.table) {
                self.close(slot);
            }
        }
    }

    pub(super) fn close(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot) {
            self.context.release_buffered(connection);
        }
        self.table.close(slot, &self.context.setup.counts);
    }
}
