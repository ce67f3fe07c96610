//! A conversation that has a task of its own: it receives, answers all it was asked, sends, and
//! receives again. While a peer does not take its answers, its task sleeps sending them and reads
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

/// A conversation.
struct ConnectionTask<C: TaskRuntime> {
    session: Session,
    /// Input that could not be used yet.
    held: HeldInput,
    /// What is received into.
    buffer: Vec<u8>,
    output: Output,
    /// It waits for memory that others hold.
    waits_for_memory: bool,
    socket: C::PeerSocket,
    peer: Arc<Peer>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// What has come.
struct Received {
    len: usize,
    /// So much of it lies in the buffer; the rest is held, or in its place in the store.
    fresh_len: usize,
}

/// A conversation's place among those that live. Dropped last, however its task ends.
struct TaskEntry<C: TaskRuntime> {
    slot: Slot,
    peer: Option<Arc<Peer>>,
    tasks: Arc<ConnectionTasks<C>>,
}

/// Converses with a peer until one of them has enough.
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
            // It keeps nothing any more.
            self.tasks.keep(peer, 0);
        }
        let is_first = self.tasks.peers.leave(self.slot);
        // The last who has it closes the socket, and that is not the list.
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

    /// Sleeps until something comes; none: the connection is lost or shut.
    fn receive(&mut self) -> Option<Received> {
        let is_idle = self.held.is_empty() && !self.session.holds_memory();
        self.peer.set_holding(self.session.holds_memory());
        self.peer.set_idle(is_idle);
        if !self.tasks.keep(&self.peer, self.held.capacity()) {
            return None;
        }
        if is_idle && self.tasks.ending.load(Ordering::Relaxed) {
            // What has come is the last that is answered.
            self.peer.transport.end_input();
        }
        let is_direct = self.session.upload_buffer().len() >= DIRECT_MIN && self.held.is_empty();
        let len = match self.output.as_bytes() {
            Some(bytes) if !bytes.is_empty() => {
                // Left for this by `answer_all`, where no value is on its way into the store.
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

    /// Answers what can be answered without receiving more, turn by turn; false: it is over.
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
            // A turn ends here, and with it goes a bounded step.
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
                // A peer that has sent its last is owed no more.
                Next::Input | Next::Upload => return received.len > 0,
            }
        }
    }

    /// Whether the answers may wait for what is received next: they are sent right before.
    fn can_exchange(&self) -> bool {
        let is_small = self
            .output
            .as_bytes()
            .is_some_and(|it| it.len() <= IDLE_BUFFER_LEN);
        is_small && self.socket.has_exchange() && !self.session.holds_memory()
    }

    /// A peer that fills what it is given is given more, until it does not.
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

    /// Sends all answers, however long the peer takes; false: it will not take them.
    fn send(&mut self) -> bool {
        let len = self.output.len();
        let is_holding = self.output.has_pins();
        self.peer
            .set_holding(is_holding || self.session.holds_memory());
        let (mut sent, mut turn_end) = (0, SEND_PER_TURN);
        // Until there is no room: what waits for its peer is counted first.
        let mut waits = false;
        while sent < len {
            if sent >= turn_end {
                turn_end = sent + SEND_PER_TURN;
                // What the desk has seen, others may have back meanwhile.
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

    /// Counts what it keeps while it waits; false: it is to be closed.
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

    /// Waits a moment before memory is tried to be had again, and sees that those who hold it are
    /// looked at; false: the peer has hung up.
    fn wait_for_memory(&mut self, now_ns: u64) -> bool {
        let setup = &self.tasks.setup;
        if setup
            .counts
            .request_memory(setup.clock.at(now_ns).elapsed_s)
        {
            self.tasks.inbox.waker.wake();
        }
        // One that has its turn coming is not slow.
        self.peer.set_holding(false);
        self.keep_all() && !self.socket.hangs_up_within(MEMORY_RETRY_NS)
    }
}

/// Whether the same call may succeed the next time.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
