//! A worker: it waits for its connections, answers them in bursts, and keeps the store in order.

mod burst;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use session::{Counters, Output, Planned};
use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll, Ready};
use sys::socket::Stream;

use self::burst::{Outcome, Part};
use super::wake::Inbox;
use crate::connection::Connection;
use crate::limits::{
    BURST_CONNECTIONS, DRAIN_CHECK_NS, DRAIN_NS, EVENTS_A_WAIT, MAINTAIN_EVERY_NS, MAINTAIN_ITEMS,
    MEMORY_RETRY_NS, RECEIVE_LEN,
};
use crate::setup::Setup;
use crate::transport::Transport;

const INBOX: u64 = u64::MAX;

/// Where a connection stands in its worker.
type Place = usize;

/// A worker.
pub(super) struct Worker {
    setup: Arc<Setup>,
    inbox: Arc<Inbox>,
    /// Those of all workers.
    inboxes: Vec<Arc<Inbox>>,
    ending: Arc<AtomicBool>,
    poll: Poll,
    store: store::Worker,
    counters: Arc<Counters>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<Place>,
    /// Connections whose turn ended with input left.
    again: Vec<Place>,
    /// Connections that wait for memory others hold.
    waiting: Vec<Place>,
    /// Receive buffers, one for each connection of a burst.
    buffers: Vec<Vec<u8>>,
    planned: Vec<Planned<'static>>,
    parts: Vec<Part>,
    outcomes: Vec<Outcome>,
    output: Output,
    maintained_ns: u64,
    /// When those that wait for memory try again.
    retry_ns: u64,
}

impl Worker {
    pub(super) fn new(
        setup: Arc<Setup>,
        inboxes: Vec<Arc<Inbox>>,
        number: usize,
        ending: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let inbox = Arc::clone(&inboxes[number]);
        let poll = Poll::new()?;
        poll.add(&inbox.waker, INBOX, Interest::Read)?;
        Ok(Self {
            store: setup.store.worker(),
            counters: setup.census.counters(),
            setup,
            inbox,
            inboxes,
            ending,
            poll,
            connections: Vec::new(),
            free: Vec::new(),
            again: Vec::new(),
            waiting: Vec::new(),
            buffers: (0..BURST_CONNECTIONS)
                .map(|_| vec![0; RECEIVE_LEN])
                .collect(),
            planned: Vec::new(),
            parts: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
            output: Output::default(),
            maintained_ns: 0,
            retry_ns: 0,
        })
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_A_WAIT);
        let mut burst: Vec<Place> = Vec::with_capacity(EVENTS_A_WAIT);
        let mut stop_by_ns = None;
        loop {
            self.store.offline();
            if self
                .poll
                .wait(&mut events, self.patience_ns(stop_by_ns))
                .is_err()
            {
                return;
            }
            self.store.online();
            let now_ns = monotonic_ns();
            let mut has_mail = false;
            burst.append(&mut self.again);
            self.retry_waiting(now_ns, &mut burst);
            for ready in events.iter() {
                if ready.token == INBOX {
                    has_mail = true;
                } else {
                    self.note(ready, &mut burst);
                }
            }
            for places in burst.chunks(BURST_CONNECTIONS) {
                self.serve(places, now_ns);
                self.store.quiescent();
            }
            burst.clear();
            // New connections take places only when no event of an old one is left.
            if has_mail {
                self.take_mail(now_ns);
            }
            self.maintain(now_ns);
            if self.ending.load(Ordering::Relaxed) {
                let by_ns = *stop_by_ns.get_or_insert(now_ns + DRAIN_NS);
                if self.drain(now_ns) || now_ns >= by_ns {
                    return;
                }
            }
        }
    }

    /// How long the next wait may last.
    fn patience_ns(&self, stop_by_ns: Option<u64>) -> Option<u64> {
        if !self.again.is_empty() {
            Some(0)
        } else if !self.waiting.is_empty() {
            Some(MEMORY_RETRY_NS)
        } else {
            stop_by_ns.map(|_| DRAIN_CHECK_NS)
        }
    }

    /// Sorts an event: room to send is used at once, input joins the burst.
    fn note(&mut self, ready: Ready, burst: &mut Vec<Place>) {
        let Ok(place) = Place::try_from(ready.token) else {
            return;
        };
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return;
        };
        if ready.writable && connection.unsent.is_some() {
            self.send_rest(place);
            return;
        }
        if !connection.queued {
            connection.queued = true;
            burst.push(place);
        } else if ready.hung_up && connection.interest == Interest::None {
            // It waits for memory, and nobody for its answers. The kernel would say so again and
            // again.
            self.waiting.retain(|&waiting| waiting != place);
            self.close(place);
        }
        // One that waits for its turn is not read; its peer hanging up shows when it is.
    }

    /// Sends what an earlier burst could not; once it is gone the connection goes on.
    fn send_rest(&mut self, place: Place) {
        let now_s = self.setup.clock.now().elapsed_s;
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return;
        };
        let Some(mut unsent) = connection.unsent.take() else {
            return;
        };
        let before = unsent.sent;
        match connection.transport.send(&unsent.output, unsent.sent) {
            Ok(crate::transport::Sent::All) => {
                self.counters.add(
                    session::Counter::BytesWritten,
                    (unsent.output.len() - before) as u64,
                );
                connection.moved_s = now_s;
                if connection.closing {
                    return self.close(place);
                }
                // What it was asked before may be waiting in the input it holds.
                connection.queued = true;
                self.again.push(place);
                self.wait_for(place, Interest::Read);
            }
            Ok(crate::transport::Sent::Part(sent)) => {
                self.counters
                    .add(session::Counter::BytesWritten, (sent - before) as u64);
                if sent > before {
                    connection.moved_s = now_s;
                }
                unsent.sent = sent;
                connection.unsent = Some(unsent);
            }
            Err(_) => self.close(place),
        }
    }

    fn wait_for(&mut self, place: Place, interest: Interest) {
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return;
        };
        if connection.interest != interest {
            connection.interest = interest;
            if self
                .poll
                .change(&connection.transport, place as u64, interest)
                .is_err()
            {
                self.close(place);
            }
        }
    }

    fn close(&mut self, place: Place) {
        if let Some(connection) = self.connections.get_mut(place).and_then(Option::take) {
            drop(connection);
            self.free.push(place);
            self.setup.census.leave();
        }
    }

    fn take_mail(&mut self, now_ns: u64) {
        self.inbox.waker.clear();
        let now_s = self.setup.clock.at(now_ns).elapsed_s;
        if self.setup.census.is_memory_wanted(now_s) {
            self.close_slow_holders(now_s);
        }
        while let Some(stream) = self.inbox.take() {
            self.add(stream, now_s);
        }
    }

    fn add(&mut self, stream: Stream, now_s: u32) {
        let connection = Box::new(Connection::new(Transport::Plain(stream), now_s));
        let place = self.free.pop().unwrap_or(self.connections.len());
        if self
            .poll
            .add(&connection.transport, place as u64, Interest::Read)
            .is_err()
        {
            self.free.push(place);
            self.setup.census.leave();
        } else if place == self.connections.len() {
            self.connections.push(Some(connection));
        } else {
            self.connections[place] = Some(connection);
        }
    }

    /// Gives those that wait for memory another turn when it is time. Who holds it may be another
    /// worker's: once a second all are told to look.
    fn retry_waiting(&mut self, now_ns: u64, burst: &mut Vec<Place>) {
        if self.waiting.is_empty() || now_ns < self.retry_ns {
            return;
        }
        self.retry_ns = now_ns + MEMORY_RETRY_NS;
        let now_s = self.setup.clock.at(now_ns).elapsed_s;
        if self.setup.census.want_memory(now_s) {
            for inbox in &self.inboxes {
                inbox.waker.wake();
            }
        }
        burst.append(&mut self.waiting);
    }

    /// Closes every peer that holds memory and has not moved for long.
    fn close_slow_holders(&mut self, now_s: u32) {
        for place in 0..self.connections.len() {
            if let Some(connection) = &self.connections[place]
                && connection.is_slow_holder(now_s)
            {
                self.setup.census.close_slow();
                self.close(place);
            }
        }
    }

    fn maintain(&mut self, now_ns: u64) {
        if now_ns - self.maintained_ns >= MAINTAIN_EVERY_NS {
            self.maintained_ns = now_ns;
            self.store
                .maintain(self.setup.clock.at(now_ns).elapsed_s, MAINTAIN_ITEMS);
            if self.store.store().wants_tending() {
                self.setup.board.tend_store();
            }
        }
    }

    /// Closes what is idle, after a last look at what may have arrived; true when nobody is left.
    fn drain(&mut self, now_ns: u64) -> bool {
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else {
                continue;
            };
            if connection.queued || !connection.is_idle() {
                continue;
            }
            self.serve(&[place], now_ns);
            if let Some(connection) = &self.connections[place]
                && !connection.queued
                && connection.is_idle()
            {
                self.close(place);
            }
        }
        self.connections.iter().all(Option::is_none)
    }
}
