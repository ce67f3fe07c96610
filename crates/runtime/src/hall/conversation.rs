//! A conversation that has a task of its own: it receives, answers all it was asked, sends, and
//! receives again. While a peer does not take its answers, its task sleeps sending them and reads
//! nothing.

mod burst;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use session::{Next, Output, Session};
use sys::clock::monotonic_ns;

use super::live::Peer;
use super::{Crew, Hall, Line};
use crate::acceptor::say_why;
use crate::connection::Held;
use crate::limits::{
    DIRECT_MIN, MEMORY_RETRY_NS, RECEIVE_LEN, RESTING_LEN, SEND_A_TURN, SEND_AT_ONCE,
};
use crate::table::Place;
use crate::transport::Transport;

/// A conversation.
struct Conversation<C: Crew> {
    session: Session,
    /// Input that could not be used yet.
    held: Held,
    /// What is received into.
    buffer: Vec<u8>,
    output: Output,
    /// It waits for memory that others hold.
    wants_memory: bool,
    line: C::Line,
    peer: Arc<Peer>,
    hall: Arc<Hall<C>>,
}

/// What has come.
struct Received {
    len: usize,
    /// So much of it lies in the buffer; the rest is held, or in its place in the store.
    fresh_len: usize,
}

/// A conversation's place among those that live. Dropped last, however its task ends.
struct Stay<C: Crew> {
    place: Place,
    peer: Option<Arc<Peer>>,
    hall: Arc<Hall<C>>,
}

/// Converses with a peer until one of them has enough.
pub(super) fn converse<C: Crew>(hall: Arc<Hall<C>>, peer: Arc<Peer>, place: Place) {
    let _stay = Stay {
        place,
        peer: Some(Arc::clone(&peer)),
        hall: Arc::clone(&hall),
    };
    let Ok(line) = hall.crew.line(&peer) else {
        let Transport::Plain(stream) = &peer.transport;
        hall.setup.census.refuse();
        say_why(stream);
        drop(peer);
        return;
    };
    let conversation = Conversation {
        session: Session::default(),
        held: Held::default(),
        buffer: vec![0; RESTING_LEN],
        output: Output::default(),
        wants_memory: false,
        line,
        peer,
        hall,
    };
    conversation.run();
}

impl<C: Crew> Drop for Stay<C> {
    fn drop(&mut self) {
        if let Some(peer) = &self.peer {
            // It keeps nothing any more.
            self.hall.keep(peer, 0);
        }
        let is_first = self.hall.live.leave(self.place);
        // The last who has it closes the socket, and that is not the list.
        self.peer = None;
        self.hall.setup.census.leave();
        if is_first {
            self.hall.inbox.waker.wake();
        }
    }
}

impl<C: Crew> Conversation<C> {
    fn run(mut self) {
        while let Some(received) = self.receive()
            && self.answer_all(&received)
        {
            if !self.line.exchanges() {
                self.line.let_others();
            }
        }
    }

    /// Sleeps until something comes; none: the connection is lost or shut.
    fn receive(&mut self) -> Option<Received> {
        let is_idle = self.held.is_empty() && !self.session.holds_memory();
        self.peer.set_holding(self.session.holds_memory());
        self.peer.set_idle(is_idle);
        if !self.hall.keep(&self.peer, self.held.capacity()) {
            return None;
        }
        if is_idle && self.hall.ending.load(Ordering::Relaxed) {
            // What has come is the last that is answered.
            self.peer.transport.end_input();
        }
        let is_direct = self.session.upload_buffer().len() >= DIRECT_MIN && self.held.is_empty();
        let len = match self.output.as_bytes() {
            Some(bytes) if !bytes.is_empty() => {
                // Left for this by `answer_all`, where no value is on its way into the store.
                assert!(!is_direct, "a value would land in the buffer");
                let exchanged = self.line.exchange(bytes, &mut self.buffer);
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
            match self.line.receive(room) {
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
                let now_s = self.hall.setup.clock.at(now_ns).elapsed_s;
                self.peer.moved(now_s);
            }
            let next = self.burst(fresh_len, std::mem::take(&mut uncounted), now_ns);
            let is_last = matches!(next, Next::Input | Next::Upload);
            let goes_along = is_last && received.len > 0 && self.can_exchange();
            if !goes_along && !self.send() {
                return false;
            }
            // A turn ends here, and with it goes a bounded step.
            self.hall.maintain(now_ns);
            if fresh_len > 0 {
                self.fit_buffer(fresh_len);
                fresh_len = 0;
            }
            match next {
                Next::Yield | Next::OutputSpace => self.line.let_others(),
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
            .is_some_and(|it| it.len() <= RESTING_LEN);
        is_small && self.line.exchanges() && !self.session.holds_memory()
    }

    /// A peer that fills what it is given is given more, until it does not.
    fn fit_buffer(&mut self, received_len: usize) {
        let wanted = if received_len < RESTING_LEN {
            RESTING_LEN
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
        let (mut sent, mut turn_end) = (0, SEND_A_TURN);
        // Until there is no room: what waits for its peer is counted first.
        let mut waits = false;
        while sent < len {
            if sent >= turn_end {
                turn_end = sent + SEND_A_TURN;
                // What the desk has seen, others may have back meanwhile.
                self.hall.crew.at_desk(|_| ());
                self.line.let_others();
            }
            let result = if waits {
                self.line.send_once(&self.output, sent, SEND_AT_ONCE)
            } else {
                self.line.send_now(&self.output, sent, SEND_AT_ONCE)
            };
            let part = match result {
                Ok(part) => part,
                Err(error) if is_passing(&error) && !self.peer.is_shut() => 0,
                Err(_) => return false,
            };
            sent += part;
            if !waits && part < SEND_AT_ONCE && sent < len {
                waits = true;
                if !self.keep_all() {
                    return false;
                }
            }
            if part == 0 {
                continue;
            }
            if is_holding || waits {
                self.peer.moved(self.hall.setup.clock.now().elapsed_s);
            }
        }
        self.clear_output();
        true
    }

    /// Counts what it keeps while it waits; false: it is to be closed.
    fn keep_all(&self) -> bool {
        let bytes = self.held.capacity() + self.output.capacity();
        self.hall.keep(&self.peer, bytes)
    }

    fn clear_output(&mut self) {
        if self.output.len() > RESTING_LEN {
            self.output = Output::default();
        } else {
            self.output.clear();
        }
    }

    /// Waits a moment before memory is tried to be had again, and sees that those who hold it are
    /// looked at; false: the peer has hung up.
    fn wait_for_memory(&mut self, now_ns: u64) -> bool {
        let setup = &self.hall.setup;
        if setup.census.want_memory(setup.clock.at(now_ns).elapsed_s) {
            self.hall.inbox.waker.wake();
        }
        // One that has its turn coming is not slow.
        self.peer.set_holding(false);
        self.keep_all() && !self.line.hangs_up_within(MEMORY_RETRY_NS)
    }
}

/// Whether the same call may succeed the next time.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}
