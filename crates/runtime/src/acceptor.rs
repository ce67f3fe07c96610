//! The acceptor thread. It admits or rejects connections; the runtime's [`Dispatch`] passes
//! admitted ones on.
//!
//! The acceptor waits by epoll under every runtime. A ring would keep a listener open for some
//! milliseconds after its process was killed: clients could still connect but would get no reply,
//! and a new server would find the port in use.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};
use sys::socket::{Listener, Stream, is_exhaustion};

use crate::limits::{ACCEPT_PAUSE_NS, ACCEPTS_PER_EVENT};
use crate::running::Running;
use crate::setup::Shared;
use crate::transform::NewTransform;
use crate::transport::SocketTransport;

/// The token of the acceptor's waker. The token of a listener is its index.
const WAKER_TOKEN: u64 = u64::MAX;

/// An exhausted resource.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exhausted {
    /// Descriptors, or kernel memory for sockets.
    Files,
    /// Threads or stacks, in runtimes with a task per connection.
    Tasks,
}

/// Passes admitted connections to workers or tasks.
pub(crate) trait Dispatch {
    /// Passes an admitted connection on, or rejects it ([`reject`]).
    fn take(&mut self, transport: SocketTransport) -> Result<(), Exhausted>;

    /// Wakes the workers that got connections since the last call.
    fn flush(&mut self);
}

/// A listener, and what its connections pass through.
pub struct Listening {
    /// The listening socket.
    pub listener: Listener,
    /// Creates the transform of each connection; none for plain bytes.
    pub transform: Option<NewTransform>,
}

impl From<Listener> for Listening {
    fn from(listener: Listener) -> Self {
        Self {
            listener,
            transform: None,
        }
    }
}

/// The acceptor thread.
pub(crate) struct Acceptor<H> {
    poll: Poll,
    listeners: Vec<Listening>,
    is_stopping: Arc<AtomicBool>,
    setup: Arc<Shared>,
    dispatch: H,
}

impl<H: Dispatch> Acceptor<H> {
    pub(crate) fn new(
        listeners: Vec<Listening>,
        running: &Running,
        setup: Arc<Shared>,
        dispatch: H,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&*running.accept_waker, WAKER_TOKEN, Interest::Read)?;
        for (token, Listening { listener, .. }) in listeners.iter().enumerate() {
            poll.add(listener, token as u64, Interest::Read)?;
        }
        Ok(Self {
            poll,
            listeners,
            is_stopping: Arc::clone(&running.is_stopping),
            setup,
            dispatch,
        })
    }

    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(self.listeners.len() + 1);
        while !self.is_stopping.load(Ordering::Relaxed) {
            if self.poll.wait(&mut events, None).is_err() {
                return;
            }
            let mut exhausted = None;
            for ready in events.iter() {
                if let Ok(token) = usize::try_from(ready.token)
                    && token < self.listeners.len()
                {
                    exhausted = self.accept(token).err().or(exhausted);
                }
            }
            self.dispatch.flush();
            if let Some(exhausted) = exhausted {
                self.pause(exhausted);
            }
        }
    }

    fn accept(&mut self, token: usize) -> Result<(), Exhausted> {
        for _ in 0..ACCEPTS_PER_EVENT {
            match self.listeners[token].listener.accept() {
                Ok(stream) => self.admit(stream, token)?,
                Err(error) if is_exhaustion(&error) => return Err(Exhausted::Files),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn admit(&mut self, stream: Stream, token: usize) -> Result<(), Exhausted> {
        if !self.setup.counts.admit() {
            if self.listeners[token].transform.is_none() {
                send_rejection(&stream, &self.setup);
            }
            return Ok(());
        }
        stream.set_nodelay();
        // A panic here must not stop accepting.
        let taken = catch_unwind(AssertUnwindSafe(|| {
            let transform = self.listeners[token].transform.as_ref();
            let transport = SocketTransport::new(stream, transform.map(|new| new()));
            self.dispatch.take(transport)
        }));
        taken.unwrap_or_else(|_| {
            self.setup.counts.count_closed();
            self.setup.counts.count_panics(1);
            Ok(())
        })
    }

    /// Pauses accepting until the exhausted resource may be available again. New connections wait
    /// in the kernel.
    fn pause(&self, exhausted: Exhausted) {
        let counts = &self.setup.counts;
        counts.pause_accepting(exhausted);
        let started_ns = monotonic_ns();
        self.listen_for(Interest::None);
        // Only the waker can be ready.
        let _ = self
            .poll
            .wait(&mut Events::with_capacity(1), Some(ACCEPT_PAUSE_NS));
        self.listen_for(Interest::Read);
        counts.resume_accepting(monotonic_ns() - started_ns);
    }

    fn listen_for(&self, interest: Interest) {
        for (token, Listening { listener, .. }) in self.listeners.iter().enumerate() {
            // The listeners have been registered since the start, so changing the interest cannot
            // fail.
            let _ = self.poll.change(listener, token as u64, interest);
        }
    }
}

/// Rejects an admitted connection. The caller closes it.
pub(crate) fn reject(stream: &Stream, setup: &Shared) {
    setup.counts.reject();
    send_rejection(stream, setup);
}

/// Sends the rejection message, as far as the socket has space.
pub(crate) fn send_rejection(stream: &Stream, setup: &Shared) {
    let _ = stream.send(setup.rejection);
}
