//! The common part of the runtimes with a task (a thread or a fibre) per connection.
//!
//! ```text
//! acceptor ──▶ a task: receive → with a worker context: prepare, answer → send → …
//!              supervisor: joins finished tasks, closes slow holders, continues maintenance
//! ```
//!
//! A worker context (the state of the service, counts, a list of requests) takes tens of KiB, and
//! the cache's reclamation has to check every context. So there are only as many contexts as
//! workers, for any number of connections. A task uses a context only for the duration of a burst:
//! between receiving and sending, without a system call in between. A burst answers one connection,
//! so no requests of other connections are prefetched. Fibres are the exception: their processor
//! sees the input before any of its fibres runs (`fibres/wake.rs`).

mod buffered;
mod peers;
mod supervisor;
mod task;

use std::any::Any;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use service::Worker;
use sys::clock::monotonic_ns;

use crate::acceptor::{Dispatch, Exhausted, reject};
use crate::inbox::Inbox;
use crate::limits::MAINTAIN_INTERVAL_NS;
use crate::running::Running;
use crate::setup::{Shared, second};
use crate::transform::{self, Transformer};
use crate::transport::SocketTransport;
use crate::worker_context::{Maintained, WorkerContext};
pub(crate) use peers::Peer;
use peers::Peers;
use supervisor::Supervisor;
use task::serve_connection;

/// The state shared by all tasks.
pub(crate) struct ConnectionTasks<C: TaskRuntime> {
    setup: Arc<Shared>,
    pub(crate) runtime: C,
    peers: Peers<C::Task>,
    /// Maximum number of tasks at a time.
    max_tasks: usize,
    /// Wakes the supervisor.
    inbox: Arc<Inbox>,
    is_ending: Arc<AtomicBool>,
    /// The supervisor has been woken because the service has more maintenance to do.
    has_maintenance: AtomicBool,
    /// Time of the last maintenance step.
    last_maintained_ns: AtomicU64,
    /// Bytes that sleeping tasks keep.
    buffered: Mutex<u64>,
}

/// How to choose a worker context.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContextChoice {
    /// The context used last: its memory is most likely cached, and the next write continues the
    /// evacuation it began.
    MostRecent,
    /// The context idle for longest, or each in turn, so that an evacuation begun by any of them is
    /// finished.
    LeastRecent,
}

/// What a runtime with a task per connection provides.
pub(crate) trait TaskRuntime: Send + Sync + Sized + 'static {
    /// The service's state of a worker.
    type Service: Worker;
    /// A running task.
    type Task: Task;
    /// A task's connection to its peer.
    type PeerSocket: PeerSocket;

    /// Starts a task.
    ///
    /// # Errors
    /// No thread or stack is available.
    fn spawn(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task, Exhausted>;

    /// Sets up a task's connection to its peer. Called by the task itself.
    ///
    /// # Errors
    /// The connection is lost already, or the kernel cannot watch it.
    fn socket(&self, peer: &Arc<Peer>) -> io::Result<Self::PeerSocket>;

    /// Runs the work of a burst with a worker context. The work makes no system calls.
    fn with_context<R: Send>(
        &self,
        work: impl FnOnce(&mut WorkerContext<Self::Service>) -> R + Send,
    ) -> R;

    /// Runs a step of the service's maintenance, without system calls, if a context is free.
    fn maintain(&self, choice: ContextChoice, now_ns: u64) -> Option<Maintained>;

    /// The number of worker contexts.
    fn contexts(&self) -> usize;

    /// Called after the last task has ended.
    fn stop(&self);
}

/// A running task.
pub(crate) trait Task: Send + 'static {
    /// Waits for the end of the task.
    ///
    /// # Errors
    /// The task panicked; the error is its payload.
    fn join(self) -> Result<(), Box<dyn Any + Send>>;
}

/// A task's connection to its peer. The caller retries transient errors, except those of an
/// exchange.
pub(crate) trait PeerSocket: Send {
    /// Waits for bytes; 0 means that the peer has closed its side.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends as many bytes as the socket has space for, without waiting.
    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// As [`try_send`](PeerSocket::try_send), but waits if there is no space.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether [`PeerSocket::exchange`] is cheaper than sending and receiving.
    fn prefers_exchange(&self) -> bool;

    /// Sends all of `bytes`, then receives. Any error means that the connection is lost.
    fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize>;

    /// Lets other tasks run. A task calls this if it has more to do, or if it might otherwise never
    /// wait: its peer sends without end, and the task does not [exchange](PeerSocket::exchange).
    fn yield_now(&self);

    /// Sleeps for `timeout_ns`. Returns true early if the peer has hung up or the connection is
    /// lost.
    fn hangs_up_within(&self, timeout_ns: u64) -> bool;

    /// Wakes the task from [`wait_woken`](PeerSocket::wait_woken), on any thread.
    fn waker(&self) -> Waker;

    /// Sleeps until the [waker](PeerSocket::waker) has been called since the last return, for at
    /// most `timeout_ns`. May return early.
    fn wait_woken(&self, timeout_ns: u64);
}

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Starts the supervisor. The returned value starts a task for each accepted connection.
    ///
    /// # Errors
    /// The limit of descriptors or threads is reached.
    pub(crate) fn open(
        running: &mut Running,
        setup: &Arc<Shared>,
        runtime: C,
        max_tasks: usize,
    ) -> io::Result<Arc<Self>> {
        let tasks = Arc::new(Self {
            setup: Arc::clone(setup),
            runtime,
            peers: Peers::default(),
            max_tasks,
            inbox: Arc::clone(&running.inboxes[0]),
            is_ending: Arc::clone(&running.is_ending),
            has_maintenance: AtomicBool::new(false),
            last_maintained_ns: AtomicU64::new(0),
            buffered: Mutex::default(),
        });
        let supervisor = Supervisor::new(Arc::clone(&tasks))?;
        running.spawn("supervisor".to_owned(), move || supervisor.run())?;
        Ok(tasks)
    }

    /// Runs a step of maintenance if it is due and a context is free. If work remains, the
    /// supervisor continues with it.
    fn maintain(&self, now_ns: u64) {
        // The steps of all contexts together are as frequent as in the other runtimes, where every
        // worker runs steps of its own.
        let interval_ns = MAINTAIN_INTERVAL_NS / self.runtime.contexts().max(1) as u64;
        if !self.is_maintenance_due(interval_ns, now_ns) {
            return;
        }
        let maintained = self.maintain_at(ContextChoice::MostRecent, now_ns);
        let Some(has_more) = maintained else { return };
        if has_more && !self.has_maintenance.swap(true, Ordering::Relaxed) {
            self.inbox.waker.wake();
        }
    }

    /// Whether the last step was at least `interval_ns` ago.
    fn is_maintenance_due(&self, interval_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.last_maintained_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(last_ns) >= interval_ns
    }

    /// Runs a step of maintenance if a context is free. Returns true if more work remains.
    fn maintain_at(&self, choice: ContextChoice, now_ns: u64) -> Option<bool> {
        let maintained = self.runtime.maintain(choice, now_ns)?;
        self.last_maintained_ns.store(now_ns, Ordering::Relaxed);
        if maintained.needs_thread {
            (self.setup.wake_maintenance)();
        }
        Some(maintained.has_more)
    }

    /// Counts the panic of a transform, which closes its connection.
    fn count_if_panic(&self, error: &io::Error) {
        if transform::is_panic(error) {
            self.setup.counts.count_panics(1);
        }
    }

    /// Starts the task of a peer.
    fn spawn(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        transformer: Option<Box<Transformer>>,
    ) -> Result<(), Exhausted> {
        let slot = self.peers.insert(Arc::clone(peer), self.max_tasks);
        let slot = slot.ok_or(Exhausted::Tasks)?;
        let (tasks, peer) = (Arc::clone(self), Arc::clone(peer));
        let spawned = self
            .runtime
            .spawn(move || serve_connection(tasks, peer, slot, transformer));
        match spawned {
            Ok(task) => {
                if self.peers.attach_task(slot, task) {
                    self.inbox.waker.wake();
                }
                Ok(())
            }
            Err(exhausted) => {
                self.peers.remove(slot);
                Err(exhausted)
            }
        }
    }
}

impl<C: TaskRuntime> Dispatch for Arc<ConnectionTasks<C>> {
    fn take(&mut self, transport: SocketTransport) -> Result<(), Exhausted> {
        let (stream, transformer) = transport.into_parts();
        let peer = Arc::new(Peer::new(stream, second(monotonic_ns())));
        self.spawn(&peer, transformer)
            .inspect_err(|_| reject(&peer.stream, &self.setup))
    }

    /// Does nothing: each new connection has its own task, which runs already.
    fn flush(&mut self) {}
}

#[cfg(test)]
mod tests;
