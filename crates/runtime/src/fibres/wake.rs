//! A fibre waits for its socket, by the processor's ring or by epoll. Hooks run when a processor
//! goes to sleep and wakes up.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use fibre::{IoBackend, Semaphore, Socket, Watch};
use service::Worker;
use sys::clock::monotonic_ns;

use super::ContextPool;
use crate::connection_tasks::{Peer, PeerSocket};

/// A socket on which a fibre can wait.
pub(crate) struct FibreSocket {
    socket: Socket<PeerDescriptor>,
    woken: Arc<FibreWaker>,
}

/// Wakes a fibre that waits for a completion.
struct FibreWaker(Semaphore);

impl Wake for FibreWaker {
    fn wake(self: Arc<Self>) {
        self.0.release();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.release();
    }
}

/// Owner of the socket's descriptor.
struct PeerDescriptor {
    peer: Arc<Peer>,
}

impl AsFd for PeerDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.stream.as_fd()
    }
}

impl FibreSocket {
    pub(super) fn new(peer: &Arc<Peer>) -> io::Result<Self> {
        let peer = Arc::clone(peer);
        Ok(Self {
            socket: Socket::new(PeerDescriptor { peer })?,
            woken: Arc::new(FibreWaker(Semaphore::new(0))),
        })
    }
}

impl PeerSocket for FibreSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }

    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let stream = &self.socket.inner().peer.stream;
        match slices {
            [bytes] => stream.send(bytes),
            slices => stream.send_vectored(slices),
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.try_send(slices) {
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

    fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.exchange(bytes, buffer)
    }

    fn yield_now(&self) {
        fibre::yield_to_all();
    }

    fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let slept = fibre::sleep(Duration::from_nanos(timeout_ns));
        slept.is_err() || self.socket.inner().peer.stream.hangs_up_within(0)
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.woken))
    }

    fn wait_woken(&self, timeout_ns: u64) {
        let _ = self
            .woken
            .0
            .acquire_timeout(Duration::from_nanos(timeout_ns));
    }
}

/// Keeps the contexts in step with their processors: the context of a sleeping processor is offline
/// and does not delay reclamation.
pub(crate) struct ProcessorHooks<S: Worker> {
    contexts: Arc<ContextPool<S>>,
}

impl<S: Worker> ProcessorHooks<S> {
    pub(super) fn new(contexts: &Arc<ContextPool<S>>) -> Self {
        Self {
            contexts: Arc::clone(contexts),
        }
    }
}

impl<S: Worker> Watch for ProcessorHooks<S> {
    fn sleeps(&self, processor: usize) {
        let mut entry = self.contexts.of(processor);
        entry.context.service.offline();
        entry.sleeps = true;
    }

    fn wakes(&self, processor: usize) {
        self.contexts.of(processor).sleeps = false;
    }

    fn received(&self, processor: usize, bytes: &[u8]) {
        // Prefetching is optional: do not wait for the lock.
        if let Ok(mut entry) = self.contexts.all[processor].try_lock() {
            // A panic on this input will also happen when the connection is answered, and close it.
            // Here it would end the processor.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                entry.context.service.prefetch_arrived(bytes);
            }));
        }
    }

    fn polled(&self, processor: usize, fibres: usize) {
        // A panic here would end the processor with all its fibres.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut entry = self.contexts.of(processor);
            entry.context.woke_up(monotonic_ns(), fibres);
            entry.context.service.prefetch_rest();
        }));
    }
}
