//! A connection with a task of its own. The task receives, answers all requests, sends, and
//! receives again. While the peer does not take its replies, the task sleeps in a send and reads
//! nothing.

mod burst;

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use service::{Mailbox, Next, OpenTickets, Output, Session as _, Worker};
use sys::clock::monotonic_ns;

use super::peers::Peer;
use super::{ConnectionTasks, PeerSocket, TaskRuntime};
use crate::acceptor::send_rejection;
use crate::connection::HeldInput;
use crate::connection_table::Slot;
use crate::limits::{
    BLOCKING_SEND_MAX, DIRECT_MIN, HANG_UP_CHECK_NS, IDLE_BUFFER_LEN, MEMORY_RETRY_NS, RECEIVE_LEN,
    SEND_PER_TURN,
};
use crate::setup::second;
use crate::transform::Transformer;
use crate::transport::with_slices;

/// A connection and its task's state.
struct ConnectionTask<C: TaskRuntime> {
    session: <C::Service as Worker>::Session,
    /// Input that is not consumed yet.
    held: HeldInput,
    /// The receive buffer.
    buffer: Vec<u8>,
    output: Output<<C::Service as Worker>::Pin>,
    /// The connection waits for memory held by others.
    waits_for_memory: bool,
    /// The transform of the connection's bytes, if any.
    transformer: Option<Box<Transformer>>,
    /// The tickets whose results the session waits for.
    tickets: OpenTickets,
    /// The results of the tickets, once one has been issued.
    mailbox: Option<Arc<Mailbox<<C::Service as Worker>::Completion>>>,
    /// Wakes the task when a result arrives.
    waker: Waker,
    socket: C::PeerSocket,
    peer: Arc<Peer>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// Received input.
struct Received {
    len: usize,
    /// The bytes that are to be answered from the buffer: all, or none if they were appended to the
    /// held input or received directly into store memory.
    in_buffer_len: usize,
}

/// The entry of a task in the list of peers. It is dropped last, however the task ends.
struct TaskEntry<C: TaskRuntime> {
    slot: Slot,
    peer: Option<Arc<Peer>>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// Serves a connection until either side closes it.
pub(super) fn serve_connection<C: TaskRuntime>(
    tasks: Arc<ConnectionTasks<C>>,
    peer: Arc<Peer>,
    slot: Slot,
    transformer: Option<Box<Transformer>>,
) {
    let _entry = TaskEntry {
        slot,
        peer: Some(Arc::clone(&peer)),
        tasks: Arc::clone(&tasks),
    };
    let Ok(socket) = tasks.runtime.socket(&peer) else {
        tasks.setup.counts.count_rejected();
        send_rejection(&peer.stream, &tasks.setup);
        drop(peer);
        return;
    };
    let task = ConnectionTask {
        session: tasks.runtime.with_context(|context| context.service.open()),
        held: HeldInput::default(),
        buffer: vec![0; IDLE_BUFFER_LEN],
        output: Output::default(),
        waits_for_memory: false,
        transformer,
        tickets: OpenTickets::default(),
        mailbox: None,
        waker: socket.waker(),
        socket,
        peer,
        tasks,
    };
    task.run();
}

impl<C: TaskRuntime> Drop for TaskEntry<C> {
    fn drop(&mut self) {
        if let Some(peer) = &self.peer {
            // The task keeps nothing any more.
            self.tasks.count_buffered(peer, 0);
        }
        let is_first = self.tasks.peers.finish(self.slot);
        // Dropping the last owner of the peer closes the socket, which must not happen under the
        // list's lock.
        self.peer = None;
        self.tasks.setup.counts.count_closed();
        if is_first {
            self.tasks.inbox.waker.wake();
        }
    }
}

impl<C: TaskRuntime> Drop for ConnectionTask<C> {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            // Results return to their source, those of unfinished tickets as they come.
            mailbox.close();
        }
    }
}

impl<C: TaskRuntime> ConnectionTask<C> {
    fn run(mut self) {
        while let Some(received) = self.receive()
            && self.answer_all(&received)
        {
            if !self.socket.prefers_exchange() {
                self.socket.yield_now();
            }
        }
    }

    /// Sleeps until input arrives. `None`: the connection is lost or shut.
    fn receive(&mut self) -> Option<Received> {
        let is_idle = self.held.is_empty() && !self.session.holds_memory();
        let transformer = self.transformer.as_ref();
        let wire = transformer.map_or(0, |transformer| transformer.buffered());
        self.peer.set_holding(self.session.holds_memory());
        self.peer.set_idle(is_idle);
        if !self
            .tasks
            .count_buffered(&self.peer, self.held.capacity() + wire)
        {
            return None;
        }
        if is_idle && self.tasks.is_ending.load(Ordering::Relaxed) {
            // Input that has arrived by now is still answered.
            self.peer.stream.shutdown_receive();
        }
        let is_direct = self.transformer.is_none()
            && self.session.upload_buffer().len() >= DIRECT_MIN
            && self.held.is_empty();
        let len = match self.output.as_bytes() {
            Some(bytes) if !bytes.is_empty() => {
                // `answer_all` leaves output for an exchange only if no upload is in progress.
                assert!(!is_direct, "a value would land in the buffer");
                let exchanged = self.socket.exchange(bytes, &mut self.buffer);
                self.clear_output();
                exchanged.ok()?
            }
            _ => self.receive_only(is_direct)?,
        };
        self.peer.set_idle(false);
        if is_direct {
            self.session.advance_upload(len);
            return Some(Received {
                len,
                in_buffer_len: 0,
            });
        }
        let mut in_buffer_len = len;
        if let Some(transformer) = &mut self.transformer {
            let wire = &self.buffer[..len];
            let received = transformer.receive(wire, self.held.tail());
            received
                .inspect_err(|error| self.tasks.count_if_panic(error))
                .ok()?;
            in_buffer_len = 0;
        } else if !self.held.is_empty() {
            self.held.append(&self.buffer[..len]);
            in_buffer_len = 0;
        }
        Some(Received { len, in_buffer_len })
    }

    fn receive_only(&mut self, is_direct: bool) -> Option<usize> {
        loop {
            if self.peer.is_shut() {
                return None;
            }
            let space = match is_direct {
                true => self.session.upload_buffer(),
                false => &mut self.buffer[..],
            };
            match self.socket.receive(space) {
                Ok(len) => return Some(len),
                Err(error) if is_transient(&error) => {}
                Err(_) => return None,
            }
        }
    }

    /// Answers all complete requests, turn by turn. Returns false if the connection is to be
    /// closed.
    fn answer_all(&mut self, received: &Received) -> bool {
        let mut uncounted = received.len as u64;
        let mut in_buffer_len = received.in_buffer_len;
        loop {
            let now_ns = monotonic_ns();
            if uncounted > 0 {
                self.peer.set_active(second(now_ns));
            }
            let next = self.burst(in_buffer_len, std::mem::take(&mut uncounted), now_ns);
            let is_last = matches!(next, Next::Input | Next::Upload);
            let sends_with_receive = is_last && received.len > 0 && self.can_exchange();
            if !sends_with_receive && !self.send() {
                return false;
            }
            // Each turn ends with a bounded step of maintenance.
            self.tasks.maintain(now_ns);
            if in_buffer_len > 0 {
                self.fit_buffer(in_buffer_len);
                in_buffer_len = 0;
            }
            match next {
                Next::Yield | Next::OutputSpace => self.socket.yield_now(),
                Next::Memory => {
                    if !self.wait_for_memory(now_ns) {
                        return false;
                    }
                }
                Next::Close => return false,
                Next::Completion => {
                    if !self.wait_for_ticket() {
                        return false;
                    }
                }
                // A task cannot wait for input and for the results of tickets at once.
                Next::Input | Next::Upload if self.tickets.count() > 0 => {
                    if !self.wait_for_ticket() {
                        return false;
                    }
                }
                // No more replies are due if the peer has closed its side.
                Next::Input | Next::Upload => return received.len > 0,
            }
        }
    }

    /// Whether the replies can be sent together with the next receive.
    fn can_exchange(&self) -> bool {
        let is_small = self
            .output
            .as_bytes()
            .is_some_and(|it| it.len() <= IDLE_BUFFER_LEN);
        is_small
            && self.socket.prefers_exchange()
            && !self.session.holds_memory()
            && self.transformer.is_none()
            && self.tickets.count() == 0
    }

    /// Grows the receive buffer if the last receive filled the small one, and shrinks it if not.
    fn fit_buffer(&mut self, received_len: usize) {
        let new_len = if received_len < IDLE_BUFFER_LEN {
            IDLE_BUFFER_LEN
        } else {
            RECEIVE_LEN
        };
        if self.buffer.len() != new_len {
            self.buffer = vec![0; new_len];
        }
    }

    /// Sends all replies, however long the peer takes. Returns false if the connection is lost.
    fn send(&mut self) -> bool {
        let is_holding = self.output.has_pins();
        self.peer
            .set_holding(is_holding || self.session.holds_memory());
        let (mut sent, mut turn_end) = (0, SEND_PER_TURN);
        // The first sends do not block, so that output that has to wait is counted before the wait.
        let mut may_block = false;
        while sent < self.output.len() || self.has_wire_bytes() {
            if sent >= turn_end {
                turn_end = sent + SEND_PER_TURN;
                // The service holds no references while other tasks run, so that memory can be
                // reclaimed.
                let runtime = &self.tasks.runtime;
                runtime.with_context(|context| context.service.end_burst(None));
                self.socket.yield_now();
            }
            let one = match self.send_once(&mut sent, may_block) {
                Ok(one) => one,
                Err(error) if is_transient(&error) && !self.peer.is_shut() => SentOnce::default(),
                Err(error) => {
                    self.tasks.count_if_panic(&error);
                    return false;
                }
            };
            if !may_block && !one.is_complete {
                may_block = true;
                if !self.count_buffered() {
                    return false;
                }
            }
            if one.len > 0 && (is_holding || may_block) {
                self.peer.set_active(second(monotonic_ns()));
            }
        }
        self.clear_output();
        true
    }

    /// Sends output from byte `sent`, or its wire bytes, by one system call. Advances `sent`.
    fn send_once(&mut self, sent: &mut usize, may_block: bool) -> io::Result<SentOnce> {
        let socket = &self.socket;
        let send = |slices: &[IoSlice<'_>]| {
            if may_block {
                socket.send(slices)
            } else {
                socket.try_send(slices)
            }
        };
        let Some(transformer) = &mut self.transformer else {
            let passed_len = (self.output.len() - *sent).min(BLOCKING_SEND_MAX);
            let len = with_slices(&self.output, *sent, BLOCKING_SEND_MAX, send)?;
            *sent += len;
            return Ok(SentOnce {
                len,
                is_complete: len == passed_len,
            });
        };
        if transformer.unsent().is_empty() {
            *sent += transformer.load(&self.output, *sent)?;
        }
        let wire = transformer.unsent();
        let wire = &wire[..wire.len().min(BLOCKING_SEND_MAX)];
        let len = send(&[IoSlice::new(wire)])?;
        let is_complete = len == wire.len();
        transformer.advance(len);
        Ok(SentOnce { len, is_complete })
    }

    /// Whether the transform has bytes to send.
    fn has_wire_bytes(&self) -> bool {
        let transformer = self.transformer.as_ref();
        transformer.is_some_and(|transformer| !transformer.unsent().is_empty())
    }

    /// Counts the kept bytes before a wait. Returns false if the connection has to be closed.
    fn count_buffered(&self) -> bool {
        let transformer = self.transformer.as_ref();
        let wire = transformer.map_or(0, |transformer| transformer.buffered());
        let bytes = self.held.capacity() + self.output.capacity() + wire;
        self.tasks.count_buffered(&self.peer, bytes)
    }

    fn clear_output(&mut self) {
        if self.output.len() > IDLE_BUFFER_LEN {
            self.output = Output::default();
        } else {
            self.output.clear();
        }
    }

    /// Waits for the retry interval, and has slow holders checked. Returns false if the peer has
    /// hung up.
    fn wait_for_memory(&mut self, now_ns: u64) -> bool {
        let setup = &self.tasks.setup;
        if setup.counts.request_memory(second(now_ns)) {
            self.tasks.inbox.waker.wake();
        }
        // A connection that gets another turn is not slow.
        self.peer.set_holding(false);
        self.count_buffered() && !self.socket.hangs_up_within(MEMORY_RETRY_NS)
    }

    /// Waits for the result of a ticket, and delivers all that have arrived. Returns false if the
    /// peer has hung up: closing the connection cancels the tickets.
    fn wait_for_ticket(&mut self) -> bool {
        let is_stuck = self.tickets.count() == 0;
        // A session that waits for the result of a ticket without having one would wait forever.
        debug_assert!(!is_stuck, "the session waits for a result without a ticket");
        if is_stuck || !self.count_buffered() {
            return false;
        }
        // A connection that waits for a completion does not wait for its peer.
        self.peer.set_holding(false);
        while !self.deliver() {
            if self.peer.is_shut() || self.socket.hangs_up_within(0) {
                return false;
            }
            self.socket.wait_woken(HANG_UP_CHECK_NS);
        }
        true
    }

    /// Delivers the results of tickets to the session. Returns false if there are none.
    fn deliver(&mut self) -> bool {
        let (session, mut has_delivered) = (&mut self.session, false);
        while let Some(completed) = self.mailbox.as_ref().and_then(|mailbox| mailbox.take()) {
            has_delivered = true;
            self.tickets.deliver();
            let runtime = &self.tasks.runtime;
            let session = &mut *session;
            let now_ns = monotonic_ns();
            runtime.with_context(|context| {
                let (number, result) = (completed.number, completed.result);
                context.service.begin_burst(now_ns);
                context.service.complete(session, number, result);
                context.service.end_burst(None);
            });
        }
        has_delivered
    }
}

/// What one send has sent.
#[derive(Default)]
struct SentOnce {
    /// Bytes sent.
    len: usize,
    /// The socket took all bytes that it was passed.
    is_complete: bool,
}

/// Whether the same call may succeed when repeated.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
