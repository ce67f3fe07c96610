//! The acceptor thread. It accepts connections, and admits or rejects each. The runtime's
//! [`Dispatch`] passes an admitted connection to a worker, or to a new task (a thread or a fibre
//! that serves only this connection).
//!
//! The acceptor waits by epoll under every runtime, also with `rings`. An io_uring would keep a
//! listener open for some milliseconds after its process was killed. In that time clients could
//! connect but would get no reply, and a new server would find the port in use.

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

/// The token of events of the acceptor's waker. The token of a listener's events is its index.
const WAKER_TOKEN: u64 = u64::MAX;

/// The exhausted resource because of which a connection could not be accepted or served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exhausted {
    /// Descriptors, or kernel memory for sockets.
    Files,
    /// Threads or stacks, in runtimes with a task per connection.
    Tasks,
}

/// Passes admitted connections to workers or tasks.
pub(crate) trait Dispatch {
    /// Passes an admitted connection to a worker or task. If that is not possible, rejects it
    /// ([`reject`]). Returns an error if the acceptor has to pause.
    fn take(&mut self, transport: SocketTransport) -> Result<(), Exhausted>;

    /// Wakes the workers to which connections were passed since the last call.
    fn flush(&mut self);
}

/// A listening socket, and the transform of the connections that it accepts.
pub struct Listening {
    /// The listening socket.
    pub listener: Listener,
    /// Creates the transform of each connection. `None` if bytes are sent and received unchanged.
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

/// The state of the acceptor thread.
pub(crate) struct Acceptor<H> {
    poll: Poll,
    listeners: Vec<Listening>,
    /// Set by another thread when the acceptor has to stop.
    stops_acceptor: Arc<AtomicBool>,
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
            stops_acceptor: Arc::clone(&running.stops_acceptor),
            setup,
            dispatch,
        })
    }

    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(self.listeners.len() + 1);
        while !self.stops_acceptor.load(Ordering::Relaxed) {
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

    /// Accepts the connections that wait at the listener with this token, at most
    /// [`ACCEPTS_PER_EVENT`]. Returns an error if the acceptor has to pause.
    fn accept(&mut self, token: usize) -> Result<(), Exhausted> {
        for _ in 0..ACCEPTS_PER_EVENT {
            match self.listeners[token].listener.accept() {
                Ok(stream) => self.admit(stream, token)?,
                Err(error) if is_exhaustion(&error) => return Err(Exhausted::Files),
                // Usually no connection is left. After any other error, the next wait returns at
                // once if connections are left.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Admits a connection and dispatches it, or rejects it if the limit of connections is reached.
    fn admit(&mut self, stream: Stream, token: usize) -> Result<(), Exhausted> {
        if !self.setup.counts.admit() {
            // The message is not transformed, so a peer that expects transformed bytes (such as
            // TLS) could not read it.
            if self.listeners[token].transform.is_none() {
                send_rejection(&stream, &self.setup);
            }
            return Ok(());
        }
        stream.set_nodelay();
        // A panic of the transform or the dispatch must not end the acceptor thread.
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

    /// Pauses for [`ACCEPT_PAUSE_NS`]. Then the exhausted resource may be available again. During
    /// the pause, new connections wait in the kernel's queue.
    fn pause(&self, exhausted: Exhausted) {
        let counts = &self.setup.counts;
        counts.pause_accepting(exhausted);
        let started_ns = monotonic_ns();
        self.listen_for(Interest::None);
        // This wait ends after the pause, or earlier if the server stops and wakes the acceptor.
        let _ = self
            .poll
            .wait(&mut Events::with_capacity(1), Some(ACCEPT_PAUSE_NS));
        self.listen_for(Interest::Read);
        counts.resume_accepting(monotonic_ns() - started_ns);
    }

    /// Sets the events for which the acceptor waits at all listeners.
    fn listen_for(&self, interest: Interest) {
        for (token, Listening { listener, .. }) in self.listeners.iter().enumerate() {
            // This does not fail for a registered listener, and all listeners are registered.
            let _ = self.poll.change(listener, token as u64, interest);
        }
    }
}

/// Rejects an admitted connection: counts it as closed and rejected, and sends the rejection
/// message. The caller drops the socket.
pub(crate) fn reject(stream: &Stream, setup: &Shared) {
    setup.counts.reject();
    send_rejection(stream, setup);
}

/// Sends as much of the service's rejection message as the socket has space for.
pub(crate) fn send_rejection(stream: &Stream, setup: &Shared) {
    let _ = stream.send(setup.rejection);
}
