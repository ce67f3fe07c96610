//! A fibre waits for its socket, by the processor's ring or by epoll. Hooks run when a processor
//! goes to sleep and wakes up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fibre::{IoBackend, Socket, Watch};
use session::Output;
use sys::clock::monotonic_ns;

use super::{ContextPool, ProcessorContext};
use crate::connection_tasks::{Peer, PeerSocket};
use crate::limits::PREFETCH_CONNECTIONS_MAX;

/// A socket on which a fibre can wait.
pub(crate) struct FibreSocket {
    socket: Socket<PeerDescriptor>,
}

/// Owner of the socket's descriptor.
struct PeerDescriptor {
    peer: Arc<Peer>,
}

impl AsFd for PeerDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.transport.as_fd()
    }
}

impl FibreSocket {
    pub(super) fn new(peer: &Arc<Peer>) -> io::Result<Self> {
        let peer = Arc::clone(peer);
        Ok(Self {
            socket: Socket::new(PeerDescriptor { peer })?,
        })
    }
}

impl PeerSocket for FibreSocket {
    fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.read(room)
    }

    fn send_now(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize> {
        let transport = &self.socket.inner().peer.transport;
        transport.send_now(output, sent, most)
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

    fn has_exchange(&self) -> bool {
        self.socket.kind() == IoBackend::Rings
    }

    fn exchange(&self, bytes: &[u8], room: &mut [u8]) -> io::Result<usize> {
        self.socket.exchange(bytes, room)
    }

    fn yield_now(&self) {
        fibre::yield_to_all();
    }

    fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let slept = fibre::sleep(Duration::from_nanos(timeout_ns));
        slept.is_err() || self.socket.inner().peer.transport.hangs_up_within(0)
    }
}

impl ProcessorContext {
    /// Prefetches the bucket of the first request in a connection's input.
    /// [`ProcessorContext::prefetch_items`] does the same for its item.
    fn prefetch_bucket(&mut self, input: &[u8]) {
        if self.ahead.len() == PREFETCH_CONNECTIONS_MAX {
            return;
        }
        let store = &self.context.store;
        // A panic on this input will also happen when the connection is answered, and close it.
        // Here it would end the processor.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            session::prefetch_first_bucket(input, store)
        }));
        self.ahead.extend(looked.ok().flatten());
    }

    /// Prefetches the items of all recorded keys. The first buckets have arrived by now.
    fn prefetch_items(&mut self) {
        for mut hash in self.ahead.drain(..) {
            self.context.store.prefetch_item(&mut hash);
        }
    }
}

/// Keeps the contexts in step with their processors: the context of a sleeping processor is offline
/// and does not delay reclamation.
pub(crate) struct ProcessorHooks {
    contexts: Arc<ContextPool>,
}

impl ProcessorHooks {
    pub(super) fn new(contexts: &Arc<ContextPool>) -> Self {
        Self {
            contexts: Arc::clone(contexts),
        }
    }
}

impl Watch for ProcessorHooks {
    fn sleeps(&self, processor: usize) {
        let mut entry = self.contexts.of(processor);
        entry.context.store.offline();
        entry.sleeps = true;
    }

    fn wakes(&self, processor: usize) {
        self.contexts.of(processor).sleeps = false;
    }

    fn received(&self, processor: usize, bytes: &[u8]) {
        // Prefetching is optional: do not wait for the lock.
        if let Ok(mut entry) = self.contexts.all[processor].try_lock() {
            entry.prefetch_bucket(bytes);
        }
    }

    fn polled(&self, processor: usize, fibres: usize) {
        // A panic here would end the processor with all its fibres.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut entry = self.contexts.of(processor);
            entry.context.woke_up(monotonic_ns(), fibres);
            entry.prefetch_items();
        }));
    }
}
