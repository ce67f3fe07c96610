//! How the fibre of a connection waits for its socket: by the io_uring of its processor (the kernel
//! thread that runs the fibre), or by epoll. Also the hooks that the fibre scheduler calls when a
//! processor falls asleep, wakes up, has received input, or has polled the kernel.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use fibre::{IoBackend, Semaphore, Socket, Watch};
use service::{FileRest, Worker};
use sys::clock::monotonic_ns;
use sys::file_send::send_before_file;

use super::ContextPool;
use crate::connection_tasks::{Peer, PeerSocket};
use crate::limits::SEND_PER_TURN;
use crate::transport::send_rest;

/// The socket of a connection's fibre. A call that has to wait suspends the fibre.
pub(crate) struct FibreSocket {
    socket: Socket<PeerDescriptor>,
    waker: Arc<FibreWaker>,
}

/// Wakes a fibre that waits for the result of a ticket. The result is in the fibre's mailbox.
struct FibreWaker {
    /// A semaphore with one permit if the fibre has been woken, otherwise with none. The fibre
    /// waits until it can take a permit.
    permits: Semaphore,
    /// The semaphore has a permit. A further wake-up then adds none. Otherwise the permits of
    /// several wake-ups would accumulate, and as many later waits would return immediately.
    is_woken: AtomicBool,
}

impl Wake for FibreWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // No result is missed, although all accesses of the flag are relaxed. This thread first
        // puts the result into the mailbox, then sets the flag here. The fibre first clears the
        // flag (`wait_woken`), then looks into the mailbox. If the fibre does not find the result,
        // it has locked the mailbox before this thread has. So the fibre has cleared the flag
        // before this swap. The swap then finds the flag cleared, and the fibre gets a permit.
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.permits.release();
        }
    }
}

/// A reference to the peer, which owns the descriptor of the socket.
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

    /// Returns `sent`, the result of a send. If this is the error `WouldBlock`, first waits until
    /// the socket has space. The caller then repeats the send, unless the connection was shut.
    fn or_wait<T>(&self, sent: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &sent
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.socket.wait_writable()?;
        }
        sent
    }
}

impl PeerSocket for FibreSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }

    fn set_receive_timeout(&self, timeout_ns: u64) -> io::Result<()> {
        let timeout = Duration::from_nanos(timeout_ns);
        self.socket.set_timeout(Some(timeout));
        Ok(())
    }

    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let stream = &self.socket.inner().peer.stream;
        match slices {
            [bytes] => stream.send(bytes),
            slices => stream.send_vectored(slices),
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.or_wait(self.try_send(slices))
    }

    fn try_send_before_file(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_before_file(&self.socket.inner().peer.stream, slices)
    }

    fn send_file(&self, rest: &FileRest<'_>) -> io::Result<Option<usize>> {
        self.or_wait(send_rest(
            &self.socket.inner().peer.stream,
            rest,
            SEND_PER_TURN,
        ))
    }

    fn prefers_exchange(&self) -> bool {
        // A ring submits the send and the receive together, and the fibre waits only once.
        self.socket.kind() == IoBackend::Rings
    }

    fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.exchange(bytes, buffer)
    }

    fn yield_now(&self) {
        fibre::yield_to_all();
    }

    fn yield_after_long_run(&self) {
        fibre::yield_after_long_run();
    }

    fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        // A hang-up does not end the sleep, so look for a hang-up after the sleep. A fibre that was
        // cancelled treats its connection as lost.
        let is_cancelled = fibre::sleep(Duration::from_nanos(timeout_ns)).is_err();
        is_cancelled || self.socket.inner().peer.stream.hangs_up_within(0)
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

/// The hooks that the fibre scheduler calls. While a processor sleeps, they take its context
/// *offline*: the context then refers to no memory of the service. Otherwise it would delay the
/// reclamation of memory. They also prefetch the memory that received requests will need.
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
        // `bytes` have just been received for a fibre that has not run yet. Prefetch the memory
        // that their first request reads first; `polled` then prefetches the other memory.
        // Prefetching is optional, so do not wait for the lock.
        if let Ok(mut entry) = self.contexts.all[processor].try_lock() {
            // A panic here would end the processor with all its fibres, so it is caught. The panic
            // is not reported. If `bytes` make the service panic here, the service panics again
            // when it answers the connection, and the second panic closes the connection. (With a
            // transform such as TLS, `bytes` are not requests. Then a panic here has no effect.)
            let _ = catch_unwind(AssertUnwindSafe(|| {
                entry.context.service.begin_early_prefetch(bytes);
            }));
        }
    }

    fn polled(&self, processor: usize, fibres: usize) {
        // The processor has polled the kernel, and `fibres` fibres have become ready. They count as
        // one burst.
        // A panic here would end the processor with all its fibres, so it is caught.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut entry = self.contexts.lock(processor);
            entry.context.woke_up(monotonic_ns(), fibres);
            entry.context.service.finish_early_prefetch();
        }));
    }
}
