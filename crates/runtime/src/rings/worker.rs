//! A worker: it waits for its connections, answers them in bursts, and keeps the store in order.

mod burst;

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use session::Counter;
use sys::clock::monotonic_ns;
use sys::ring::{Arrived, Ended, Event, Inputs, Ring, RingConfig};

use self::burst::Part;
use crate::connection::{Connection, Held};
use crate::desk::{Desk, Outcome, Rest};
use crate::inbox::Inbox;
use crate::limits::{
    BURST_CONNECTIONS, DIRECT_MIN, EVENTS_A_WAIT, HELD_FULL, RING_BUFFER_LEN, RING_BUFFERS,
    RING_ENTRIES, UNSETTLED_WAITS_MAX,
};
use crate::restart::EventLoop;
use crate::table::{Place, Table};

pub(super) const INBOX: u32 = u32::MAX;

const RING: RingConfig = RingConfig {
    entries: RING_ENTRIES,
    buffers: RING_BUFFERS,
    buffer_len: RING_BUFFER_LEN,
};

/// What a connection has asked its worker's ring for.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// It receives.
    is_receiving: bool,
    /// That goes on by itself.
    goes_on: bool,
    /// It was asked to end.
    is_stopping: bool,
    /// Bytes that have come and have not been looked at.
    arrived: Option<Arrived>,
    /// The peer will send no more.
    has_ended: bool,
    /// Answers are on their way.
    is_sending: bool,
    /// In so many bytes of memory.
    sending: usize,
    /// It stands in the list of those whose answers are on their way.
    is_unsettled: bool,
    /// It waits for room to send.
    is_watched: bool,
    /// It waits for memory that others hold.
    wants_memory: bool,
    /// It is closed as soon as nothing of it is under way.
    is_shut: bool,
}

impl Wire {
    /// Whether the kernel will still say something of it.
    fn is_under_way(&self) -> bool {
        self.is_receiving || self.is_sending || self.is_watched
    }

    /// Whether all that has come was looked at, and all answers were taken.
    pub(super) fn is_idle(&self) -> bool {
        self.arrived.is_none() && !self.is_sending && !self.is_shut
    }
}

/// A worker.
pub(super) struct Worker {
    pub(super) desk: Desk,
    pub(super) ring: Ring,
    inputs: Inputs,
    pub(super) table: Table<Wire>,
    /// Connections for whose bytes no buffer was left.
    starved: Vec<Place>,
    /// Connections whose answers have been handed over and are many. Where a peer has room, they
    /// are sent as soon as the kernel has them, and the event that says so is among the next.
    unsettled: Vec<Place>,
    /// Waits since those were last looked at.
    unsettled_waits: u32,
    parts: Vec<Part>,
    outcomes: Vec<Outcome>,
}

impl EventLoop for Worker {
    type Kernel = (Ring, Inputs);

    fn open(_: &Inbox) -> io::Result<(Ring, Inputs)> {
        Ring::new(RING)
    }

    fn new(desk: Desk, (ring, inputs): (Ring, Inputs)) -> Self {
        Self {
            desk,
            ring,
            inputs,
            table: Table::new(),
            starved: Vec::new(),
            unsettled: Vec::new(),
            unsettled_waits: 0,
            parts: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut burst: Vec<Place> = Vec::with_capacity(EVENTS_A_WAIT);
        self.desk.begin();
        self.watch_inbox();
        loop {
            self.desk.store.offline();
            // What has been answered must not wait for what is to come.
            if self.desk.is_to_rest() && self.ring.wait(Some(0)).is_ok() {
                self.desk.rest();
            }
            self.ring.wait(self.desk.patience_ns())?;
            self.desk.store.online();
            let now_ns = monotonic_ns();
            let now_s = self.desk.setup.clock.at(now_ns).elapsed_s;
            let mut has_mail = false;
            self.desk.take_up(now_ns, &mut burst);
            let mut has_more = true;
            // What is left is there at once the next time.
            for _ in 0..EVENTS_A_WAIT {
                match self.ring.next_event() {
                    Some(Event::Ready { token, goes_on }) if token == INBOX => {
                        has_mail = true;
                        if !goes_on {
                            self.watch_inbox();
                        }
                    }
                    Some(event) => self.note(event, &mut burst, now_s),
                    None => {
                        has_more = false;
                        break;
                    }
                }
            }
            self.settle(has_more);
            self.desk.woke(now_ns, burst.len());
            for places in burst.chunks(BURST_CONNECTIONS) {
                self.serve(places, now_ns);
                self.desk.store.quiescent();
            }
            burst.clear();
            for place in mem::take(&mut self.starved) {
                self.receive(place);
            }
            // New connections take places only when nobody in the burst had them.
            if has_mail {
                self.take_mail(now_ns);
            }
            self.desk.maintain(now_ns);
            if self.desk.is_ending(now_ns) && (self.drain() || self.desk.is_out_of_time(now_ns)) {
                return Ok(());
            }
        }
    }

    fn dismantle(self) -> Desk {
        let Self {
            mut desk,
            ring,
            table,
            ..
        } = self;
        desk.renew();
        // Before the sockets: what the kernel has under way ends first. Of what it does not give
        // back nothing is freed (`sys::ring`), even where ending it panics too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(ring)));
        desk.close_all(table);
        desk
    }
}

impl Worker {
    /// Sorts an event: what has come joins the burst, and so does who may go on.
    fn note(&mut self, event: Event, burst: &mut Vec<Place>, now_s: u32) {
        match event {
            Event::Received {
                token,
                bytes,
                goes_on,
            } => self.note_bytes(token as Place, bytes, goes_on, burst, now_s),
            Event::ReceiveEnded { token, how } => self.note_end(token as Place, &how, burst),
            Event::Sent {
                token,
                bytes,
                result,
            } => {
                let place = token as Place;
                if let Some(connection) = self.table.get_mut(place) {
                    connection.wire.is_sending = false;
                    connection.moved_s = now_s;
                    if mem::take(&mut connection.sending) > 0 {
                        self.count_buffered(place);
                    }
                }
                if result.is_ok() {
                    let len = bytes.len() as u64;
                    self.desk.counters.add(Counter::BytesWritten, len);
                }
                self.desk.keep(bytes);
                self.room(place, result.is_ok(), burst);
            }
            Event::Ready { token, .. } => self.send_rest(token as Place, burst, now_s),
        }
    }

    fn note_bytes(
        &mut self,
        place: Place,
        bytes: Arrived,
        goes_on: bool,
        burst: &mut Vec<Place>,
        now_s: u32,
    ) {
        let Some(connection) = self.table.get_mut(place) else {
            return self.inputs.give_back(bytes);
        };
        connection.wire.is_receiving = goes_on;
        connection.wire.goes_on &= goes_on;
        connection.wire.is_stopping &= goes_on;
        if connection.wire.is_shut {
            self.inputs.give_back(bytes);
            return self.close_if_over(place);
        }
        connection.moved_s = now_s;
        let len = bytes.len() as u64;
        self.desk.counters.add(Counter::BytesRead, len);
        // Only what is answered now may stay where the kernel has put it: a buffer is lent again
        // when all that lie in it have given it back.
        let is_blocked = connection.wire.is_sending || connection.unsent.is_some();
        let is_first = connection.wire.arrived.is_none() && connection.held.is_empty();
        let is_held = !is_first || is_blocked || connection.wire.wants_memory;
        if !is_held {
            connection.wire.arrived = Some(bytes);
        } else {
            for arrived in connection.wire.arrived.take().into_iter().chain([bytes]) {
                connection.held.append(self.inputs.bytes(&arrived));
                self.inputs.give_back(arrived);
            }
        }
        self.join(place, burst);
        self.rein_in(place);
        if is_held {
            self.count_buffered(place);
        }
    }

    fn note_end(&mut self, place: Place, how: &Ended, burst: &mut Vec<Place>) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        connection.wire.is_receiving = false;
        connection.wire.goes_on = false;
        connection.wire.is_stopping = false;
        if connection.wire.is_shut {
            return self.close_if_over(place);
        }
        match how {
            Ended::Closed => {
                connection.wire.has_ended = true;
                self.join(place, burst);
            }
            Ended::NoBuffer => self.starved.push(place),
            // It goes on when what it holds has been answered; that may have been.
            Ended::Stopped => self.join(place, burst),
            Ended::Lost(_) => self.close(place),
        }
    }

    /// A connection with something to be answered takes part in the burst, unless its answers are
    /// still on their way.
    fn join(&mut self, place: Place, burst: &mut Vec<Place>) {
        if let Some(connection) = self.table.get_mut(place)
            && !connection.queued
            && !connection.wire.is_sending
            && connection.unsent.is_none()
        {
            connection.queued = true;
            burst.push(place);
        }
    }

    /// The answers of a connection have been taken, or never will be.
    fn room(&mut self, place: Place, is_sent: bool, burst: &mut Vec<Place>) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        if connection.wire.is_shut {
            return self.close_if_over(place);
        }
        if !is_sent || connection.closing {
            return self.close(place);
        }
        let has_input = connection.wire.arrived.is_some() || !connection.held.is_empty();
        if connection.wants_turn || connection.wire.has_ended || has_input {
            self.join(place, burst);
        } else {
            self.receive(place);
        }
    }

    /// Sends what an earlier burst could not; once it is gone the connection goes on.
    fn send_rest(&mut self, place: Place, burst: &mut Vec<Place>, now_s: u32) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        connection.wire.is_watched = false;
        if connection.wire.is_shut {
            return self.close_if_over(place);
        }
        match self.desk.send_rest(connection, now_s) {
            Some(Rest::Gone) => self.room(place, true, burst),
            Some(Rest::Left) => watch_room(&mut self.ring, connection, place),
            Some(Rest::Lost) => self.close(place),
            None => {}
        }
        self.count_buffered(place);
    }

    /// Answers that have been handed over and not been sent wait for their peers from now on, once
    /// all events have been taken, or so many that theirs would be among them.
    fn settle(&mut self, has_more: bool) {
        self.unsettled_waits += 1;
        if has_more && self.unsettled_waits < UNSETTLED_WAITS_MAX {
            return;
        }
        self.unsettled_waits = 0;
        while let Some(place) = self.unsettled.pop() {
            if let Some(connection) = self.table.get_mut(place) {
                connection.wire.is_unsettled = false;
                if connection.wire.is_sending {
                    connection.sending = connection.wire.sending;
                    self.count_buffered(place);
                }
            }
        }
    }

    /// Counts what a connection keeps until the next burst, and closes the largest where all keep
    /// too much.
    pub(super) fn count_buffered(&mut self, place: Place) {
        if let Some(connection) = self.table.get_mut(place)
            && !connection.wire.is_shut
            && self.desk.count_buffered(connection)
        {
            for place in self.desk.overflow(&self.table) {
                self.close(place);
            }
        }
    }

    /// Receiving does not go on by itself for one that sends much at a time, or cannot go on: what
    /// it sends beyond a buffer waits in the kernel.
    pub(super) fn rein_in(&mut self, place: Place) {
        if let Some(connection) = self.table.get_mut(place)
            && is_heavy(connection)
            && connection.wire.goes_on
            && !connection.wire.is_stopping
        {
            connection.wire.is_stopping = true;
            self.ring.stop_receiving(place as u32);
        }
    }

    /// Receives, unless it does already or there is nothing to come.
    pub(super) fn receive(&mut self, place: Place) {
        if let Some(connection) = self.table.get_mut(place) {
            let (is_full, is_heavy) = (is_full(connection), is_heavy(connection));
            let wire = &mut connection.wire;
            if is_full || wire.is_receiving || wire.has_ended || wire.is_shut {
                return;
            }
            wire.is_receiving = true;
            wire.is_stopping = false;
            wire.goes_on = !is_heavy;
            if is_heavy {
                self.ring.receive_once(&connection.transport, place as u32);
            } else {
                self.ring.receive(&connection.transport, place as u32);
            }
        }
    }

    /// Closes a connection: at once, or when the kernel has said its last of it.
    pub(super) fn close(&mut self, place: Place) {
        let Some(connection) = self.table.get_mut(place) else {
            return;
        };
        if connection.wire.is_under_way() && !connection.wire.is_shut {
            connection.wire.is_shut = true;
            connection.transport.shut();
        }
        if connection.queued {
            // Its place will be another's.
            self.desk.waiting.retain(|&waiting| waiting != place);
        }
        // What it held is others' from now on. What is being sent comes back in a moment.
        self.desk.release_buffered(connection);
        connection.held = Held::default();
        connection.unsent = None;
        connection.begun = Vec::new();
        connection.session = session::Session::default();
        if let Some(arrived) = connection.wire.arrived.take() {
            self.inputs.give_back(arrived);
        }
        self.close_if_over(place);
    }

    fn close_if_over(&mut self, place: Place) {
        let is_over = |wire: &Wire| !wire.is_under_way();
        if self.table.get(place).is_some_and(|it| is_over(&it.wire)) {
            self.table.close(place, &self.desk.setup.census);
        }
    }
}

/// Has the ring say when there is room for what is left to send.
fn watch_room(ring: &mut Ring, connection: &mut Connection<Wire>, place: Place) {
    connection.wire.is_watched = true;
    ring.watch_room(&connection.transport, place as u32);
}

/// Whether more than a buffer of it should not be received at a time: a large value is on its way,
/// or what it has sent cannot be looked at yet.
fn is_heavy(connection: &mut Connection<Wire>) -> bool {
    let holds_much = connection.held.len() >= RING_BUFFER_LEN as usize;
    holds_much || connection.wants_turn || connection.session.upload_buffer().len() >= DIRECT_MIN
}

/// Whether it holds as much input as one may that cannot go on for now. One that can needs it: a
/// line may be long.
fn is_full(connection: &Connection<Wire>) -> bool {
    let is_blocked = connection.wire.is_sending || connection.unsent.is_some();
    (is_blocked || connection.wants_turn) && connection.held.len() >= HELD_FULL
}
