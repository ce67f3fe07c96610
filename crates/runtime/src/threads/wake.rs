//! How a thread of a connection waits: its socket is blocking, so the kernel lets the thread sleep
//! and wakes it. While the thread waits for the result of a ticket, it is parked instead.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use service::FileRest;
use sys::file_send::send_before_file;

use crate::connection_tasks::{Peer, PeerSocket};
use crate::limits::{BLOCKING_FILE_SEND_MAX, SEND_TIMEOUT_NS};
use crate::transport::send_rest;

/// The blocking socket of a connection's thread.
pub(crate) struct BlockingSocket {
    peer: Arc<Peer>,
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

impl BlockingSocket {
    pub(super) fn new(peer: &Arc<Peer>) -> io::Result<Self> {
        peer.stream.set_blocking(SEND_TIMEOUT_NS)?;
        Ok(Self {
            peer: Arc::clone(peer),
        })
    }
}

impl PeerSocket for BlockingSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.peer.stream.recv(buffer)
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
        match slices {
            [bytes] => self.peer.stream.send(bytes),
            slices => self.peer.stream.send_vectored(slices),
        }
    }

    fn try_send_before_file(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_before_file(&self.peer.stream, slices)
    }

    fn send_file(&self, rest: &FileRest<'_>) -> io::Result<Option<usize>> {
        send_rest(&self.peer.stream, rest, BLOCKING_FILE_SEND_MAX)
    }

    // An exchange is a send and a receive in one operation, which only `fibres` can do.
    fn prefers_exchange(&self) -> bool {
        false
    }

    fn exchange(&self, _: &[u8], _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does nothing, because the kernel preempts threads.
    fn yield_now(&self) {}

    fn yield_after_long_run(&self) {}

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
