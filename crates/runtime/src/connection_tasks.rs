//! The common part of `threads` and `fibres`, the runtimes with one task per connection.
//!
//! ```text
//! acceptor ──▶ a task: receive → with a worker context: prepare, answer → send → receive …
//!              supervisor: joins finished tasks, closes slow holders, continues maintenance
//! ```
//!
//! A worker context (the service's state, counters, a list of requests) takes tens of KiB.
//! Reclaiming memory of the cache takes longer with more contexts, because each context may still
//! use that memory and has to be checked. So there are only as many contexts as configured workers,
//! for any number of connections. A task uses a context only for a short time, mainly for a turn:
//! it prepares and answers a bounded number of requests of its connection, without a wait for the
//! peer.
//!
//! An event loop answers many connections together, and prefetches memory for all of them before it
//! answers the first. A task cannot do this. For fibres, the kernel thread that runs them (their
//! *processor*) prefetches instead: with an io_uring, it has the input of all fibres that it runs
//! next (`fibres/wake.rs`).

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

/// The state shared by all tasks and the supervisor. `C` is the runtime: `Threads` or `Fibres`.
pub(crate) struct ConnectionTasks<C: TaskRuntime> {
    setup: Arc<Shared>,
    /// Starts tasks, and lends them worker contexts.
    pub(crate) runtime: C,
    /// The connected peers, each with its task.
    peers: Peers<C::Task>,
    /// The maximum number of tasks. A finished task counts until it is joined.
    max_tasks: usize,
    /// Contains the waker of the supervisor. No connections are put into this inbox.
    inbox: Arc<Inbox>,
    /// Set once the supervisor and all tasks have to stop.
    stops_workers: Arc<AtomicBool>,
    /// True while the supervisor has to continue the service's maintenance. Set by a task whose
    /// step of maintenance left work.
    has_maintenance: AtomicBool,
    /// True while the supervisor *sweeps*: it regularly checks for how long each task has been
    /// waiting for its peer. False while there is no peer, or no limit for this time.
    is_sweeping: AtomicBool,
    /// The time of the last maintenance step that a task has run. Steps of the supervisor do not
    /// change it.
    last_maintained_ns: AtomicU64,
    /// The sum of the bytes of input and output that all tasks keep while they sleep.
    buffered: Mutex<u64>,
}

/// Selects the worker context for a step of maintenance.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContextChoice {
    /// `threads`: the most recently used of the free contexts. `fibres`: the context of the
    /// processor that runs the calling fibre. The memory of this context is most likely in a CPU's
    /// cache. Also, consecutive steps often use the same context. This helps the evacuation of a
    /// segment of the store (copying its live items elsewhere), because only the context that has
    /// begun an evacuation can continue it.
    MostRecent,
    /// `threads`: the free context that has been unused for longest. `fibres`: each context in
    /// turn. Repeated steps reach every context, so every evacuation that was begun is finished.
    LeastRecent,
}

/// The operations that differ between threads and fibres.
pub(crate) trait TaskRuntime: Send + Sync + Sized + 'static {
    /// The service's state in a worker context.
    type Service: Worker;
    /// The handle of a task, used to join it.
    type Task: Task;
    /// The socket of a task's connection.
    type PeerSocket: PeerSocket;

    /// Starts a task that runs `serve_connection`.
    ///
    /// # Errors
    /// No thread or stack is available.
    fn spawn(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task, Exhausted>;

    /// Prepares the socket of a peer, so that the calling task can wait for events of the socket.
    ///
    /// # Errors
    /// The connection is lost, or the socket cannot be registered for events.
    fn socket(&self, peer: &Arc<Peer>) -> io::Result<Self::PeerSocket>;

    /// Waits until a worker context is free, and runs `work` with it. `work` takes at most as long
    /// as one turn. It does not wait for other tasks or for the peer, because another task may be
    /// waiting for this context.
    fn with_context<R: Send>(
        &self,
        work: impl FnOnce(&mut WorkerContext<Self::Service>) -> R + Send,
    ) -> R;

    /// Runs a step of the service's maintenance with the context that `choice` selects. If this
    /// context is in use (in `threads`: if all contexts are in use), runs no step and returns
    /// `None`. The step makes no system calls.
    fn maintain(&self, choice: ContextChoice, now_ns: u64) -> Option<Maintained>;

    /// Returns the number of worker contexts.
    fn contexts(&self) -> usize;

    /// Stops the processors of `fibres`. Does nothing in `threads`. The supervisor calls this after
    /// the last task has ended.
    fn stop(&self);
}

/// The handle of a task.
pub(crate) trait Task: Send + 'static {
    /// Waits until the task has ended.
    ///
    /// # Errors
    /// The task has panicked. The error is the payload of the panic.
    fn join(self) -> Result<(), Box<dyn Any + Send>>;
}

/// The socket of a task's connection. A method that has to wait suspends the calling task. A call
/// that has failed with `WouldBlock` or `Interrupted` may be repeated, except a call of
/// [`exchange`](PeerSocket::exchange).
pub(crate) trait PeerSocket: Send {
    /// Waits for bytes and receives them. Returns their number; 0 means that the peer has shut down
    /// its sending side.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sets a timeout for the following calls of [`receive`](PeerSocket::receive). A call that has
    /// waited for `timeout_ns` nanoseconds without bytes fails, with `WouldBlock` or `TimedOut`.
    ///
    /// # Errors
    /// The timeout is below a microsecond, in `threads`.
    fn set_receive_timeout(&self, timeout_ns: u64) -> io::Result<()>;

    /// Sends as many bytes as the socket has space for, without waiting. Returns their number.
    fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends like [`try_send`](PeerSocket::try_send), but waits for space if there is none.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends like [`try_send`](PeerSocket::try_send). The caller then sends a part of a file. The
    /// kernel may keep back an incomplete packet until it can be filled with bytes of the file.
    fn try_send_before_file(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends bytes of `rest`, the unsent part of a file, and waits for space if there is none.
    /// Returns the number of bytes sent, or `None` if bytes to send are not in memory (the kernel
    /// would have to read them from the disk).
    fn send_file(&self, rest: &FileRest<'_>) -> io::Result<Option<usize>>;

    /// Returns whether [`exchange`](PeerSocket::exchange) is supported and costs less than a send
    /// followed by a receive. If not, `exchange` must not be called.
    fn prefers_exchange(&self) -> bool;

    /// Sends all of `bytes`, then waits for bytes and receives them into `buffer`. Returns the
    /// number of received bytes. Any error means that the connection is lost.
    fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize>;

    /// Lets other tasks run. A task calls this between the turns for the input of one receive. If
    /// it does not use [`exchange`](PeerSocket::exchange), it also calls this before each receive.
    /// Otherwise a task whose input is always available would never let other tasks run, because a
    /// receive does not suspend the task while input is available.
    fn yield_now(&self);

    /// As `yield_now`, for a task that has run for tens of microseconds. In `fibres`, the processor
    /// first looks for tasks whose input has arrived meanwhile.
    fn yield_after_long_run(&self);

    /// Sleeps for at most `timeout_ns` nanoseconds. Returns true if the peer hangs up or the
    /// connection is lost in this time. These events end the sleep in `threads`, but not in
    /// `fibres`.
    fn hangs_up_within(&self, timeout_ns: u64) -> bool;

    /// Returns a waker. Any thread may call it, to end the task's
    /// [`wait_woken`](PeerSocket::wait_woken).
    fn waker(&self) -> Waker;

    /// Sleeps until the [waker](PeerSocket::waker) is called, for at most `timeout_ns` nanoseconds.
    /// Does not sleep if the waker was called after the last return of this method. May return
    /// without a call of the waker.
    fn wait_woken(&self, timeout_ns: u64);
}

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Creates the shared state and starts the supervisor thread. The acceptor passes connections
    /// to the returned value, which starts a task for each connection.
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
            // These runtimes have only one inbox, which belongs to the supervisor.
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

    /// Runs a step of maintenance if a step is due and a context is free. Called by a task after
    /// each turn. If the step leaves work, wakes the supervisor, which runs further steps once no
    /// more requests arrive.
    fn maintain(&self, now_ns: u64) {
        // In the other runtimes, each worker runs a step per `MAINTAIN_INTERVAL_NS`. Here, the
        // tasks together run as many steps as that number of workers would. So the interval between
        // two steps is divided by the number of contexts.
        let interval_ns = MAINTAIN_INTERVAL_NS / self.runtime.contexts().max(1) as u64;
        if !self.is_maintenance_due(interval_ns, now_ns) {
            return;
        }
        let maintained = self.run_maintenance_step(ContextChoice::MostRecent, now_ns);
        let Some(has_more) = maintained else { return };
        self.last_maintained_ns.store(now_ns, Ordering::Relaxed);
        // Release: pairs with the acquire in `Supervisor::end_maintenance`, which clears the flag.
        // If it clears the flag after this swap, it sees the time stored above, and continues
        // maintenance. If before, this swap finds the flag cleared and wakes the supervisor.
        if has_more && !self.has_maintenance.swap(true, Ordering::Release) {
            self.inbox.waker.wake();
        }
    }

    /// Returns whether the last maintenance step of a task was at least `interval_ns` ago.
    fn is_maintenance_due(&self, interval_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.last_maintained_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(last_ns) >= interval_ns
    }

    /// Runs a step of maintenance with the context that `choice` selects. Returns whether the step
    /// has left work in this context, or `None` if no step was run, because the context is in use.
    /// Work that makes system calls is done by a thread of the service. If such work is left, wakes
    /// this thread.
    fn run_maintenance_step(&self, choice: ContextChoice, now_ns: u64) -> Option<bool> {
        let maintained = self.runtime.maintain(choice, now_ns)?;
        if maintained.needs_thread {
            (self.setup.wake_maintenance)();
        }
        Some(maintained.has_more)
    }

    /// Counts a panic if `error` stands for a panic of the connection's transform, such as TLS. The
    /// caller closes the connection.
    fn count_if_panic(&self, error: &io::Error) {
        if transform::is_panic(error) {
            self.setup.counts.count_panics(1);
        }
    }

    /// Adds a peer to the list of peers and starts its task.
    ///
    /// # Errors
    /// The number of tasks is at its maximum, or no thread or stack is available. The peer is then
    /// not in the list.
    fn spawn(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        transformer: Option<Box<Transformer>>,
    ) -> Result<(), Exhausted> {
        let slot = self.peers.insert(Arc::clone(peer), self.max_tasks);
        let slot = slot.ok_or(Exhausted::Tasks)?;
        // `has_limits`: the time for which a task may wait for its peer is limited. If the
        // supervisor does not sweep yet, wake it, so that it begins.
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
                // True if the supervisor has to be woken, to join a task that has already ended.
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
    /// Starts a task for an admitted connection, or rejects the connection: counts it as closed and
    /// rejected, and sends the service's rejection message.
    fn take(&mut self, transport: SocketTransport) -> Result<(), Exhausted> {
        let (stream, transformer) = transport.into_parts();
        let is_plain = transformer.is_none();
        let peer = Arc::new(Peer::new(stream, second(monotonic_ns())));
        self.spawn(&peer, transformer)
            .inspect_err(|_| reject(&peer.stream, is_plain, &self.setup))
    }

    /// Does nothing. Other runtimes wake workers here. In these runtimes, [`take`](Dispatch::take)
    /// has started a task for each connection.
    fn flush(&mut self) {}
}

#[cfg(test)]
mod tests;
