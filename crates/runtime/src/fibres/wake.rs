//! How a fibre waits and is roused: by its socket, through the processor's ring, or its epoll. And
//! what a processor does that goes to sleep, or wakes up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use fibre::{Kind, Socket, Watch};
use session::Output;
use sys::clock::monotonic_ns;

use super::Desks;
use crate::hall::{Line, Peer};

/// A socket that lets its fibre wait.
pub(crate) struct Waiting {
    socket: Socket<Carrier>,
}

/// What has the socket's descriptor.
struct Carrier {
    peer: Arc<Peer>,
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.transport.as_fd()
    }
}

impl Waiting {
    pub(super) fn new(peer: &Arc<Peer>) -> io::Result<Self> {
        let peer = Arc::clone(peer);
        Ok(Self {
            socket: Socket::new(Carrier { peer })?,
        })
    }
}

impl Line for Waiting {
    fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.read(room)
    }

    fn send_once(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        let transport = &self.socket.inner().peer.transport;
        match transport.send_once(output, sent, most) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.wait_writable()?;
                Err(error)
            }
            sent => sent,
        }
    }

    fn exchanges(&self) -> bool {
        self.socket.kind() == Kind::Rings
    }

    fn exchange(&self, bytes: &[u8], room: &mut [u8]) -> io::Result<usize> {
        self.socket.exchange(bytes, room)
    }

    fn let_others(&self) {
        fibre::yield_to_all();
    }

    fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let slept = fibre::sleep(Duration::from_nanos(timeout_ns));
        slept.is_err() || self.socket.inner().peer.transport.hangs_up_within(0)
    }
}

/// Keeps the desks in step with their processors: a desk whose processor sleeps keeps nobody
/// waiting.
pub(crate) struct Waking {
    desks: Arc<Desks>,
}

impl Waking {
    pub(super) fn new(desks: &Arc<Desks>) -> Self {
        Self {
            desks: Arc::clone(desks),
        }
    }
}

impl Watch for Waking {
    fn sleeps(&self, processor: usize) {
        let mut kept = self.desks.of(processor);
        kept.desk.store.offline();
        kept.sleeps = true;
    }

    fn wakes(&self, processor: usize) {
        self.desks.of(processor).sleeps = false;
    }

    fn came(&self, processor: usize, bytes: &[u8]) {
        self.desks.of(processor).desk.look_ahead(bytes);
    }

    fn polled(&self, processor: usize, fibres: usize) {
        let desk = &mut self.desks.of(processor).desk;
        desk.woke(monotonic_ns(), fibres);
        desk.fetch_ahead();
    }
}
