//! A worker that owns an io_uring: it waits for events of its connections, answers requests, and
//! runs the service's maintenance. The connections that have input after a wait are a burst.

mod burst;
mod ring_io;
mod sweep;

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use service::{OpenTickets, Session as _};
use sys::clock::monotonic_ns;
use sys::ring::{Event, ReceiveBuffers, ReceiveEnd, ReceivedBytes, Ring, RingConfig};

use self::burst::BurstMember;
pub(super) use self::ring_io::RingIo;
use crate::connection::{Connection, HeldInput};
use crate::connection_counts::Traffic;
use crate::connection_table::{ConnectionTable, Slot};
use crate::inbox::Inbox;
use crate::limits::{
    BURST_CONNECTIONS, DIRECT_MIN, EVENTS_PER_WAIT, HELD_INPUT_MAX, RING_BUFFER_LEN, RING_BUFFERS,
    RING_ENTRIES, SEND_CHECK_WAITS_MAX,
};
use crate::restart::EventLoop;
use crate::setup::second;
use crate::transport::Transport as _;
use crate::worker_context::{Flushed, Outcome, WorkerContext};

/// The token of events of the worker's inbox. The token of a connection's events is its slot.
pub(super) const INBOX_TOKEN: u32 = u32::MAX;

/// The sizes of a worker's ring.
const RING: RingConfig = RingConfig {
    entries: RING_ENTRIES,
    buffers: RING_BUFFERS,
    buffer_len: RING_BUFFER_LEN,
};

/// A worker: its context, its ring, and its connections.
pub(super) struct Worker<S: service::Worker> {
    pub(super) context: WorkerContext<S>,
    pub(super) inbox: Arc<Inbox>,
    /// This field precedes `table`, whose sockets must be closed after the ring is dropped.
    pub(super) ring: Ring,
    receive_buffers: ReceiveBuffers,
    pub(super) table: ConnectionTable<S, RingIo>,
    /// Connections whose receive ended because the ring had no free receive buffer. Their receives
    /// restart after the current burst has given buffers back.
    without_buffer: Vec<Slot>,
    /// Connections with a large send that was submitted recently and may be blocked.
    ///
    /// If the socket has space for all bytes, the kernel completes the send when it is submitted,
    /// and the completion is among the next events. Otherwise the send is blocked: its buffer
    /// occupies memory until the peer reads. [`count_blocked_sends`](Self::count_blocked_sends)
    /// tells the two cases apart, once the completions of the first case have been handled.
    unchecked_sends: Vec<Slot>,
    /// The number of waits since `unchecked_sends` was last emptied.
    waits_since_check: u32,
    /// The memory of two lists that [`serve`](Self::serve) fills. Both lists are empty between two
    /// calls of `serve`.
    members: Vec<BurstMember>,
    outcomes: Vec<Outcome>,
}

/// Creates the ring of a worker, and its receive buffers.
#[expect(
    unsafe_code,
    reason = "the one contract that the compiler cannot check here"
)]
pub(super) fn open() -> io::Result<(Ring, ReceiveBuffers)> {
    // SAFETY: a socket is closed only when its connection leaves the table of a `Worker`, and the
    // connection does so only when `has_kernel_operations` is false. At the end, `close_all` and
    // the order of the worker's fields drop the ring before the table. The inbox outlives the
    // worker: `restart::run` owns the worker and only borrows the inbox.
    unsafe { Ring::new(RING) }
}

impl<S: service::Worker> EventLoop for Worker<S> {
    type Service = S;
    type Kernel = (Ring, ReceiveBuffers);

    fn open(_: &Inbox) -> io::Result<(Ring, ReceiveBuffers)> {
        open()
    }

    fn new(
        context: WorkerContext<S>,
        inbox: Arc<Inbox>,
        (ring, receive_buffers): (Ring, ReceiveBuffers),
    ) -> Self {
        Self {
            context,
            inbox,
            ring,
            receive_buffers,
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
            // While the worker sleeps, it must not hold references to shared memory.
            self.context.service.offline();
            // The pause is the configured minimum time between two bursts. A `wait` with a timeout
            // of 0 submits the replies before the pause.
            if self.context.must_pause() && self.ring.wait(Some(0)).is_ok() {
                self.context.pause();
            }
            self.ring.wait(self.context.wait_timeout_ns())?;
            self.context.service.online();
            let now_ns = monotonic_ns();
            let now_s = second(now_ns);
            let mut inbox_is_ready = false;
            self.context.begin_round(now_ns, &mut burst);
            let mut has_more = true;
            // If more events are pending after the loop, the next wait returns immediately.
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
            // Unsent output is usually long, so the replies of the burst were sent first.
            while let Some(slot) = self.context.next_to_send() {
                self.send_unsent(slot, now_s);
            }
            for slot in mem::take(&mut self.without_buffer) {
                self.receive(slot);
            }
            // New connections get slots only now, after the burst. A connection of the burst may
            // have been closed, and its slot must not be reused while `burst` still names it.
            if inbox_is_ready {
                self.drain_inbox(now_ns);
            }
            if self.context.must_sweep(now_ns) {
                self.sweep(now_ns);
            }
            self.context.maintain(now_ns);
            if self.context.must_stop(now_ns)
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
        // Dropping the ring cancels its operations and waits until they end. The sockets may be
        // closed only after that. If an operation does not end in time, or dropping the ring
        // panics, the memory of the operation is leaked (`sys::ring`).
        let _ = catch_unwind(AssertUnwindSafe(|| drop(ring)));
        context.close_all(table);
        context
    }
}

impl<S: service::Worker> Worker<S> {
    /// Handles an event of a connection. Adds the connection to `burst` if it has input, or can
    /// continue without input.
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
                    connection.transfer.add(bytes.len());
                    // The send was blocked, so its buffer was counted.
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
            Event::Ready { token, .. } => self.on_writable(token as Slot),
            Event::HungUp { token } => self.on_hang_up(token as Slot),
        }
    }

    /// Handles received bytes. If the current burst can answer them, they stay in the ring's
    /// receive buffer. Otherwise they are copied to the connection's held input. `stays_active`
    /// says whether the receive operation continues.
    fn on_received(
        &mut self,
        slot: Slot,
        bytes: ReceivedBytes,
        stays_active: bool,
        burst: &mut Vec<Slot>,
        now_s: u32,
    ) {
        let Some(connection) = self.table.get_mut(slot) else {
            return self.receive_buffers.give_back(bytes);
        };
        connection.io.is_receiving = stays_active;
        connection.io.is_multishot &= stays_active;
        connection.io.is_cancelling &= stays_active;
        if connection.io.is_closed {
            self.receive_buffers.give_back(bytes);
            return self.free_slot_if_unused(slot);
        }
        connection.active_s = now_s;
        connection.transfer.add(bytes.len());
        let len = bytes.len() as u64;
        self.context.counts.add(Traffic::BytesRead, len);
        // One receive buffer may contain input of several connections. The kernel can reuse the
        // buffer only after the parts of all these connections have been given back. So input that
        // this burst cannot answer is copied to `held`, and its part is given back now.
        let is_blocked = connection.io.is_sending || connection.unsent.is_some();
        let is_first = connection.io.arrived.is_none() && connection.held.is_empty();
        let is_plain = connection.io.transport.is_plain();
        let waits_for_ticket = connection.waits_for_ticket;
        let has_no_turn = connection.io.waits_for_memory || waits_for_ticket;
        let is_held = !is_first || is_blocked || has_no_turn || !is_plain;
        if !is_plain {
            let (io, held) = (&mut connection.io, connection.held.tail());
            let transformed = io
                .transport
                .transform(self.receive_buffers.bytes(&bytes), held);
            self.receive_buffers.give_back(bytes);
            if let Err(error) = transformed {
                self.context.count_if_panic(&error);
                return self.close(slot);
            }
        } else if !is_held {
            connection.io.arrived = Some(bytes);
        } else {
            for arrived in connection.io.arrived.take().into_iter().chain([bytes]) {
                connection.held.append(self.receive_buffers.bytes(&arrived));
                self.receive_buffers.give_back(arrived);
            }
        }
        self.join_burst(slot, burst);
        self.limit_receiving(slot);
        if waits_for_ticket {
            // The connection gets no turn before the result of its ticket arrives, so no turn
            // restarts its receive. Restart the receive here, or watch for a hang-up. Otherwise the
            // worker would not notice that the peer has hung up.
            self.receive(slot);
            self.watch_hang_up(slot);
        }
        if is_held {
            self.count_buffered(slot);
        }
    }

    /// Handles the end of a receive operation.
    fn on_receive_end(&mut self, slot: Slot, how: &ReceiveEnd, burst: &mut Vec<Slot>) {
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
            ReceiveEnd::Closed => {
                connection.io.reached_eof = true;
                // If the peer has only shut down its sending side, it still gets the replies to
                // earlier requests. If the peer has hung up, the connection is closed, which
                // cancels the tickets for whose results the connection waits.
                let waits = connection.tickets.count() > 0 || connection.io.waits_for_memory;
                let has_hung_up = waits && connection.io.transport.stream().hangs_up_within(0);
                if has_hung_up {
                    self.close(slot);
                } else {
                    self.join_burst(slot, burst);
                }
            }
            ReceiveEnd::NoBuffer => self.without_buffer.push(slot),
            // The worker cancelled the multishot receive (`limit_receiving`). Usually the next turn
            // of the connection starts the next receive. But a connection that waits for the result
            // of a ticket gets no turn now, so its receive is started here.
            ReceiveEnd::Stopped if connection.waits_for_ticket => {
                self.receive(slot);
                self.watch_hang_up(slot);
            }
            ReceiveEnd::Stopped => self.join_burst(slot, burst),
            ReceiveEnd::Lost(_) => self.close(slot),
        }
    }

    /// Adds a connection to `burst`, unless the connection is queued already, its replies are still
    /// being sent, or it waits for the result of a ticket.
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

    /// Continues a connection after its replies were sent: adds it to `burst`, or starts a receive.
    /// Closes the connection if sending failed (`is_sent` is false), or if these replies were its
    /// last.
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

    /// Handles the event of [`watch_hang_up`](Self::watch_hang_up): closes the connection if it has
    /// open tickets and its peer has hung up. The kernel posts this event also if the peer has only
    /// shut down its sending side. Such a peer still gets its replies, so its connection is not
    /// closed.
    fn on_hang_up(&mut self, slot: Slot) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.io.is_hang_up_watched = false;
        if connection.io.is_closed {
            self.free_slot_if_unused(slot);
        } else if (connection.tickets.count() > 0 || connection.io.waits_for_memory)
            && connection.io.transport.stream().hangs_up_within(0)
        {
            self.close(slot);
        }
    }

    /// If the connection waits for memory or has open tickets, and no receive is in progress,
    /// starts an operation that makes the kernel post an event when the peer hangs up. (A receive
    /// in progress would report the hang-up.)
    pub(super) fn watch_hang_up(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && (connection.tickets.count() > 0 || connection.io.waits_for_memory)
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

    /// Handles the event of [`watch_writable`]: the connection waits to send its unsent output.
    fn on_writable(&mut self, slot: Slot) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.io.is_writable_watched = false;
        if connection.io.is_closed {
            self.free_slot_if_unused(slot);
        } else {
            self.context.wait_to_send(connection, slot);
        }
    }

    /// Sends unsent output of a connection that waits to send. When all of it is sent, the
    /// connection continues.
    fn send_unsent(&mut self, slot: Slot, now_s: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match self.context.send_unsent(connection, slot, now_s) {
            Some(Flushed::Complete) => {
                let mut continuing = Vec::new();
                self.on_replies_sent(slot, true, &mut continuing);
                self.context.runnable.append(&mut continuing);
            }
            Some(Flushed::Blocked) => watch_writable(&mut self.ring, connection, slot),
            Some(Flushed::Lost) => self.close(slot),
            Some(Flushed::Partial) | None => {}
        }
        self.count_buffered(slot);
    }

    /// Counts the buffers of blocked sends towards the worker's share of buffered bytes, and
    /// empties `unchecked_sends`.
    ///
    /// A send in `unchecked_sends` is blocked if it is still in progress after the completions of
    /// all other sends have been handled. This is the case if no event is left (`has_more` is
    /// false), or after [`SEND_CHECK_WAITS_MAX`] waits. Before that, this function does nothing.
    fn count_blocked_sends(&mut self, has_more: bool) {
        self.waits_since_check += 1;
        if has_more && self.waits_since_check < SEND_CHECK_WAITS_MAX {
            return;
        }
        self.waits_since_check = 0;
        while let Some(slot) = self.unchecked_sends.pop() {
            if let Some(connection) = self.table.get_mut(slot) {
                // The slot may have been given to a new connection. The flag of the new connection
                // is set only if the connection itself has added an entry for the slot.
                let is_unchecked = mem::take(&mut connection.io.is_send_unchecked);
                if is_unchecked && connection.io.is_sending {
                    connection.blocked_send_capacity = connection.io.send_capacity;
                    self.count_buffered(slot);
                }
            }
        }
    }

    /// Updates the count of the bytes that a connection keeps between bursts. If the kept bytes
    /// exceed the worker's share of their bound, closes connections (`crate::buffered` says which).
    pub(super) fn count_buffered(&mut self, slot: Slot) {
        if let Some(connection) = self.table.get_mut(slot)
            && !connection.io.is_closed
            && self.context.count_buffered(connection)
        {
            self.close_excess();
        }
    }

    /// Closes connections, because the kept bytes exceed the worker's share of their bound.
    pub(super) fn close_excess(&mut self) {
        for slot in self.context.excess_connections(&self.table) {
            self.close(slot);
        }
    }

    /// If a connection may receive at most one buffer at a time ([`is_heavy`]), cancels its
    /// multishot receive. The connection's next receives are then separate operations. Bytes that
    /// arrive between two receives wait in the socket.
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

    /// Starts a receive, unless one is in progress, the connection holds enough input
    /// ([`is_full`]), or no input can arrive any more.
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

    /// Closes a connection and releases its memory. If operations of the connection are in progress
    /// in the kernel, its slot is freed only after the last of them has ended.
    pub(super) fn close(&mut self, slot: Slot) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.io.has_kernel_operations() && !connection.io.is_closed {
            connection.io.is_closed = true;
            connection.io.transport.shut();
        }
        self.context.remove_from_lists(connection, slot);
        // Release the connection's memory now. The exception is the buffer of a send in progress:
        // the ring owns it until the send has ended.
        self.context.release_buffered(connection);
        connection.held = HeldInput::default();
        connection.unsent = None;
        connection.delayed_replies = Vec::new();
        // The old session is dropped. The new one is never used.
        connection.session = self.context.service.open();
        connection.tickets = OpenTickets::default();
        if let Some(arrived) = connection.io.arrived.take() {
            self.receive_buffers.give_back(arrived);
        }
        self.free_slot_if_unused(slot);
    }

    /// Frees the slot of a closed connection if no operation of this connection is in progress in
    /// the kernel.
    fn free_slot_if_unused(&mut self, slot: Slot) {
        let connection = self.table.get(slot);
        if connection.is_some_and(|connection| !connection.io.has_kernel_operations()) {
            self.table.close(slot, &self.context.setup.counts);
        }
    }
}

/// Starts an operation that makes the kernel post an event when the socket has space for the
/// connection's unsent output.
fn watch_writable<S: service::Worker>(
    ring: &mut Ring,
    connection: &mut Connection<S, RingIo>,
    slot: Slot,
) {
    connection.io.is_writable_watched = true;
    ring.watch_writable(&connection.io.transport, slot as u32);
}

/// Returns whether a connection may receive at most one buffer at a time. True if it uploads a
/// large value, holds much input, or cannot have its input answered yet. With a multishot receive,
/// such a connection could fill all receive buffers of the ring.
fn is_heavy<S: service::Worker>(connection: &mut Connection<S, RingIo>) -> bool {
    let holds_much = connection.held.len() >= RING_BUFFER_LEN as usize;
    holds_much
        || connection.continues_without_input
        || connection.session.upload_buffer().len() >= DIRECT_MIN
}

/// Returns whether a connection must not receive more before it is answered. True if it cannot be
/// answered now (it is sending, or waits for a turn, memory or a ticket) and holds at least
/// [`HELD_INPUT_MAX`] bytes. A connection that waits for the rest of a line may hold more bytes,
/// because a line may be longer.
fn is_full<S: service::Worker>(connection: &Connection<S, RingIo>) -> bool {
    let is_blocked = connection.io.is_sending || connection.unsent.is_some();
    (is_blocked || connection.continues_without_input) && connection.held.len() >= HELD_INPUT_MAX
}
