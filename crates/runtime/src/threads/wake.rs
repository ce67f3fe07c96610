//! How a thread of a connection waits: its socket is blocking, so the kernel lets the thread sleep
//! and wakes it. While the thread waits for the result of a ticket, it is parked instead.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use sys::clock::monotonic_ns;

use crate::connection_tasks::{Peer, PeerSocket};
use crate::limits::SEND_TIMEOUT_NS;

/// The blocking socket of a connection's thread.
pub(crate) struct BlockingSocket {
    peer: Arc<Peer>,
    /// How long the peer may neither send nor read before the connection is closed, in nanoseconds.
    idle_ns: Option<u64>,
    /// Time of the first of the consecutive sends that failed, usually by a timeout. `None` if the
    /// last send succeeded.
    stalled_since_ns: Cell<Option<u64>>,
}

/// Unparks the thread of a connection.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns whether a call on a blocking socket has timed out.
fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl BlockingSocket {
    pub(super) fn new(peer: &Arc<Peer>, idle_ns: Option<u64>) -> io::Result<Self> {
        peer.stream.set_blocking(SEND_TIMEOUT_NS)?;
        if let Some(idle_ns) = idle_ns {
            peer.stream.set_receive_timeout(idle_ns)?;
        }
        Ok(Self {
            idle_ns,
            stalled_since_ns: Cell::new(None),
            peer: Arc::clone(peer),
        })
    }
}

impl PeerSocket for BlockingSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.peer.stream.recv(buffer) {
            Err(error) if self.idle_ns.is_some() && is_timeout(&error) => {
                Err(io::ErrorKind::TimedOut.into())
            }
            received => received,
        }
    }

    fn set_receive_timeout(&self, timeout_ns: u64) -> io::Result<()> {
        self.peer.stream.set_receive_timeout(timeout_ns)
    }

    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [bytes] => self.peer.stream.send_now(bytes),
            slices => self.peer.stream.send_vectored_now(slices),
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = match slices {
            [bytes] => self.peer.stream.send(bytes),
            slices => self.peer.stream.send_vectored(slices),
        };
        let (Some(idle_ns), Err(error)) = (self.idle_ns, &sent) else {
            self.stalled_since_ns.set(None);
            return sent;
        };
        let now_ns = monotonic_ns();
        let since_ns = self.stalled_since_ns.get().unwrap_or(now_ns);
        self.stalled_since_ns.set(Some(since_ns));
        if is_timeout(error) && now_ns - since_ns > idle_ns {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sent
    }

    fn prefers_exchange(&self) -> bool {
        false
    }

    fn exchange(&self, _: &[u8], _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does nothing, because the kernel preempts threads.
    fn yield_now(&self) {}

    fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        self.peer.stream.hangs_up_within(timeout_ns)
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(ThreadWaker(thread::current())))
    }

    fn wait_woken(&self, timeout_ns: u64) {
        thread::park_timeout(Duration::from_nanos(timeout_ns));
    }
}
