//! The acceptor thread. It accepts connections, and admits or rejects each. Then it passes the
//! admitted connection to a worker, or to a new task (a thread or a fibre that serves only this
//! connection). Which of the two depends on the kind of runtime ([`Kind`](crate::Kind)): each kind
//! passes connections by its own implementation of [`Dispatch`].
//!
//! The acceptor waits by epoll in every kind of runtime. This includes the runtime `rings`
//! ([`Kind::Rings`](crate::Kind::Rings)), although its workers wait by io_uring. An
//! io_uring would keep a listener open for some milliseconds after the server's process was killed.
//! In that time clients could connect but would get no reply, and a new server would find the port
//! in use.

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

/// The token of the waker's events. The token of a listener's events is the listener's index in
/// `Acceptor::listeners`.
const WAKER_TOKEN: u64 = u64::MAX;

/// The reason why the acceptor pauses: a resource that it needs for the next connection is
/// exhausted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exhausted {
    /// File descriptors, or the kernel's memory for sockets.
    Files,
    /// Tasks, in the runtimes with a task per connection. The limit of tasks is reached, or the
    /// system can create no further thread, or there is no memory for the stack of a fibre.
    Tasks,
}

/// Passes admitted connections to workers or tasks.
pub(crate) trait Dispatch {
    /// Takes an admitted connection from the acceptor, and passes it to a worker or task. Rejects
    /// the connection ([`reject`]) if no worker or task can take it. If the cause is an exhausted
    /// resource, also returns this resource as the error. The acceptor then pauses.
    fn take(&mut self, transport: SocketTransport) -> Result<(), Exhausted>;

    /// Wakes the workers to which connections were passed since the last call.
    fn flush(&mut self);
}

/// A listening socket, and the transform of the connections that it accepts. A *transform*, such as
/// TLS, converts the bytes between a connection's socket and its session.
pub struct Listening {
    /// The listening socket.
    pub listener: Listener,
    /// The function that creates a transform for a new connection. `None` if bytes are sent and
    /// received unchanged.
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
pub(crate) struct Acceptor<D> {
    poll: Poll,
    listeners: Vec<Listening>,
    /// Set by another thread when the acceptor has to stop.
    stops_acceptor: Arc<AtomicBool>,
    /// The parameters of the runtime, and its counters of connections.
    setup: Arc<Shared>,
    dispatch: D,
}

impl<D: Dispatch> Acceptor<D> {
    pub(crate) fn new(
        listeners: Vec<Listening>,
        running: &Running,
        setup: Arc<Shared>,
        dispatch: D,
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
            // This error does not happen in a correct program.
            if self.poll.wait(&mut events, None).is_err() {
                return;
            }
            let mut exhausted = None;
            // An event of the waker needs no handling. Another thread wakes the acceptor only after
            // it has set `stops_acceptor`, which ends the loop.
            for ready in events.iter() {
                if let Ok(token) = usize::try_from(ready.token)
                    && token < self.listeners.len()
                {
                    // An error at one listener suffices for a pause.
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
    /// [`ACCEPTS_PER_EVENT`]. Returns the exhausted resource as an error if the acceptor has to
    /// pause.
    fn accept(&mut self, token: usize) -> Result<(), Exhausted> {
        for _ in 0..ACCEPTS_PER_EVENT {
            match self.listeners[token].listener.accept() {
                Ok(stream) => self.admit(stream, token)?,
                Err(error) if is_exhaustion(&error) => return Err(Exhausted::Files),
                // The usual error says that no connection is left. If connections are left after
                // some other error, the next wait returns at once.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Admits a connection and dispatches it, or rejects it if the limit of open connections is
    /// reached. Returns an error as [`Dispatch::take`] does.
    fn admit(&mut self, stream: Stream, token: usize) -> Result<(), Exhausted> {
        // Counts the connection as open, or as rejected.
        if !self.setup.counts.admit() {
            let is_plain = self.listeners[token].transform.is_none();
            send_rejection(&stream, is_plain, &self.setup);
            return Ok(());
        }
        stream.set_nodelay();
        // A panic while the transform is created or the connection is dispatched must not end the
        // acceptor thread. The panic drops the socket, which closes the connection.
        let dispatched = catch_unwind(AssertUnwindSafe(|| {
            let transform = self.listeners[token].transform.as_ref();
            let transport = SocketTransport::new(stream, transform.map(|new| new()));
            self.dispatch.take(transport)
        }));
        dispatched.unwrap_or_else(|_| {
            self.setup.counts.count_closed();
            self.setup.counts.count_panics(1);
            Ok(())
        })
    }

    /// Pauses for [`ACCEPT_PAUSE_NS`], because a resource is exhausted. The resource may be
    /// available again after the pause. During the pause, new connections wait in the kernel's
    /// queue. The counters record the beginning and the end of the pause.
    fn pause(&self, exhausted: Exhausted) {
        let counts = &self.setup.counts;
        counts.pause_accepting(exhausted);
        let started_ns = monotonic_ns();
        self.set_interest(Interest::None);
        // This wait ends after the pause, or earlier if the server stops and wakes the acceptor.
        let _ = self
            .poll
            .wait(&mut Events::with_capacity(1), Some(ACCEPT_PAUSE_NS));
        self.set_interest(Interest::Read);
        counts.resume_accepting(monotonic_ns() - started_ns);
    }

    /// Sets which events of the listeners end the acceptor's wait. All listeners get the same
    /// interest.
    fn set_interest(&self, interest: Interest) {
        for (token, Listening { listener, .. }) in self.listeners.iter().enumerate() {
            // The call fails only for an unregistered listener, and all listeners are registered.
            let _ = self.poll.change(listener, token as u64, interest);
        }
    }
}

/// Rejects a connection that was admitted before: counts it as closed and as rejected, and sends
/// the rejection message if the connection `is_plain`. The caller closes the connection by dropping
/// the socket.
pub(crate) fn reject(stream: &Stream, is_plain: bool, setup: &Shared) {
    setup.counts.reject();
    send_rejection(stream, is_plain, setup);
}

/// Sends as much of the service's rejection message as the socket has space for, if the connection
/// `is_plain`: it has no transform. The message is sent without a transform, so a peer that expects
/// transformed bytes, such as those of TLS, could not read it.
pub(crate) fn send_rejection(stream: &Stream, is_plain: bool, setup: &Shared) {
    if is_plain {
        let _ = stream.send(setup.rejection);
    }
}

#[cfg(test)]
mod tests {
    use service::Service;

    use super::*;
    use crate::connection_counts::ConnectionCounts;
    use crate::setup::{Setup, WaitPolicy};
    use crate::testing::Silent;

    const REJECTION: &[u8] = b"too many connections";

    struct SilentService;

    impl Service for SilentService {
        type Worker = Silent;

        fn worker(&self) -> Silent {
            Silent
        }

        fn rejection(&self) -> &'static [u8] {
            REJECTION
        }
    }

    #[test]
    fn rejection_is_sent_only_to_a_peer_that_expects_plain_bytes() {
        let (connections_max, buffered_max) = (1, 1 << 20);
        let setup = Setup {
            workers: 1,
            requests_per_turn: 1,
            wait_policy: WaitPolicy::default(),
            idle_s: None,
            drain_ns: 0,
            fibre_scheduler: fibre::Scheduler::Fair,
            counts: Arc::new(ConnectionCounts::new(connections_max, buffered_max)),
        };
        let setup = Shared::new(setup, &SilentService);
        for (is_plain, expected) in [(true, REJECTION), (false, b"")] {
            let (near, far) = Stream::pair().unwrap();
            assert!(setup.counts.admit());
            reject(&near, is_plain, &setup);
            drop(near);
            let mut received = [0; 64];
            let len = far.recv(&mut received).unwrap();
            assert_eq!(&received[..len], expected, "plain: {is_plain}");
        }
    }
}
