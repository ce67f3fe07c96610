//! A fibre waits for its socket, by the processor's ring or by epoll. Hooks run when a processor
//! goes to sleep and wakes up.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    waker: Arc<FibreWaker>,
}

/// Wakes a fibre that waits for a completion.
struct FibreWaker {
    permits: Semaphore,
    /// The semaphore has a permit. Wake-ups do not accumulate, or the fibre would not wait.
    is_woken: AtomicBool,
}

impl Wake for FibreWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Whoever wakes has put a result into the mailbox, whose lock orders it with the fibre's
        // next look.
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.permits.release();
        }
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
            waker: Arc::new(FibreWaker {
                permits: Semaphore::new(0),
                is_woken: AtomicBool::new(false),
            }),
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

    fn prefers_exchange(&self) -> bool {
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
        Waker::from(Arc::clone(&self.waker))
    }

    fn wait_woken(&self, timeout_ns: u64) {
        let timeout = Duration::from_nanos(timeout_ns);
        if self.waker.permits.acquire_timeout(timeout) {
            self.waker.is_woken.store(false, Ordering::Relaxed);
        }
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
        let mut entry = self.contexts.lock(processor);
        entry.context.service.offline();
        entry.is_sleeping = true;
    }

    fn wakes(&self, processor: usize) {
        let mut entry = self.contexts.lock(processor);
        entry.context.service.online();
        entry.is_sleeping = false;
    }

    fn received(&self, processor: usize, bytes: &[u8]) {
        // Prefetching is optional: do not wait for the lock.
        if let Ok(mut entry) = self.contexts.all[processor].try_lock() {
            // A panic here would end the processor. On plain input it also happens when the
            // connection is answered, and closes it.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                entry.context.service.prefetch_arrived(bytes);
            }));
        }
    }

    fn polled(&self, processor: usize, fibres: usize) {
        // A panic here would end the processor with all its fibres.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut entry = self.contexts.lock(processor);
            entry.context.woke_up(monotonic_ns(), fibres);
            entry.context.service.prefetch_rest();
        }));
    }
}
