//! A worker: it waits for its connections, answers them in bursts, and runs store maintenance.

mod burst;

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use service::{Output, Pending, Pin, Session as _};
use sys::clock::monotonic_ns;
use sys::ring::{Arrived, Ended, Event, Inputs, Ring, RingConfig};

use self::burst::Part;
use crate::connection::{Connection, ConnectionIo, HeldInput};
use crate::connection_counts::Traffic;
use crate::connection_table::{ConnectionTable, Slot};
use crate::inbox::Inbox;
use crate::limits::{
    BURST_CONNECTIONS, DIRECT_MIN, EVENTS_PER_WAIT, HELD_INPUT_MAX, RING_BUFFER_LEN, RING_BUFFERS,
    RING_ENTRIES, UNSETTLED_WAITS_MAX,
};
use crate::restart::EventLoop;
use crate::setup::second;
use crate::transport::{Sent, SocketTransport, Transport as _};
use crate::worker_context::{Flushed, Outcome, WorkerContext};

pub(super) const INBOX: u32 = u32::MAX;

const RING: RingConfig = RingConfig {
    entries: RING_ENTRIES,
    buffers: RING_BUFFERS,
    buffer_len: RING_BUFFER_LEN,
};

/// The socket of a connection, and its operations in the worker's ring.
pub(super) struct RingIo {
    pub(super) transport: SocketTransport,
    /// A receive is in progress.
    is_receiving: bool,
    /// That receive is multishot.
    is_multishot: bool,
    /// Its cancellation was requested.
    is_stopping: bool,
    /// Received bytes that were not answered yet.
    arrived: Option<Arrived>,
    /// The peer has closed its side.
    has_ended: bool,
    /// A send is in progress.
    is_sending: bool,
    /// Capacity of the buffer being sent, in bytes.
    sending: usize,
    /// It is in the list `unsettled`.
    is_unsettled: bool,
    /// It waits for space to send.
    is_watched: bool,
    /// It waits for memory held by others.
    waits_for_memory: bool,
    /// It is closed once no operation is in progress.
    is_shut: bool,
}

impl RingIo {
    pub(super) fn new(transport: SocketTransport) -> Self {
        Self {
            transport,
            is_receiving: false,
            is_multishot: false,
            is_stopping: false,
            arrived: None,
            has_ended: false,
            is_sending: false,
            sending: 0,
            is_unsettled: false,
            is_watched: false,
            waits_for_memory: false,
            is_shut: false,
        }
    }

    /// Whether the kernel will still post a completion for it.
    fn is_under_way(&self) -> bool {
        self.is_receiving || self.is_sending || self.is_watched
    }

    /// Whether all input was answered and all replies were sent.
    pub(super) fn is_idle(&self) -> bool {
        self.arrived.is_none() && !self.is_sending && !self.is_shut
    }
}

impl ConnectionIo for RingIo {
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

/// A worker.
pub(super) struct Worker<S: service::Worker> {
    pub(super) context: WorkerContext<S>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) ring: Ring,
    inputs: Inputs,
    pub(super) table: ConnectionTable<S, RingIo>,
    /// Connections whose receive ended because no buffer was free.
    without_buffer: Vec<Slot>,
    /// Connections with large submitted sends. If the peer has space, the kernel completes such a
    /// send at submission, and the completion is among the next events.
    unsettled: Vec<Slot>,
    /// Waits since `unsettled` was last processed.
    unsettled_waits: u32,
    parts: Vec<Part>,
    outcomes: Vec<Outcome>,
}

/// Creates the ring of a worker, and its receive buffers.
pub(super) fn open() -> io::Result<(Ring, Inputs)> {
    Ring::new(RING)
}

impl<S: service::Worker> EventLoop for Worker<S> {
    type Service = S;
    type Kernel = (Ring, Inputs);

    fn open(_: &Inbox) -> io::Result<(Ring, Inputs)> {
        open()
    }

    fn new(context: WorkerContext<S>, inbox: Arc<Inbox>, (ring, inputs): (Ring, Inputs)) -> Self {
        Self {
            context,
            inbox,
            ring,
            inputs,
            table: ConnectionTable::new(),
            without_buffer: Vec::new(),
            unsettled: Vec::new(),
            unsettled_waits: 0,
            parts: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut burst: Vec<Slot> = Vec::with_capacity(EVENTS_PER_WAIT);
        self.context.begin();
        self.watch_inbox();
        loop {
            self.context.service.offline();
            // Submit the replies before the pause.
            if self.context.must_pause() && self.ring.wait(Some(0)).is_ok() {
                self.context.rest();
            }
            self.ring.wait(self.context.wait_timeout_ns())?;
            self.context.service.online();
            let now_ns = monotonic_ns();
            let now_s = second(now_ns);
            let mut inbox_is_ready = false;
            self.context.take_runnable(now_ns, &mut burst);
            let mut has_more = true;
            // Remaining events are returned at once by the next wait.
            for _ in 0..EVENTS_PER_WAIT {
                match self.ring.next_event() {
                    Some(Event::Ready {
                        token,
                        stays_active,
                    }) if token == INBOX => {
                        inbox_is_ready = true;
                        if !stays_active {
                            self.watch_inbox();
                        }
                    }
                    Some(event) => self.on_event(event, &mut burst, now_s),
                    None => {
                        has_more = false;
                        break;
                    }
                }
            }
            self.settle_sends(has_more);
            self.context.woke_up(now_ns, burst.len());
            for slots in burst.chunks(BURST_CONNECTIONS) {
                self.serve(slots, now_ns);
            }
            burst.clear();
            for slot in mem::take(&mut self.without_buffer) {
                self.receive(slot);
            }
            // Slots are reused only after all connections of the burst are handled.
            if inbox_is_ready {
                self.drain_inbox(now_ns);
            }
            self.context.maintain(now_ns);
            if self.context.is_ending(now_ns)
                && (self.drain() || self.context.is_out_of_time(now_ns))
            {
                return Ok(());
            }
        }
    }

    fn close_all(self) -> WorkerContext<S> {
        let Self {
            mut context,
            ring,
            table,
            ..
        } = self;
        context.reset();
        // The ring is dropped before the sockets, so that operations in the kernel end first.
        // Memory that the kernel does not give back is leaked (`sys::ring`), even if dropping
        // panics.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(ring)));
        context.close_all(table);
        context
    }
}

impl<S: service::Worker> Worker<S> {
    /// Handles an event: a connection with input, or one that can continue, becomes part of the
    /// burst.
    fn on_event(&mut self, event: Event, burst: &mut Vec<Slot>, now_s: u32) {
        match event {
            Event::Received {
                token,
                bytes,
                stays_active,
            } => self.on_received(token as Slot, bytes, stays_active, burst, now_s),
            Event::ReceiveEnded { token, how } => self.on_receive_end(token as Slot, &how, burst),
            Event::Sent {
                token,
                bytes,
                result,
            } => {
                let slot = token as Slot;
                if let Some(connection) = self.table.get_mut(slot) {
                    connection.io.is_sending = false;
                    connection.active_s = now_s;
                    if mem::take(&mut connection.sending) > 0 {
                        self.count_buffered(slot);
                    }
                }
                if result.is_ok() {
                    let len = bytes.len() as u64;
                    self.context.counts.add(Traffic::BytesWritten, len);
                }
                self.context.keep(bytes);
                self.on_replies_sent(slot, result.is_ok(), burst);
            }
            Event::Ready { token, .. } => self.send_unsent(token as Slot, burst, now_s),
        }
    }

    fn on_received(
        &mut self,
        slot: Slot,
        bytes: Arrived,
        stays_active: bool,
        burst: &mut Vec<Slot>,
        now_s: u32,
    ) {
        let Some(connection) = self.table.get_mut(slot) else {
            return self.inputs.give_back(bytes);
        };
        connection.io.is_receiving = stays_active;
        connection.io.is_multishot &= stays_active;
        connection.io.is_stopping &= stays_active;
        if connection.io.is_shut {
            self.inputs.give_back(bytes);
            return self.close_if_over(slot);
        }
        connection.active_s = now_s;
        let len = bytes.len() as u64;
        self.context.counts.add(Traffic::BytesRead, len);
        // Input stays in the kernel's buffer only if it is answered in this burst: a buffer is
        // reused when all input in it has been returned.
        let is_blocked = connection.io.is_sending || connection.unsent.is_some();
        let is_first = connection.io.arrived.is_none() && connection.held.is_empty();
        let is_plain = connection.io.transport.is_plain();
        let waits_for_completion = connection.waits_for_completion;
        let waits = connection.io.waits_for_memory || waits_for_completion;
        let is_held = !is_first || is_blocked || waits || !is_plain;
        if !is_plain {
            let (io, held) = (&mut connection.io, connection.held.tail());
            let transformed = io.transport.transform(self.inputs.bytes(&bytes), held);
            self.inputs.give_back(bytes);
            if transformed.is_err() {
                return self.close(slot);
            }
        } else if !is_held {
            connection.io.arrived = Some(bytes);
        } else {
            for arrived in connection.io.arrived.take().into_iter().chain([bytes]) {
                connection.held.append(self.inputs.bytes(&arrived));
                self.inputs.give_back(arrived);
            }
        }
        self.join(slot, burst);
        self.limit_receiving(slot);
        if waits_for_completion {
            // It is not served in this burst, and would not notice that its peer is gone.
            self.receive(slot);
        }
        if is_held {
            self.count_buffered(slot);
        }
    }

    fn on_receive_end(&mut self, slot: Slot, how: &Ended, burst: &mut Vec<Slot>) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.io.is_receiving = false;
        connection.io.is_multishot = false;
        connection.io.is_stopping = false;
        if connection.io.is_shut {
            return self.close_if_over(slot);
        }
        match how {
            Ended::Closed => {
                connection.io.has_ended = true;
                // Replies are due to a peer that only ends sending. One that is gone cancels.
                let is_gone = connection.waits_for_completion
                    && connection.io.transport.stream().hangs_up_within(0);
                if is_gone {
                    self.close(slot);
                } else {
                    self.join(slot, burst);
                }
            }
            Ended::NoBuffer => self.without_buffer.push(slot),
            // The receive continues after the held input is answered. That may already have
            // happened.
            Ended::Stopped if connection.waits_for_completion => self.receive(slot),
            Ended::Stopped => self.join(slot, burst),
            Ended::Lost(_) => self.close(slot),
        }
    }

    /// Makes a connection part of the burst, unless its replies are still being sent or it waits for
    /// a completion.
    fn join(&mut self, slot: Slot, burst: &mut Vec<Slot>) {
        if let Some(connection) = self.table.get_mut(slot)
            && !connection.queued
            && !connection.waits_for_completion
            && !connection.io.is_sending
            && connection.unsent.is_none()
        {
            connection.queued = true;
            burst.push(slot);
        }
    }

    /// A connection's replies have been sent, or never will be.
    fn on_replies_sent(&mut self, slot: Slot, is_sent: bool, burst: &mut Vec<Slot>) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.is_shut {
            return self.close_if_over(slot);
        }
        if !is_sent || connection.closing {
            return self.close(slot);
        }
        let has_input = connection.io.arrived.is_some() || !connection.held.is_empty();
        if connection.wants_turn || connection.io.has_ended || has_input {
            self.join(slot, burst);
        } else {
            self.receive(slot);
        }
    }

    /// Sends unsent output. Once all is sent, the connection continues.
    fn send_unsent(&mut self, slot: Slot, burst: &mut Vec<Slot>, now_s: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.io.is_watched = false;
        if connection.io.is_shut {
            return self.close_if_over(slot);
        }
        match self.context.send_unsent(connection, now_s) {
            Some(Flushed::Complete) => self.on_replies_sent(slot, true, burst),
            Some(Flushed::Partial) => watch_room(&mut self.ring, connection, slot),
            Some(Flushed::Lost) => self.close(slot),
            None => {}
        }
        self.count_buffered(slot);
    }

    /// Counts submitted but uncompleted sends as waiting for their peers, once all events have been
    /// handled, or after so many waits that completions would have arrived.
    fn settle_sends(&mut self, has_more: bool) {
        self.unsettled_waits += 1;
        if has_more && self.unsettled_waits < UNSETTLED_WAITS_MAX {
            return;
        }
        self.unsettled_waits = 0;
        while let Some(slot) = self.unsettled.pop() {
            if let Some(connection) = self.table.get_mut(slot) {
                connection.io.is_unsettled = false;
                if connection.io.is_sending {
                    connection.sending = connection.io.sending;
                    self.count_buffered(slot);
                }
            }
        }
    }

    /// Counts the bytes that a connection keeps, and closes the largest connections if the worker's
    /// share is exceeded.
    pub(super) fn count_buffered(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && !connection.io.is_shut
            && self.context.count_buffered(connection)
        {
            for slot in self.context.overflow(&self.table) {
                self.close(slot);
            }
        }
    }

    /// Stops the multishot receive of a connection that sends much at a time or cannot continue.
    /// Bytes beyond a buffer then wait in the kernel.
    pub(super) fn limit_receiving(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && is_heavy(connection)
            && connection.io.is_multishot
            && !connection.io.is_stopping
        {
            connection.io.is_stopping = true;
            self.ring.stop_receiving(slot as u32);
        }
    }

    /// Starts a receive, unless one is in progress or no input is expected.
    pub(super) fn receive(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot) {
            let (is_full, is_heavy) = (is_full(connection), is_heavy(connection));
            let io = &mut connection.io;
            if is_full || io.is_receiving || io.has_ended || io.is_shut {
                return;
            }
            io.is_receiving = true;
            io.is_stopping = false;
            io.is_multishot = !is_heavy;
            if is_heavy {
                self.ring
                    .receive_once(&connection.io.transport, slot as u32);
            } else {
                self.ring.receive(&connection.io.transport, slot as u32);
            }
        }
    }

    /// Closes a connection now, or after its last completion.
    pub(super) fn close(&mut self, slot: Slot) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.is_under_way() && !connection.io.is_shut {
            connection.io.is_shut = true;
            connection.io.transport.shut();
        }
        if connection.queued {
            self.context.forget_queued(slot);
        }
        // Its held memory becomes available now. The buffer being sent returns with the completion.
        self.context.release_buffered(connection);
        connection.held = HeldInput::default();
        connection.unsent = None;
        connection.pending = Vec::new();
        connection.session = self.context.service.open();
        connection.tickets = Pending::default();
        if let Some(arrived) = connection.io.arrived.take() {
            self.inputs.give_back(arrived);
        }
        self.close_if_over(slot);
    }

    fn close_if_over(&mut self, slot: Slot) {
        let connection = self.table.get(slot);
        if connection.is_some_and(|connection| !connection.io.is_under_way()) {
            self.table.close(slot, &self.context.setup.counts);
        }
    }
}

/// Watches the socket for space to send the rest.
fn watch_room<S: service::Worker>(
    ring: &mut Ring,
    connection: &mut Connection<S, RingIo>,
    slot: Slot,
) {
    connection.io.is_watched = true;
    ring.watch_room(&connection.io.transport, slot as u32);
}

/// Whether to receive at most one buffer at a time: a large value is being uploaded, or received
/// input cannot be answered yet.
fn is_heavy<S: service::Worker>(connection: &mut Connection<S, RingIo>) -> bool {
    let holds_much = connection.held.len() >= RING_BUFFER_LEN as usize;
    holds_much || connection.wants_turn || connection.session.upload_buffer().len() >= DIRECT_MIN
}

/// Whether a connection that cannot continue already holds as much input as it may. One that can
/// continue may hold more, because a line may be long.
fn is_full<S: service::Worker>(connection: &Connection<S, RingIo>) -> bool {
    let is_blocked = connection.io.is_sending || connection.unsent.is_some();
    (is_blocked || connection.wants_turn) && connection.held.len() >= HELD_INPUT_MAX
}
