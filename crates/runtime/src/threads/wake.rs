//! A thread sleeps in the kernel, and its socket wakes it.

use std::io;
use std::sync::Arc;

use session::Output;

use crate::connection_tasks::{Peer, PeerSocket};
use crate::limits::SEND_TIMEOUT_NS;

/// A blocking socket.
pub(crate) struct Blocking {
    peer: Arc<Peer>,
}

impl Blocking {
    pub(super) fn new(peer: &Arc<Peer>) -> io::Result<Self> {
        peer.transport.set_blocking(SEND_TIMEOUT_NS)?;
        Ok(Self {
            peer: Arc::clone(peer),
        })
    }
}

impl PeerSocket for Blocking {
    fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.peer.transport.receive(room)
    }

    fn send_now(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        self.peer.transport.send_now(output, sent, most)
    }

    fn send_once(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        self.peer.transport.send_once(output, sent, most)
    }

    fn has_exchange(&self) -> bool {
        false
    }

    fn exchange(&self, _: &[u8], _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The kernel schedules threads.
    fn yield_now(&self) {}

    fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        self.peer.transport.hangs_up_within(timeout_ns)
    }
}
