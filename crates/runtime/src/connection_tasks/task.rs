//! A connection with a task of its own. The task receives, answers all requests, sends, and
//! receives again. While the peer does not take its replies, the task sleeps in a send and reads
//! nothing.

mod burst;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use session::{Next, Output, Session};
use sys::clock::monotonic_ns;

use super::peers::Peer;
use super::{ConnectionTasks, PeerSocket, TaskRuntime};
use crate::acceptor::send_rejection;
use crate::connection::HeldInput;
use crate::connection_table::Slot;
use crate::limits::{
    BLOCKING_SEND_MAX, DIRECT_MIN, IDLE_BUFFER_LEN, MEMORY_RETRY_NS, RECEIVE_LEN, SEND_PER_TURN,
};
use crate::transport::Transport;

/// A connection and its task's state.
struct ConnectionTask<C: TaskRuntime> {
    session: Session,
    /// Input that is not consumed yet.
    held: HeldInput,
    /// The receive buffer.
    buffer: Vec<u8>,
    output: Output,
    /// It waits for store memory held by others.
    waits_for_memory: bool,
    socket: C::PeerSocket,
    peer: Arc<Peer>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// Received input.
struct Received {
    len: usize,
    /// The part that is in the buffer. The rest is held, or was received directly into store
    /// memory.
    fresh_len: usize,
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
) {
    let _entry = TaskEntry {
        slot,
        peer: Some(Arc::clone(&peer)),
        tasks: Arc::clone(&tasks),
    };
    let Ok(socket) = tasks.runtime.socket(&peer) else {
        let Transport::Plain(stream) = &peer.transport;
        tasks.setup.counts.refuse();
        send_rejection(stream);
        drop(peer);
        return;
    };
    let task = ConnectionTask {
        session: Session::default(),
        held: HeldInput::default(),
        buffer: vec![0; IDLE_BUFFER_LEN],
        output: Output::default(),
        waits_for_memory: false,
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
            self.tasks.keep(peer, 0);
        }
        let is_first = self.tasks.peers.leave(self.slot);
        // The last owner of the peer closes the socket. That must not happen under the list's lock.
        self.peer = None;
        self.tasks.setup.counts.leave();
        if is_first {
            self.tasks.inbox.waker.wake();
        }
    }
}

impl<C: TaskRuntime> ConnectionTask<C> {
    fn run(mut self) {
        while let Some(received) = self.receive()
            && self.answer_all(&received)
        {
            if !self.socket.has_exchange() {
                self.socket.yield_now();
            }
        }
    }

    /// Sleeps until input arrives. `None`: the connection is lost or shut.
    fn receive(&mut self) -> Option<Received> {
        let is_idle = self.held.is_empty() && !self.session.holds_memory();
        self.peer.set_holding(self.session.holds_memory());
        self.peer.set_idle(is_idle);
        if !self.tasks.keep(&self.peer, self.held.capacity()) {
            return None;
        }
        if is_idle && self.tasks.ending.load(Ordering::Relaxed) {
            // Input that has arrived by now is still answered.
            self.peer.transport.end_input();
        }
        let is_direct = self.session.upload_buffer().len() >= DIRECT_MIN && self.held.is_empty();
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
            return Some(Received { len, fresh_len: 0 });
        }
        let mut fresh_len = len;
        if !self.held.is_empty() {
            self.held.append(&self.buffer[..len]);
            fresh_len = 0;
        }
        Some(Received { len, fresh_len })
    }

    fn receive_only(&mut self, is_direct: bool) -> Option<usize> {
        loop {
            if self.peer.is_shut() {
                return None;
            }
            let room = match is_direct {
                true => self.session.upload_buffer(),
                false => &mut self.buffer[..],
            };
            match self.socket.receive(room) {
                Ok(len) => return Some(len),
                Err(error) if is_passing(&error) => {}
                Err(_) => return None,
            }
        }
    }

    /// Answers everything that needs no more input, turn by turn. Returns false when the connection
    /// is over.
    fn answer_all(&mut self, received: &Received) -> bool {
        let mut uncounted = received.len as u64;
        let mut fresh_len = received.fresh_len;
        loop {
            let now_ns = monotonic_ns();
            if uncounted > 0 {
                let now_s = self.tasks.setup.clock.at(now_ns).elapsed_s;
                self.peer.set_active(now_s);
            }
            let next = self.burst(fresh_len, std::mem::take(&mut uncounted), now_ns);
            let is_last = matches!(next, Next::Input | Next::Upload);
            let goes_along = is_last && received.len > 0 && self.can_exchange();
            if !goes_along && !self.send() {
                return false;
            }
            // Each turn ends with a bounded step of maintenance.
            self.tasks.maintain(now_ns);
            if fresh_len > 0 {
                self.fit_buffer(fresh_len);
                fresh_len = 0;
            }
            match next {
                Next::Yield | Next::OutputSpace => self.socket.yield_now(),
                Next::Memory => {
                    if !self.wait_for_memory(now_ns) {
                        return false;
                    }
                }
                Next::Close => return false,
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
        is_small && self.socket.has_exchange() && !self.session.holds_memory()
    }

    /// Grows the receive buffer if the peer filled it, and shrinks it if not.
    fn fit_buffer(&mut self, received_len: usize) {
        let wanted = if received_len < IDLE_BUFFER_LEN {
            IDLE_BUFFER_LEN
        } else {
            RECEIVE_LEN
        };
        if self.buffer.len() != wanted {
            self.buffer = vec![0; wanted];
        }
    }

    /// Sends all replies, however long the peer takes. Returns false if the connection is lost.
    fn send(&mut self) -> bool {
        let len = self.output.len();
        let is_holding = self.output.has_pins();
        self.peer
            .set_holding(is_holding || self.session.holds_memory());
        let (mut sent, mut turn_end) = (0, SEND_PER_TURN);
        // First without blocking: output that has to wait is counted before the wait.
        let mut waits = false;
        while sent < len {
            if sent >= turn_end {
                turn_end = sent + SEND_PER_TURN;
                // Makes the context quiescent, so that the store can reclaim memory meanwhile.
                self.tasks.runtime.with_context(|_| ());
                self.socket.yield_now();
            }
            let result = if waits {
                self.socket.send_once(&self.output, sent, BLOCKING_SEND_MAX)
            } else {
                self.socket.send_now(&self.output, sent, BLOCKING_SEND_MAX)
            };
            let part = match result {
                Ok(part) => part,
                Err(error) if is_passing(&error) && !self.peer.is_shut() => 0,
                Err(_) => return false,
            };
            sent += part;
            if !waits && part < BLOCKING_SEND_MAX && sent < len {
                waits = true;
                if !self.keep_all() {
                    return false;
                }
            }
            if part == 0 {
                continue;
            }
            if is_holding || waits {
                self.peer.set_active(self.tasks.setup.clock.now().elapsed_s);
            }
        }
        self.clear_output();
        true
    }

    /// Counts the kept bytes before a wait. Returns false if the connection has to be closed.
    fn keep_all(&self) -> bool {
        let bytes = self.held.capacity() + self.output.capacity();
        self.tasks.keep(&self.peer, bytes)
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
        if setup
            .counts
            .request_memory(setup.clock.at(now_ns).elapsed_s)
        {
            self.tasks.inbox.waker.wake();
        }
        // A connection that gets another turn is not slow.
        self.peer.set_holding(false);
        self.keep_all() && !self.socket.hangs_up_within(MEMORY_RETRY_NS)
    }
}

/// Whether the same call may succeed when repeated.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
