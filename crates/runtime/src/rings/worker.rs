//! A worker: it waits for its connections, answers them in bursts, and runs store maintenance.

mod burst;

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use service::{OpenTickets, Output, Pin, Session as _};
use sys::clock::monotonic_ns;
use sys::ring::{Arrived, Ended, Event, Inputs, Ring, RingConfig};

use self::burst::BurstMember;
use crate::connection::{Connection, ConnectionIo, HeldInput};
use crate::connection_counts::Traffic;
use crate::connection_table::{ConnectionTable, Slot};
use crate::inbox::Inbox;
use crate::limits::{
    BURST_CONNECTIONS, DIRECT_MIN, EVENTS_PER_WAIT, HELD_INPUT_MAX, RING_BUFFER_LEN, RING_BUFFERS,
    RING_ENTRIES, SEND_CHECK_WAITS_MAX,
};
use crate::restart::EventLoop;
use crate::setup::second;
use crate::transport::{Sent, SocketTransport, Transport as _};
use crate::worker_context::{Flushed, Outcome, WorkerContext};

/// The token of the inbox's event. The token of a connection is its slot.
pub(super) const INBOX_TOKEN: u32 = u32::MAX;

const RING: RingConfig = RingConfig {
    entries: RING_ENTRIES,
    buffers: RING_BUFFERS,
    buffer_len: RING_BUFFER_LEN,
};

/// The socket of a connection, and its operations in the worker's ring.
pub(super) struct RingIo {
    pub(super) transport: SocketTransport,
    /// A receive is in progress in the kernel.
    is_receiving: bool,
    /// The receive in progress is multishot.
    is_multishot: bool,
    /// The cancellation of the receive in progress was requested.
    is_cancelling: bool,
    /// Received bytes that the present burst answers, in a buffer of the kernel. Input that waits
    /// longer is in `Connection::held`.
    arrived: Option<Arrived>,
    /// The peer has shut down its sending side.
    reached_eof: bool,
    /// A send is in progress in the kernel.
    is_sending: bool,
    /// Capacity of the buffer being sent, in bytes.
    send_capacity: usize,
    /// The connection is in [`Worker::unchecked_sends`].
    is_send_unchecked: bool,
    /// The kernel watches the socket for space to send.
    is_writable_watched: bool,
    /// A hang-up of its peer will be reported.
    is_hang_up_watched: bool,
    /// It waits for memory held by others.
    waits_for_memory: bool,
    /// The connection is closed once no operation of it is in progress in the kernel.
    is_closed: bool,
}

impl RingIo {
    pub(super) fn new(transport: SocketTransport) -> Self {
        Self {
            transport,
            is_receiving: false,
            is_multishot: false,
            is_cancelling: false,
            arrived: None,
            reached_eof: false,
            is_sending: false,
            send_capacity: 0,
            is_send_unchecked: false,
            is_writable_watched: false,
            is_hang_up_watched: false,
            waits_for_memory: false,
            is_closed: false,
        }
    }

    /// Whether an operation of the connection is in progress in the kernel, which will post an
    /// event for it.
    fn has_kernel_operations(&self) -> bool {
        self.is_receiving || self.is_sending || self.is_writable_watched || self.is_hang_up_watched
    }

    /// Whether all input was answered and all replies were sent.
    pub(super) fn is_idle(&self) -> bool {
        self.arrived.is_none() && !self.is_sending && !self.is_closed
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
    /// Connections with a large submitted send of which it is not known yet whether the peer took
    /// it at once. If so, the kernel completed the send at submission, and the completion is among
    /// the next events; if not, the buffer occupies memory until the peer reads.
    unchecked_sends: Vec<Slot>,
    /// Waits since `unchecked_sends` was last emptied.
    waits_since_check: u32,
    members: Vec<BurstMember>,
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
            unchecked_sends: Vec::new(),
            waits_since_check: 0,
            members: Vec::with_capacity(BURST_CONNECTIONS),
            outcomes: Vec::with_capacity(BURST_CONNECTIONS),
        }
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut burst: Vec<Slot> = Vec::with_capacity(EVENTS_PER_WAIT);
        self.context.set_up_thread();
        self.watch_inbox();
        loop {
            self.context.service.offline();
            // Submit the replies before the pause.
            if self.context.must_pause() && self.ring.wait(Some(0)).is_ok() {
                self.context.pause();
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
                    }) if token == INBOX_TOKEN => {
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
            self.count_blocked_sends(has_more);
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
    /// Handles an event: a connection with input, or one that can continue, joins the burst.
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
                    if mem::take(&mut connection.blocked_send_capacity) > 0 {
                        self.count_buffered(slot);
                    }
                }
                if result.is_ok() {
                    let len = bytes.len() as u64;
                    self.context.counts.add(Traffic::BytesWritten, len);
                }
                self.context.keep_for_reuse(bytes);
                self.on_replies_sent(slot, result.is_ok(), burst);
            }
            Event::Ready { token, .. } => self.send_unsent(token as Slot, burst, now_s),
            Event::HungUp { token } => self.on_hang_up(token as Slot),
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
        connection.io.is_cancelling &= stays_active;
        if connection.io.is_closed {
            self.inputs.give_back(bytes);
            return self.free_slot_if_unused(slot);
        }
        connection.active_s = now_s;
        let len = bytes.len() as u64;
        self.context.counts.add(Traffic::BytesRead, len);
        // A buffer of the kernel holds input of several connections and is reused once all of it
        // has been given back. So input that is not answered in this burst is copied to `held`.
        let is_blocked = connection.io.is_sending || connection.unsent.is_some();
        let is_first = connection.io.arrived.is_none() && connection.held.is_empty();
        let is_plain = connection.io.transport.is_plain();
        let waits_for_ticket = connection.waits_for_ticket;
        let has_no_turn = connection.io.waits_for_memory || waits_for_ticket;
        let is_held = !is_first || is_blocked || has_no_turn || !is_plain;
        if !is_plain {
            let (io, held) = (&mut connection.io, connection.held.tail());
            let transformed = io.transport.transform(self.inputs.bytes(&bytes), held);
            self.inputs.give_back(bytes);
            if let Err(error) = transformed {
                self.context.count_if_panic(&error);
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
        self.join_burst(slot, burst);
        self.limit_receiving(slot);
        if waits_for_ticket {
            // Nothing else restarts its receive before the result arrives, and without a receive
            // the worker would not notice that the peer has hung up.
            self.receive(slot);
            self.watch_hang_up(slot);
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
        connection.io.is_cancelling = false;
        if connection.io.is_closed {
            return self.free_slot_if_unused(slot);
        }
        match how {
            Ended::Closed => {
                connection.io.reached_eof = true;
                // A peer that has only shut down its sending side still gets its replies. If it has
                // hung up, the connection is closed, which cancels its tickets.
                let has_hung_up = connection.tickets.count() > 0
                    && connection.io.transport.stream().hangs_up_within(0);
                if has_hung_up {
                    self.close(slot);
                } else {
                    self.join_burst(slot, burst);
                }
            }
            Ended::NoBuffer => self.without_buffer.push(slot),
            // The receive continues after the held input is answered. That may already have
            // happened.
            Ended::Stopped if connection.waits_for_ticket => {
                self.receive(slot);
                self.watch_hang_up(slot);
            }
            Ended::Stopped => self.join_burst(slot, burst),
            Ended::Lost(_) => self.close(slot),
        }
    }

    /// Adds a connection to the burst, unless its replies are still being sent or it waits for the
    /// result of a ticket.
    fn join_burst(&mut self, slot: Slot, burst: &mut Vec<Slot>) {
        if let Some(connection) = self.table.get_mut(slot)
            && !connection.is_queued
            && !connection.waits_for_ticket
            && !connection.io.is_sending
            && connection.unsent.is_none()
        {
            connection.is_queued = true;
            burst.push(slot);
        }
    }

    /// Continues a connection whose replies have been sent, or closes it if they cannot be.
    fn on_replies_sent(&mut self, slot: Slot, is_sent: bool, burst: &mut Vec<Slot>) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.is_closed {
            return self.free_slot_if_unused(slot);
        }
        if !is_sent || connection.close_after_send {
            return self.close(slot);
        }
        let has_input = connection.io.arrived.is_some() || !connection.held.is_empty();
        if connection.waits_for_ticket {
            self.receive(slot);
            self.watch_hang_up(slot);
        } else if connection.continues_without_input || connection.io.reached_eof || has_input {
            self.join_burst(slot, burst);
        } else {
            self.receive(slot);
        }
    }

    /// Closes a connection with tickets whose peer has hung up. The kernel also reports a peer that
    /// has only shut down its sending side, which still gets its replies.
    fn on_hang_up(&mut self, slot: Slot) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.io.is_hang_up_watched = false;
        if connection.io.is_closed {
            self.free_slot_if_unused(slot);
        } else if connection.tickets.count() > 0
            && connection.io.transport.stream().hangs_up_within(0)
        {
            self.close(slot);
        }
    }

    /// Watches for a hang-up while a connection with tickets receives nothing.
    pub(super) fn watch_hang_up(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && connection.tickets.count() > 0
            && !connection.io.is_receiving
            && !connection.io.reached_eof
            && !connection.io.is_hang_up_watched
            && !connection.io.is_closed
        {
            connection.io.is_hang_up_watched = true;
            self.ring
                .watch_hang_up(&connection.io.transport, slot as u32);
        }
    }

    /// Sends unsent output. Once all is sent, the connection continues.
    fn send_unsent(&mut self, slot: Slot, burst: &mut Vec<Slot>, now_s: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.io.is_writable_watched = false;
        if connection.io.is_closed {
            return self.free_slot_if_unused(slot);
        }
        match self.context.send_unsent(connection, now_s) {
            Some(Flushed::Complete) => self.on_replies_sent(slot, true, burst),
            Some(Flushed::Partial) => watch_room(&mut self.ring, connection, slot),
            Some(Flushed::Lost) => self.close(slot),
            None => {}
        }
        self.count_buffered(slot);
    }

    /// Counts the bytes of unchecked_sends sends that have not completed: their peers did not take them
    /// at once. Does so when no event is left to handle, or after so many waits that the completion
    /// of a send that its peer took at once has been handled.
    fn count_blocked_sends(&mut self, has_more: bool) {
        self.waits_since_check += 1;
        if has_more && self.waits_since_check < SEND_CHECK_WAITS_MAX {
            return;
        }
        self.waits_since_check = 0;
        while let Some(slot) = self.unchecked_sends.pop() {
            if let Some(connection) = self.table.get_mut(slot) {
                connection.io.is_send_unchecked = false;
                if connection.io.is_sending {
                    connection.blocked_send_capacity = connection.io.send_capacity;
                    self.count_buffered(slot);
                }
            }
        }
    }

    /// Counts the bytes that a connection keeps, and closes the largest connections if the worker's
    /// share is exceeded.
    pub(super) fn count_buffered(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && !connection.io.is_closed
            && self.context.count_buffered(connection)
        {
            for slot in self.context.excess_connections(&self.table) {
                self.close(slot);
            }
        }
    }

    /// Stops the multishot receive of a heavy connection. Its next receives are for one buffer at a
    /// time; further bytes wait in the socket.
    pub(super) fn limit_receiving(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && is_heavy(connection)
            && connection.io.is_multishot
            && !connection.io.is_cancelling
        {
            connection.io.is_cancelling = true;
            self.ring.stop_receiving(slot as u32);
        }
    }

    /// Starts a receive, unless one is in progress or no input is expected.
    pub(super) fn receive(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot) {
            let (is_full, is_heavy) = (is_full(connection), is_heavy(connection));
            let io = &mut connection.io;
            if is_full || io.is_receiving || io.reached_eof || io.is_closed {
                return;
            }
            io.is_receiving = true;
            io.is_cancelling = false;
            io.is_multishot = !is_heavy;
            if is_heavy {
                self.ring
                    .receive_once(&connection.io.transport, slot as u32);
            } else {
                self.ring.receive(&connection.io.transport, slot as u32);
            }
        }
    }

    /// Closes a connection: now, or once the kernel has finished its last operation.
    pub(super) fn close(&mut self, slot: Slot) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.has_kernel_operations() && !connection.io.is_closed {
            connection.io.is_closed = true;
            connection.io.transport.shut();
        }
        if connection.is_queued {
            self.context.remove_runnable(slot);
        }
        // The memory that it holds becomes available now, except the buffer being sent: the kernel
        // returns that with the completion of the send.
        self.context.release_buffered(connection);
        connection.held = HeldInput::default();
        connection.unsent = None;
        connection.delayed_replies = Vec::new();
        connection.session = self.context.service.open();
        connection.tickets = OpenTickets::default();
        if let Some(arrived) = connection.io.arrived.take() {
            self.inputs.give_back(arrived);
        }
        self.free_slot_if_unused(slot);
    }

    fn free_slot_if_unused(&mut self, slot: Slot) {
        let connection = self.table.get(slot);
        if connection.is_some_and(|connection| !connection.io.has_kernel_operations()) {
            self.table.close(slot, &self.context.setup.counts);
        }
    }
}

/// Watches the socket for space to send the remaining output.
fn watch_room<S: service::Worker>(
    ring: &mut Ring,
    connection: &mut Connection<S, RingIo>,
    slot: Slot,
) {
    connection.io.is_writable_watched = true;
    ring.watch_room(&connection.io.transport, slot as u32);
}

/// Whether a connection is heavy, so that it receives at most one buffer at a time: a large value
/// is being uploaded, or received input cannot be answered yet.
fn is_heavy<S: service::Worker>(connection: &mut Connection<S, RingIo>) -> bool {
    let holds_much = connection.held.len() >= RING_BUFFER_LEN as usize;
    holds_much
        || connection.continues_without_input
        || connection.session.upload_buffer().len() >= DIRECT_MIN
}

/// Whether a connection that cannot continue already holds as much input as it may. One that can
/// continue may hold more, because a line may be long.
fn is_full<S: service::Worker>(connection: &Connection<S, RingIo>) -> bool {
    let is_blocked = connection.io.is_sending || connection.unsent.is_some();
    (is_blocked || connection.continues_without_input) && connection.held.len() >= HELD_INPUT_MAX
}
