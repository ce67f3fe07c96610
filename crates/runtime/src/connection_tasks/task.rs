//! The task of one connection. It receives, answers all received requests, sends, and receives
//! again. While the peer does not read its replies, the task sleeps in a send and receives nothing.
//!
//! A task needs a worker context for each turn. The tasks share a few contexts.
//!
//! A session *holds memory* while it keeps memory of the service in use for which other connections
//! may wait, such as the memory of an upload. The *supervisor* is the thread that joins finished
//! tasks and closes connections.

mod turn;
mod waits;

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
    DIRECT_MIN, DRIPS_GATHERED, DRIPS_MAX, IDLE_BUFFER_LEN, LINGER_LEN, LINGER_NS, LONG_TURN_NS,
    RECEIVE_LEN, SEND_PER_TURN,
};
use crate::setup::second;
use crate::transform::Transformer;
use crate::transport::{endpoint_of, with_slices};

/// The state of a task and of its connection.
struct ConnectionTask<C: TaskRuntime> {
    session: <C::Service as Worker>::Session,
    /// Input that is not consumed yet.
    held: HeldInput,
    /// The receive buffer, [`IDLE_BUFFER_LEN`] or [`RECEIVE_LEN`] bytes long.
    buffer: Vec<u8>,
    /// Replies that are not sent yet.
    output: Output<<C::Service as Worker>::Pin>,
    /// The number of bytes that are counted as sent, but were not sent: the session has taken them
    /// back, because they belong to a file and were not in the page cache. The session appends them
    /// to a later output. They are not counted again then.
    taken_back: u64,
    /// The connection waits for memory that other connections hold.
    waits_for_memory: bool,
    /// The number of receives in a row that brought few bytes of a value.
    drips: u32,
    /// The socket waits for [`DRIPS_GATHERED`] bytes.
    gathers: bool,
    /// The transform of the connection's bytes. `None` if they are sent and received unchanged.
    transformer: Option<Box<Transformer>>,
    /// The open tickets of the session.
    tickets: OpenTickets,
    /// The mailbox for the results of tickets. Created when the session issues the first ticket.
    mailbox: Option<Arc<Mailbox<<C::Service as Worker>::Completion>>>,
    /// Wakes the task when a result arrives in the mailbox.
    waker: Waker,
    socket: C::PeerSocket,
    peer: Arc<Peer>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// The result of one receive.
struct Received {
    /// The number of received bytes. 0 means that the peer has shut down its sending side.
    len: usize,
    /// The number of bytes of input in the receive buffer: `len`, or 0 if the bytes were appended
    /// to the held input or received directly into the service's memory.
    in_buffer_len: usize,
    /// Before these bytes, the task held no input and no memory of the service. They are then the
    /// beginning of a request, or the rest of a value that the session discards.
    begins_request: bool,
}

/// The entry of a task in the list of peers. Dropping this value frees the entry. The value is the
/// first local variable of a task and so is dropped last, also when the task panics.
struct TaskEntry<C: TaskRuntime> {
    slot: Slot,
    peer: Option<Arc<Peer>>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// The main function of a task: serves a connection until the peer or the server closes it.
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
        send_rejection(&peer.stream, transformer.is_none(), &tasks.setup);
        drop(peer);
        return;
    };
    let mut session = tasks.runtime.with_context(|context| context.service.open());
    if <C::Service as Worker>::Session::NEEDS_PEER
        && let Some(address) = peer.stream.peer()
    {
        session.set_peer(address.ip());
    }
    if <C::Service as Worker>::Session::NEEDS_ENDPOINT {
        session.set_endpoint(endpoint_of(&peer.stream), monotonic_ns());
    }
    let task = ConnectionTask {
        session,
        held: HeldInput::default(),
        buffer: vec![0; IDLE_BUFFER_LEN],
        output: Output::default(),
        taken_back: 0,
        waits_for_memory: false,
        drips: 0,
        gathers: false,
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
            // The task's buffers have been freed already.
            self.tasks.count_buffered(peer, 0, 0);
        }
        let must_wake_supervisor = self.tasks.peers.finish(self.slot);
        // Dropping the last reference to the peer closes the socket, which is a system call. So it
        // happens here, after the list has been unlocked.
        self.peer = None;
        self.tasks.setup.counts.count_closed();
        if must_wake_supervisor {
            // The inbox is the supervisor's. The supervisor joins this task.
            self.tasks.inbox.waker.wake();
        }
    }
}

impl<C: TaskRuntime> Drop for ConnectionTask<C> {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            // The closed mailbox drops all results, also those that arrive later. Dropping a result
            // returns the result's memory to the producer, such as a disk.
            mailbox.close();
        }
    }
}

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Receives and answers until the connection is lost or has to be closed.
    fn run(mut self) {
        while let Some(received) = self.receive()
            && self.answer_all(&received)
        {
            if !self.socket.prefers_exchange() {
                // A receive does not suspend the task while input is available. Without this yield,
                // other tasks might never run.
                self.socket.yield_now();
            }
        }
    }

    /// Sleeps until input arrives, and receives it. If `answer_all` has left output, sends it
    /// first, by the same call (an *exchange*). Returns `None` if the connection is lost or has to
    /// be closed.
    fn receive(&mut self) -> Option<Received> {
        let is_idle = self.held.is_empty() && !self.session.holds_memory();
        let transformer = self.transformer.as_ref();
        let transformer_len = transformer.map_or(0, |transformer| transformer.buffered());
        // The supervisor reads these three values of the peer, to find connections to close.
        self.peer.set_holding(self.session.holds_memory());
        self.peer.set_idle(is_idle);
        self.peer
            .set_input_deadline(self.session.input_deadline_ns());
        if !self.tasks.count_buffered(
            &self.peer,
            self.held.capacity() + transformer_len,
            self.spare_len(),
        ) {
            return None;
        }
        if is_idle && self.tasks.stops_workers.load(Ordering::Relaxed) {
            // The server stops. The receive below still returns the input that has arrived. After
            // that, a receive returns the end of the stream.
            self.peer.stream.shutdown_receive();
        }
        // An *upload* is a value whose bytes go into the service's memory. If at least `DIRECT_MIN`
        // of them have not arrived yet, receive directly into that memory.
        let missing = self.session.upload_buffer().len();
        let is_direct = self.transformer.is_none() && missing >= DIRECT_MIN && self.held.is_empty();
        self.gather_drips(missing);
        let len = match self.output.as_bytes() {
            Some(bytes) if !bytes.is_empty() => {
                // An exchange receives into `self.buffer`, not into the memory of an upload.
                // `answer_all` leaves output for an exchange only if no upload is in progress.
                assert!(!is_direct, "an exchange during an upload");
                let exchanged = self.socket.exchange(bytes, &mut self.buffer);
                self.clear_output();
                exchanged.ok()?
            }
            _ => self.receive_only(is_direct)?,
        };
        self.drips = match missing > 0 && len < 2 * DRIPS_GATHERED {
            true => self.drips.saturating_add(1),
            false => 0,
        };
        self.peer.set_idle(false);
        self.peer.set_input_deadline(None);
        if is_direct {
            self.session.advance_upload(len);
            return Some(Received {
                len,
                in_buffer_len: 0,
                begins_request: is_idle,
            });
        }
        let mut in_buffer_len = len;
        if let Some(transformer) = &mut self.transformer {
            let wire_bytes = &self.buffer[..len];
            let received = transformer.receive(wire_bytes, self.held.tail());
            if let Err(error) = received {
                self.tasks.count_if_panic(&error);
                // The transform may have left a message about the error, which is for the peer.
                // Send as much of this message as the socket has space for.
                let _ = self.socket.try_send(&[IoSlice::new(transformer.unsent())]);
                return None;
            }
            in_buffer_len = 0;
        } else if !self.held.is_empty() {
            self.held.append(&self.buffer[..len]);
            self.fit_buffer(len, is_idle);
            in_buffer_len = 0;
        }
        Some(Received {
            len,
            in_buffer_len,
            begins_request: is_idle,
        })
    }

    /// After some short receives of a value, of which so many bytes are `missing`, lets the socket
    /// gather bytes. Not where silent peers are closed, since each byte counts there.
    fn gather_drips(&mut self, missing: usize) {
        let may_gather = self.transformer.is_none() && self.tasks.setup.idle_s.is_none();
        let is_drip = self.drips >= DRIPS_MAX && missing >= DRIPS_GATHERED;
        let gathers = may_gather && is_drip;
        if gathers != self.gathers {
            self.gathers = gathers;
            let min = if gathers { DRIPS_GATHERED } else { 1 };
            self.peer.stream.set_receive_min(min);
        }
    }

    /// Receives without sending: into the memory of an upload if `is_direct`, into the receive
    /// buffer otherwise. Returns `None` if the connection is lost or shut down.
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

    /// Answers all complete requests, turn by turn, and sends the replies. The replies of the last
    /// turn may be left in `output` for an exchange. Returns false if the connection has to be
    /// closed.
    fn answer_all(&mut self, received: &Received) -> bool {
        // The number of received bytes that are not counted in the statistics yet.
        let mut uncounted = received.len as u64;
        let mut in_buffer_len = received.in_buffer_len;
        loop {
            let now_ns = monotonic_ns();
            if uncounted > 0 {
                self.peer.set_active(second(now_ns));
                self.peer.transfer.add(uncounted as usize);
            }
            let next = self.answer_turn(in_buffer_len, std::mem::take(&mut uncounted), now_ns);
            let is_last = matches!(next, Next::Input | Next::Upload);
            let sends_with_receive = is_last && received.len > 0 && self.can_exchange();
            if !sends_with_receive && !self.send() {
                return false;
            }
            // A step of the service's background work, if one is due.
            self.tasks.maintain(now_ns);
            if in_buffer_len > 0 {
                self.fit_buffer(in_buffer_len, received.begins_request);
                in_buffer_len = 0;
            }
            match next {
                // With `OutputSpace` the session needs space in the output. There is space now,
                // because the output has been sent.
                Next::Yield | Next::OutputSpace => match monotonic_ns() - now_ns < LONG_TURN_NS {
                    true => self.socket.yield_now(),
                    false => self.socket.yield_after_long_run(),
                },
                Next::Memory => {
                    if !self.wait_for_memory(now_ns) {
                        return false;
                    }
                }
                Next::Close => {
                    if !self.held.is_empty() {
                        self.discard_input();
                    }
                    return false;
                }
                Next::Completion => {
                    if !self.wait_for_ticket() {
                        return false;
                    }
                }
                // The session could continue with input or with a result. A task can wait for only
                // one of the two, and waits for the result.
                Next::Input | Next::Upload if self.tickets.count() > 0 => {
                    if !self.wait_for_ticket() {
                        return false;
                    }
                }
                // All input is answered. If the peer has shut down its sending side (`len` is 0),
                // no more input arrives, and the connection is closed.
                Next::Input | Next::Upload => return received.len > 0,
            }
        }
    }

    /// Ends a connection that the session closes in the middle of the input, so that the peer can
    /// still read the last reply. If the socket were closed now, the kernel would reset the
    /// connection because of the bytes that are unread or arrive later. The peer may get this reset
    /// before it has read the reply. So this function ends only the sending direction. It discards
    /// the bytes that still arrive, until the peer closes the connection, but for at most
    /// [`LINGER_NS`] and about [`LINGER_LEN`] bytes.
    fn discard_input(&mut self) {
        self.held = HeldInput::default();
        self.set_buffer_len(IDLE_BUFFER_LEN);
        if !self.count_buffered() {
            return;
        }
        self.peer.stream.shutdown_send();
        // If the server stops, the supervisor shuts down the receiving direction of idle peers. So
        // the receives below then end early.
        self.peer.set_idle(true);
        let deadline_ns = monotonic_ns() + LINGER_NS;
        let mut discarded = 0;
        while discarded < LINGER_LEN && !self.peer.is_shut() {
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 || self.socket.set_receive_timeout(left_ns).is_err() {
                return;
            }
            match self.socket.receive(&mut self.buffer) {
                Ok(len @ 1..) => discarded += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
            self.socket.yield_now();
        }
    }

    /// Returns whether the replies can be sent together with the next receive, by an exchange.
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

    /// Fits the length of the receive buffer to the last receive. Makes the buffer [`RECEIVE_LEN`]
    /// bytes long if the receive returned at least [`IDLE_BUFFER_LEN`] bytes. Makes it
    /// [`IDLE_BUFFER_LEN`] bytes long if the receive returned fewer bytes and began a request.
    ///
    /// The length stays the same after the rest of a request. The next request is probably as long,
    /// and is then received by one call. Also, if the buffer became short after each long request,
    /// each of them would change the counted bytes twice (`connection_tasks/buffered.rs`).
    fn fit_buffer(&mut self, received_len: usize, begins_request: bool) {
        if received_len >= IDLE_BUFFER_LEN {
            self.set_buffer_len(RECEIVE_LEN);
        } else if begins_request {
            self.set_buffer_len(IDLE_BUFFER_LEN);
        }
    }

    /// Replaces the receive buffer if its length is not `len` bytes. Its content is lost then.
    fn set_buffer_len(&mut self, len: usize) {
        if self.buffer.len() != len {
            self.buffer = vec![0; len];
        }
    }

    /// Sends all replies, and waits as long as the peer takes to read them. Returns false if the
    /// connection is lost or has to be closed.
    fn send(&mut self) -> bool {
        let has_pins = self.output.has_pins();
        self.peer
            .set_holding(has_pins || self.session.holds_memory());
        let (mut sent, mut turn_end) = (0, SEND_PER_TURN);
        // Send without blocking until the socket has no space. Then count the remaining output
        // (`count_buffered`) before the first send that may block.
        let mut may_block = false;
        while sent < self.output.len() || self.has_wire_bytes() {
            if sent >= turn_end {
                turn_end = sent + SEND_PER_TURN;
                // Before other tasks run, announce that the context refers to no memory of the
                // service. Memory is reclaimed only after new announcements of all contexts in use.
                // Each turn ends with one, but the last turn may have been long ago.
                let runtime = &self.tasks.runtime;
                runtime.with_context(|context| context.service.end_burst(None));
                self.socket.yield_after_long_run();
            }
            if !may_block && self.output.file_rest(sent).is_some() {
                // A file is sent by sendfile(2), which has no flag that prevents blocking.
                may_block = true;
                if !self.count_buffered_and(self.session.result_bytes()) {
                    return false;
                }
            }
            let sent_once = match self.send_once(&mut sent, may_block) {
                Ok(Some(sent_once)) => sent_once,
                Ok(None) => {
                    // The next bytes belong to a file and are not in the page cache. The session
                    // takes back the rest of the output. In a later turn, it appends these bytes
                    // again, after it has read them into memory.
                    let len = self.output.len() - sent;
                    self.session.take_back(len);
                    self.taken_back += len as u64;
                    break;
                }
                Err(error) if is_transient(&error) && !self.peer.is_shut() => SentOnce::default(),
                Err(error) => {
                    self.tasks.count_if_panic(&error);
                    return false;
                }
            };
            if !may_block && !sent_once.is_complete {
                may_block = true;
                // Results of tickets are not used before the output has been sent, so count them.
                if !self.count_buffered_and(self.session.result_bytes()) {
                    return false;
                }
            }
            self.peer.transfer.add(sent_once.len);
            // The time of activity matters only if the peer could delay the task, or keep pinned
            // memory in use. Otherwise save the reading of the clock.
            if sent_once.len > 0 && (has_pins || may_block) {
                self.peer.set_active(second(monotonic_ns()));
            }
        }
        self.clear_output();
        true
    }

    /// Sends by one system call: the output from byte `sent` on, or, with a transform, *wire* bytes
    /// (the bytes on the network that the transform makes of the output). Advances `sent` by the
    /// output bytes that were sent or transformed. Returns `None` if the next bytes belong to a
    /// file and are not in the page cache.
    fn send_once(&mut self, sent: &mut usize, may_block: bool) -> io::Result<Option<SentOnce>> {
        let socket = &self.socket;
        if let Some(rest) = self.output.file_rest(*sent) {
            return Ok(socket.send_file(&rest)?.map(|len| {
                *sent += len;
                let is_complete = len == rest.len;
                SentOnce { len, is_complete }
            }));
        }
        let has_file = self.output.has_file();
        let send = |slices: &[IoSlice<'_>]| {
            if may_block {
                socket.send(slices)
            } else if has_file {
                socket.try_send_before_file(slices)
            } else {
                socket.try_send(slices)
            }
        };
        let Some(transformer) = &mut self.transformer else {
            // The slices may contain less than the output and the maximum, because their number is
            // limited too.
            let mut passed_len = 0;
            let len = with_slices(&self.output, *sent, SEND_PER_TURN, |slices| {
                passed_len = slices.iter().map(|slice| slice.len()).sum();
                send(slices)
            })?;
            *sent += len;
            return Ok(Some(SentOnce {
                len,
                is_complete: len == passed_len,
            }));
        };
        if transformer.unsent().is_empty() {
            // Transform the next part of the output.
            *sent += transformer.load(&self.output, *sent)?;
        }
        let wire_bytes = transformer.unsent();
        let wire_bytes = &wire_bytes[..wire_bytes.len().min(SEND_PER_TURN)];
        let len = send(&[IoSlice::new(wire_bytes)])?;
        let is_complete = len == wire_bytes.len();
        transformer.advance(len);
        Ok(Some(SentOnce { len, is_complete }))
    }

    /// Returns whether the transform has wire bytes to send.
    fn has_wire_bytes(&self) -> bool {
        let transformer = self.transformer.as_ref();
        transformer.is_some_and(|transformer| !transformer.unsent().is_empty())
    }

    /// Returns the length of the receive buffer above its initial length.
    fn spare_len(&self) -> usize {
        self.buffer.len() - IDLE_BUFFER_LEN
    }

    /// Counts the bytes that the task keeps while it waits: the held input, the output, the buffers
    /// of the transform, and the receive buffer above its initial length. If the bytes of all
    /// connections together exceed their bound, some connections are closed. Returns false if this
    /// connection is closed.
    fn count_buffered(&self) -> bool {
        self.count_buffered_and(0)
    }

    /// As [`count_buffered`](Self::count_buffered), with `further` bytes added.
    fn count_buffered_and(&self, further: usize) -> bool {
        let transformer = self.transformer.as_ref();
        let transformer_len = transformer.map_or(0, |transformer| transformer.buffered());
        let bytes = self.held.capacity() + self.output.capacity() + transformer_len + further;
        self.tasks
            .count_buffered(&self.peer, bytes, self.spare_len())
    }

    /// Empties the output. Frees the output's buffer if the output is longer than
    /// [`IDLE_BUFFER_LEN`].
    fn clear_output(&mut self) {
        if self.output.len() > IDLE_BUFFER_LEN {
            self.output = Output::default();
        } else {
            self.output.clear();
        }
    }
}

/// The result of one call of [`ConnectionTask::send_once`].
#[derive(Default)]
struct SentOnce {
    /// The number of bytes sent.
    len: usize,
    /// All remaining bytes, or as many as the limit of one call, were sent. If not, the socket may
    /// have no space left.
    is_complete: bool,
}

/// Returns whether the call that failed with `error` may succeed when it is repeated.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
