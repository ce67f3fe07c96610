//! The common part of the runtimes with a task (a thread or a fibre) per connection.
//!
//! ```text
//! acceptor ──▶ a task: receive → with a worker context: prepare, answer → send → …
//!              supervisor: joins finished tasks, closes slow holders, continues maintenance
//! ```
//!
//! A worker context (a handle on the store, counters, a list of requests) takes tens of KiB, and
//! reclamation has to check every handle. So there are only as many contexts as workers, for any
//! number of connections. A task uses one for the duration of a burst only: between receiving and
//! sending, without a system call in between. A burst answers one connection, so no requests of
//! other connections are prefetched. Fibres are the exception: their processor sees the
//! input before any of them runs (`fibres/wake.rs`).

mod buffered;
mod peers;
mod supervisor;
mod task;

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use session::Output;
use sys::socket::Stream;

use crate::acceptor::{Dispatch, Exhausted, reject};
use crate::inbox::Inbox;
use crate::limits::MAINTAIN_INTERVAL_NS;
use crate::running::Running;
use crate::setup::Setup;
use crate::transport::Transport;
use crate::worker_context::WorkerContext;
pub(crate) use peers::Peer;
use peers::Peers;
use supervisor::Supervisor;
use task::serve_connection;

/// The state shared by all tasks.
pub(crate) struct ConnectionTasks<C: TaskRuntime> {
    setup: Arc<Setup>,
    pub(crate) runtime: C,
    peers: Peers<C::Task>,
    /// Maximum number of tasks at a time.
    max_tasks: usize,
    /// Wakes the supervisor.
    inbox: Arc<Inbox>,
    ending: Arc<AtomicBool>,
    /// The supervisor has been woken because the store has more maintenance to do.
    has_more: AtomicBool,
    /// Time of the last maintenance step.
    maintained_ns: AtomicU64,
    /// Bytes that sleeping tasks keep outside the store.
    buffered: Mutex<u64>,
}

/// How to choose a worker context.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// The context used last: its memory is most likely cached, and the next write continues the
    /// evacuation it began.
    MostRecent,
    /// The context idle for longest, or each in turn, so that an evacuation begun by any of them is
    /// finished.
    LeastRecent,
}

/// What a runtime with a task per connection provides.
pub(crate) trait TaskRuntime: Send + Sync + Sized + 'static {
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
    fn with_context<R: Send>(&self, work: impl FnOnce(&mut WorkerContext) -> R + Send) -> R;

    /// Runs a step of store maintenance if a context is free. Returns true if more work remains.
    fn maintain(&self, choice: Choice, now_ns: u64) -> Option<bool>;

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
    fn receive(&self, room: &mut [u8]) -> io::Result<usize>;

    /// Sends at most `max_len` bytes from byte `sent`, as far as the socket has space now.
    fn send_now(&self, output: &Output, sent: usize, max_len: usize) -> io::Result<usize>;

    /// Sends at most `max_len` bytes from byte `sent`; waits for space.
    fn send_once(&self, output: &Output, sent: usize, max_len: usize) -> io::Result<usize>;

    /// Whether [`PeerSocket::exchange`] is cheaper than sending and receiving.
    fn has_exchange(&self) -> bool;

    /// Sends all of `bytes`, then receives. Any error means that the connection is lost.
    fn exchange(&self, bytes: &[u8], room: &mut [u8]) -> io::Result<usize>;

    /// Lets other tasks run. A task calls it if it has more to do, or might otherwise never wait
    /// because its peer sends without end and it does not [exchange](PeerSocket::exchange).
    fn yield_now(&self);

    /// Sleeps for `timeout_ns`. Returns true early if the peer has hung up or the connection is
    /// lost.
    fn hangs_up_within(&self, timeout_ns: u64) -> bool;
}

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Starts the supervisor. The returned value starts a task for each accepted connection.
    ///
    /// # Errors
    /// The limit of descriptors or threads is reached.
    pub(crate) fn open(
        running: &mut Running,
        setup: &Arc<Setup>,
        runtime: C,
        max_tasks: usize,
    ) -> io::Result<Arc<Self>> {
        let tasks = Arc::new(Self {
            setup: Arc::clone(setup),
            runtime,
            peers: Peers::default(),
            max_tasks,
            inbox: Arc::clone(&running.inboxes[0]),
            ending: Arc::clone(&running.ending),
            has_more: AtomicBool::new(false),
            maintained_ns: AtomicU64::new(0),
            buffered: Mutex::default(),
        });
        let supervisor = Supervisor::new(Arc::clone(&tasks))?;
        running.spawn("supervisor".to_owned(), move || supervisor.run())?;
        Ok(tasks)
    }

    /// Runs a step of store maintenance if it is due and a context is free. The supervisor
    /// continues with the rest.
    fn maintain(&self, now_ns: u64) {
        // The steps of all contexts together are as frequent as in the other runtimes, where every
        // worker makes its own.
        let every_ns = MAINTAIN_INTERVAL_NS / self.runtime.contexts().max(1) as u64;
        if !self.is_maintenance_due(every_ns, now_ns) {
            return;
        }
        let maintained = self.maintain_at(Choice::MostRecent, now_ns);
        let Some(has_more) = maintained else { return };
        if self.setup.store.needs_page_maintenance() {
            self.setup.control.wake_maintenance();
        }
        if has_more && !self.has_more.swap(true, Ordering::Relaxed) {
            self.inbox.waker.wake();
        }
    }

    /// Whether the last step was at least `every_ns` ago.
    fn is_maintenance_due(&self, every_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.maintained_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(last_ns) >= every_ns
    }

    /// Runs a step if a context is free. Returns true if more work remains.
    fn maintain_at(&self, choice: Choice, now_ns: u64) -> Option<bool> {
        let has_more = self.runtime.maintain(choice, now_ns)?;
        self.maintained_ns.store(now_ns, Ordering::Relaxed);
        Some(has_more)
    }

    /// Starts the task of a peer.
    fn spawn(self: &Arc<Self>, peer: &Arc<Peer>) -> Result<(), Exhausted> {
        let slot = self.peers.insert(Arc::clone(peer), self.max_tasks);
        let slot = slot.ok_or(Exhausted::Tasks)?;
        let (tasks, its_peer) = (Arc::clone(self), Arc::clone(peer));
        let spawned = self
            .runtime
            .spawn(move || serve_connection(tasks, its_peer, slot));
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
    fn take(&mut self, stream: Stream) -> Result<(), Exhausted> {
        let now_s = self.setup.clock.now().elapsed_s;
        let peer = Arc::new(Peer::new(Transport::Plain(stream), now_s));
        self.spawn(&peer).inspect_err(|_| {
            let Transport::Plain(stream) = &peer.transport;
            reject(stream, &self.setup.counts);
        })
    }

    /// Nothing to wake: each new connection has its own task.
    fn flush(&mut self) {}
}

#[cfg(test)]
mod tests;
