//! The thread that accepts: it admits or rejects, and gives each connection a thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sys::poll::{Events, Interest, Poll};
use sys::socket::{Listener, Stream, is_exhaustion};

use super::Hall;
use super::wake::Peer;
use super::worker::converse;
use crate::dealer::turn_away;
use crate::limits::{ACCEPT_REST_NS, ACCEPTS_IN_A_ROW, CONVERSATION_STACK_LEN};
use crate::running::Running;
use crate::transport::Transport;

const WAKER: u64 = u64::MAX;

/// The thread that accepts.
pub(super) struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    hall: Arc<Hall>,
    stopping: Arc<AtomicBool>,
}

/// Descriptors, memory or threads have run out.
struct Exhausted;

impl Acceptor {
    pub(super) fn new(
        listeners: Vec<Listener>,
        hall: Arc<Hall>,
        running: &Running,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*running.accept_waker, WAKER, Interest::Read)?;
        for (token, listener) in listeners.iter().enumerate() {
            poll.add(listener, token as u64, Interest::Read)?;
        }
        Ok(Self {
            poll,
            listeners,
            hall,
            stopping: Arc::clone(&running.stopping),
        })
    }

    pub(super) fn run(self) {
        let mut events = Events::with_capacity(self.listeners.len() + 1);
        while !self.stopping.load(Ordering::Relaxed) {
            if self.poll.wait(&mut events, None).is_err() {
                return;
            }
            let mut is_exhausted = false;
            for ready in events.iter() {
                if let Ok(token) = usize::try_from(ready.token)
                    && let Some(listener) = self.listeners.get(token)
                {
                    is_exhausted |= self.accept(listener).is_err();
                }
            }
            if is_exhausted {
                self.rest();
            }
        }
    }

    fn accept(&self, listener: &Listener) -> Result<(), Exhausted> {
        for _ in 0..ACCEPTS_IN_A_ROW {
            match listener.accept() {
                Ok(stream) => self.begin(stream)?,
                Err(error) if is_exhaustion(&error) => return Err(Exhausted),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Gives a connection a thread, or turns it away.
    fn begin(&self, stream: Stream) -> Result<(), Exhausted> {
        let setup = &self.hall.setup;
        if !setup.census.admit() {
            turn_away(&stream);
            return Ok(());
        }
        stream.set_nodelay();
        let now_s = setup.clock.now().elapsed_s;
        let peer = Arc::new(Peer::new(Transport::Plain(stream), now_s));
        self.start(&peer).inspect_err(|_| {
            setup.census.turn_away();
            let Transport::Plain(stream) = &peer.transport;
            turn_away(stream);
        })
    }

    /// Starts a peer's thread.
    fn start(&self, peer: &Arc<Peer>) -> Result<(), Exhausted> {
        let (hall, live) = (Arc::clone(&self.hall), &self.hall.live);
        let most = hall.conversations_max;
        let place = live.enter(Arc::clone(peer), most).ok_or(Exhausted)?;
        let its_peer = Arc::clone(peer);
        let started = thread::Builder::new()
            .name("conversation".to_owned())
            .stack_size(CONVERSATION_STACK_LEN)
            .spawn(move || converse(hall, its_peer, place));
        let Ok(thread) = started else {
            live.withdraw(place);
            return Err(Exhausted);
        };
        if live.settle(place, thread) {
            self.hall.inbox.waker.wake();
        }
        Ok(())
    }

    /// Lets those who wait wait on in the kernel, until what has run out may have come free.
    fn rest(&self) {
        let census = &self.hall.setup.census;
        census.rest();
        let started_ns = sys::clock::monotonic_ns();
        self.listen_for(Interest::None);
        // Only the waker can be ready.
        let _ = self
            .poll
            .wait(&mut Events::with_capacity(1), Some(ACCEPT_REST_NS));
        self.listen_for(Interest::Read);
        census.resume(sys::clock::monotonic_ns() - started_ns);
    }

    fn listen_for(&self, interest: Interest) {
        for (token, listener) in self.listeners.iter().enumerate() {
            // They were added at the start; changing what is registered cannot fail.
            let _ = self.poll.change(listener, token as u64, interest);
        }
    }
}
