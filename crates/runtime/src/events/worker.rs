//! A worker: it waits for its connections, answers them in bursts, and keeps the store in order.

mod burst;

use std::io;

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll, Ready};

use self::burst::Part;
use crate::desk::{Desk, Outcome, Rest};
use crate::inbox::Inbox;
use crate::limits::{BURST_CONNECTIONS, EVENTS_A_WAIT, RECEIVE_LEN};
use crate::restart::EventLoop;
use crate::table::{Place, Table};

pub(super) const INBOX: u64 = u64::MAX;

/// A worker.
pub(super) struct Worker {
    pub(super) desk: Desk,
    pub(super) poll: Poll,
    /// Its connections, and what each waits for.
    pub(super) table: Table<Interest>,
    /// Receive buffers, one for each connection of a burst.
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

    fn new(desk: Desk, poll: Poll) -> Self {
        Self {
            desk,
            poll,
            table: Table::new(),
            buffers: (0..BURST_CONNECTIONS)
                .map(|_| vec![0; RECEIVE_LEN])
                .collect(),
            parts: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_A_WAIT);
        let mut burst: Vec<Place> = Vec::with_capacity(EVENTS_A_WAIT);
        self.desk.begin();
        loop {
            self.desk.store.offline();
            if self.desk.is_to_rest() {
                self.desk.rest();
            }
            self.poll.wait(&mut events, self.desk.patience_ns())?;
            self.desk.store.online();
            let now_ns = monotonic_ns();
            let mut has_mail = false;
            self.desk.take_up(now_ns, &mut burst);
            for ready in events.iter() {
                if ready.token == INBOX {
                    has_mail = true;
                } else {
                    self.note(ready, &mut burst);
                }
            }
            self.desk.woke(now_ns, burst.len());
            for places in burst.chunks(BURST_CONNECTIONS) {
                self.serve(places, now_ns);
                self.desk.store.quiescent();
            }
            burst.clear();
            // New connections take places only when no event of an old one is left.
            if has_mail {
                self.take_mail(now_ns);
            }
            self.desk.maintain(now_ns);
            if self.desk.is_ending(now_ns)
                && (self.drain(now_ns) || self.desk.is_out_of_time(now_ns))
            {
                return Ok(());
            }
        }
    }

    fn dismantle(self) -> Desk {
        let Self {
            mut desk, table, ..
        } = self;
        desk.renew();
        desk.close_all(table);
        desk
    }
}

impl Worker {
    /// Sorts an event: room to send is used at once, input joins the burst.
    fn note(&mut self, ready: Ready, burst: &mut Vec<Place>) {
        let Ok(place) = Place::try_from(ready.token) else {
            return;
        };
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        if ready.writable && connection.unsent.is_some() {
            self.send_rest(place);
            return;
        }
        if !connection.queued {
            connection.queued = true;
            burst.push(place);
        } else if ready.hung_up && connection.wire == Interest::None {
            // It waits for memory, and nobody for its answers. The kernel would say so again and
            // again.
            self.desk.waiting.retain(|&waiting| waiting != place);
            self.close(place);
        }
        // One that waits for its turn is not read; its peer hanging up shows when it is.
    }

    /// Sends what an earlier burst could not; once it is gone the connection goes on.
    fn send_rest(&mut self, place: Place) {
        let now_s = self.desk.setup.clock.now().elapsed_s;
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        match self.desk.send_rest(connection, now_s) {
            Some(Rest::Gone) if connection.closing => self.close(place),
            Some(Rest::Gone) => {
                // What it was asked before may be waiting in the input it holds.
                connection.queued = true;
                self.desk.again.push(place);
                self.wait_for(place, Interest::Read);
            }
            Some(Rest::Lost) => self.close(place),
            Some(Rest::Left) | None => {}
        }
        self.count_buffered(place);
    }

    fn wait_for(&mut self, place: Place, interest: Interest) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        if connection.wire != interest {
            connection.wire = interest;
            if self
                .poll
                .change(&connection.transport, place as u64, interest)
                .is_err()
            {
                self.close(place);
            }
        }
    }

    /// Counts what a connection keeps until the next burst, and closes the largest where all keep
    /// too much.
    pub(super) fn count_buffered(&mut self, place: Place) {
        if let Some(connection) = self.table.get_mut(place)
            && self.desk.count_buffered(connection)
        {
            for place in self.desk.overflow(&self.table) {
                self.close(place);
            }
        }
    }

    pub(super) fn close(&mut self, place: Place) {
        if let Some(connection) = self.table.get_mut(place) {
            self.desk.release_buffered(connection);
        }
        self.table.close(place, &self.desk.setup.census);
    }
}
