//! The common part of `threads` and `fibres`, the runtimes with one task per connection. A task is
//! a thread or a fibre.
//!
//! ```text
//! acceptor ──▶ a task: receive → with a worker context: prepare, answer → send → …
//!              supervisor: joins finished tasks, closes slow holders, continues maintenance
//! ```
//!
//! A *slow holder* is a connection that holds memory for which others wait, and whose peer has been
//! inactive for more than a second.
//!
//! A worker context (the service's state, counters, a list of requests) takes tens of KiB, and the
//! cache checks every context before it reclaims memory. So there are only as many contexts as
//! configured workers, for any number of connections. A task uses a context only during a *burst*:
//! after a receive, it prepares and answers the requests of its connection, without a system call.
//!
//! A burst answers one connection, so it cannot prefetch for other connections. For fibres the
//! kernel thread (*processor*) that runs them prefetches instead: it sees the input of all its
//! fibres before any of them runs (`fibres/wake.rs`).

mod buffered;
mod idle_maintenance;
mod peers;
mod supervisor;
mod task;

use std::any::Any;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use service::{FileRest, Worker};
use sys::clock::monotonic_ns;

use crate::acceptor::{Dispatch, Exhausted, reject};
use crate::inbox::Inbox;
use crate::limits::MAINTAIN_INTERVAL_NS;
use crate::running::Running;
use crate::setup::{Shared, second};
use crate::transform::{self, Transformer};
use crate::transport::SocketTransport;
use crate::worker_context::{Maintained, WorkerContext, has_limits};
pub(crate) use peers::Peer;
use peers::Peers;
use supervisor::Supervisor;
use task::serve_connection;

/// The state shared by all tasks and the supervisor.
pub(crate) struct ConnectionTasks<C: TaskRuntime> {
    setup: Arc<Shared>,
    /// Starts tasks and lends worker contexts: `Threads` or `Fibres`.
    pub(crate) runtime: C,
    peers: Peers<C::Task>,
    /// Maximum number of tasks at a time, finished tasks that are not joined included.
    max_tasks: usize,
    /// The supervisor's inbox. Only its waker is used.
    inbox: Arc<Inbox>,
    /// Set once the server has to stop.
    stops_workers: Arc<AtomicBool>,
    /// The service has more maintenance to do, and the supervisor has been woken for it.
    has_maintenance: AtomicBool,
    /// The supervisor checks the peers once a second for silence and passed deadlines. False while
    /// there is no peer or no limit to check.
    is_sweeping: AtomicBool,
    /// Time of the last maintenance step of a task. Steps of the supervisor do not change it.
    last_maintained_ns: AtomicU64,
    /// The sum of the bytes that all tasks keep while they sleep.
    buffered: Mutex<u64>,
}

/// Selects one of the worker contexts that are not in use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContextChoice {
    /// The most recently used context. Its memory is most likely in a CPU's cache. Also, if the
    /// evacuation of a segment of the store (copying its live items elsewhere) was begun with a
    /// context, it is continued only with the same context.
    MostRecent,
    /// The context that has been idle for longest (`threads`), or each context in turn (`fibres`).
    /// Repeated steps reach every context, so every evacuation that was begun is finished.
    LeastRecent,
}

/// The operations that differ between threads and fibres.
pub(crate) trait TaskRuntime: Send + Sync + Sized + 'static {
    /// The service's state in a worker context.
    type Service: Worker;
    /// The handle by which a task is joined.
    type Task: Task;
    /// The socket by which a task waits for its peer.
    type PeerSocket: PeerSocket;

    /// Starts a task that runs `serve_connection`.
    ///
    /// # Errors
    /// No thread or stack is available.
    fn spawn(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task, Exhausted>;

    /// Prepares the socket of a peer for its task. Called by the task itself.
    ///
    /// # Errors
    /// The connection is lost, or the kernel cannot watch the socket.
    fn socket(&self, peer: &Arc<Peer>) -> io::Result<Self::PeerSocket>;

    /// Runs `work`, at most one burst, with a worker context. Waits until a context is free. `work`
    /// makes no system calls.
    fn with_context<R: Send>(
        &self,
        work: impl FnOnce(&mut WorkerContext<Self::Service>) -> R + Send,
    ) -> R;

    /// Runs a step of the service's maintenance with a context that is not in use. Returns `None`
    /// if there is no such context. Makes no system calls.
    fn maintain(&self, choice: ContextChoice, now_ns: u64) -> Option<Maintained>;

    /// Returns the number of worker contexts.
    fn contexts(&self) -> usize;

    /// Stops the threads that run tasks. The supervisor calls this after the last task has ended.
    fn stop(&self);
}

/// The handle of a task.
pub(crate) trait Task: Send + 'static {
    /// Waits until the task has ended.
    ///
    /// # Errors
    /// The task panicked; the error is its payload.
    fn join(self) -> Result<(), Box<dyn Any + Send>>;
}

/// The socket of a task. A call that has to wait suspends the task. The caller repeats calls that
/// fail with `WouldBlock` or `Interrupted`, except [`exchange`](PeerSocket::exchange).
pub(crate) trait PeerSocket: Send {
    /// Waits for bytes and receives them. Returns their number; 0 means that the peer has shut down
    /// its sending side.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sets a timeout for the following calls of [`receive`](PeerSocket::receive). A receive that
    /// has waited for `timeout_ns` nanoseconds without bytes fails.
    ///
    /// # Errors
    /// The timeout is below a microsecond.
    fn set_receive_timeout(&self, timeout_ns: u64) -> io::Result<()>;

    /// Sends as many bytes as the socket has space for, without waiting. Returns their number.
    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends like [`try_send`](PeerSocket::try_send), but waits for space if there is none.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends like [`try_send`](PeerSocket::try_send). A part of a file follows these bytes, so the
    /// kernel may keep back an incomplete packet until then.
    fn try_send_before_file(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends bytes of a file, and waits for space if there is none. Returns the number of bytes
    /// sent; `None` if bytes to send are not in memory.
    fn send_file(&self, rest: &FileRest<'_>) -> io::Result<Option<usize>>;

    /// Returns whether an [`exchange`](PeerSocket::exchange) is cheaper than a send followed by a
    /// receive. If not, `exchange` must not be called.
    fn prefers_exchange(&self) -> bool;

    /// Sends all of `bytes`, then waits for bytes and receives them into `buffer`. Returns the
    /// number of received bytes. Any error means that the connection is lost.
    fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize>;

    /// Lets other tasks run. A task calls this between turns (in a *turn* it answers a bounded
    /// number of requests). If it does not use [`exchange`](PeerSocket::exchange), it also calls
    /// this after each receive: a receive does not suspend the task while input is available, and
    /// input may always be available.
    fn yield_now(&self);

    /// Sleeps for `timeout_ns` nanoseconds, or until the peer hangs up or the connection is lost.
    /// Returns true in these two cases. May return true only after the full time.
    fn hangs_up_within(&self, timeout_ns: u64) -> bool;

    /// Returns a waker by which any thread ends the task's [`wait_woken`](PeerSocket::wait_woken).
    fn waker(&self) -> Waker;

    /// Sleeps until the [waker](PeerSocket::waker) is called, for at most `timeout_ns` nanoseconds.
    /// Does not sleep if the waker was called after the last return of this method. May return
    /// without a call of the waker.
    fn wait_woken(&self, timeout_ns: u64);
}

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Starts the supervisor thread. The acceptor passes connections to the returned value, which
    /// starts a task for each.
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
            stops_workers: Arc::clone(&running.stops_workers),
            has_maintenance: AtomicBool::new(false),
            is_sweeping: AtomicBool::new(false),
            last_maintained_ns: AtomicU64::new(0),
            buffered: Mutex::default(),
        });
        let supervisor = Supervisor::new(Arc::clone(&tasks))?;
        running.spawn("supervisor".to_owned(), move || supervisor.run())?;
        Ok(tasks)
    }

    /// Runs a step of maintenance if one is due and a context is free. Called by tasks after each
    /// turn. If work remains, wakes the supervisor, which runs further steps while no requests
    /// arrive.
    fn maintain(&self, now_ns: u64) {
        // In the other runtimes every worker runs a step per interval. Here any task runs the next
        // step. The interval is divided by the number of contexts, so the total rate of steps is
        // the same.
        let interval_ns = MAINTAIN_INTERVAL_NS / self.runtime.contexts().max(1) as u64;
        if !self.is_maintenance_due(interval_ns, now_ns) {
            return;
        }
        let maintained = self.maintain_at(ContextChoice::MostRecent, now_ns);
        let Some(has_more) = maintained else { return };
        self.last_maintained_ns.store(now_ns, Ordering::Relaxed);
        // Release: pairs with the acquire in `Supervisor::end_maintenance`. Either that call sees
        // the time above, or this swap finds the flag cleared and wakes the supervisor.
        if has_more && !self.has_maintenance.swap(true, Ordering::Release) {
            self.inbox.waker.wake();
        }
    }

    /// Returns whether the last maintenance step of a task was at least `interval_ns` ago.
    fn is_maintenance_due(&self, interval_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.last_maintained_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(last_ns) >= interval_ns
    }

    /// Runs a step of maintenance with a context that is not in use. Returns whether more work may
    /// remain, or `None` if all contexts are in use.
    fn maintain_at(&self, choice: ContextChoice, now_ns: u64) -> Option<bool> {
        let maintained = self.runtime.maintain(choice, now_ns)?;
        if maintained.needs_thread {
            (self.setup.wake_maintenance)();
        }
        Some(maintained.has_more)
    }

    /// Counts a panic if `error` is the panic of a transform. The caller closes the connection.
    fn count_if_panic(&self, error: &io::Error) {
        if transform::is_panic(error) {
            self.setup.counts.count_panics(1);
        }
    }

    /// Starts the task of a peer. Fails if there are too many tasks, or if no thread or stack is
    /// available.
    fn spawn(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        transformer: Option<Box<Transformer>>,
    ) -> Result<(), Exhausted> {
        let slot = self.peers.insert(Arc::clone(peer), self.max_tasks);
        let slot = slot.ok_or(Exhausted::Tasks)?;
        if has_limits::<C::Service>(&self.setup) && !self.is_sweeping.swap(true, Ordering::Relaxed)
        {
            self.inbox.waker.wake();
        }
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

    /// Does nothing, because no worker has to be woken: [`take`](Dispatch::take) has started a task
    /// for each connection.
    fn flush(&mut self) {}
}

#[cfg(test)]
mod tests;
