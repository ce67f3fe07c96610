//! What the runtimes have in common that give each connection a task of its own: a thread, or a
//! fibre.
//!
//! ```text
//! acceptor ──▶ a task: receive → at a desk: prepare, answer → send → …
//!              attendant: joins who is done, closes slow holders, goes on with maintenance
//! ```
//!
//! A desk (a handle on the store, counters, a list of requests) is tens of KiB and a seat that
//! whoever reclaims memory asks. So there are as many as workers, whatever the connections, and a
//! conversation has one for the length of a burst only: between receiving and sending, without a
//! system call in between. One burst answers one connection, so that nothing is fetched ahead for
//! others, but where a processor of fibres sees what has come before any of it runs
//! (`fibres/wake.rs`).

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

/// What all conversations share.
pub(crate) struct ConnectionTasks<C: TaskRuntime> {
    setup: Arc<Setup>,
    pub(crate) runtime: C,
    peers: Peers<C::Task>,
    /// Conversations there may be at once.
    most: usize,
    /// Rouses the attendant.
    inbox: Arc<Inbox>,
    ending: Arc<AtomicBool>,
    /// The attendant has been told that the store has more to do.
    has_more: AtomicBool,
    /// When the store was last maintained.
    maintained_ns: AtomicU64,
    /// What tasks that sleep keep outside the store.
    buffered: Mutex<u64>,
}

/// Which desk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// The one whose memory is nearest: what it drains, the next write would go on with.
    MostRecent,
    /// The one that has slept longest, or each in turn: what one had begun to drain must not lie
    /// for ever.
    LeastRecent,
}

/// Who runs the conversations.
pub(crate) trait TaskRuntime: Send + Sync + Sized + 'static {
    /// A conversation that runs.
    type Task: Task;
    /// How a conversation waits for its peer.
    type PeerSocket: PeerSocket;

    /// Starts a conversation.
    ///
    /// # Errors
    /// There is none to be had.
    fn spawn(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task, Exhausted>;

    /// The conversation's own: how it is to wait for its peer.
    ///
    /// # Errors
    /// The connection is lost already, or the kernel has no room to watch it.
    fn socket(&self, peer: &Arc<Peer>) -> io::Result<Self::PeerSocket>;

    /// Does a burst's work at a desk. It makes no system call.
    fn with_context<R: Send>(&self, work: impl FnOnce(&mut WorkerContext) -> R + Send) -> R;

    /// Does a step of the store's maintenance, if a desk is free; true: there is more to do.
    fn maintain(&self, choice: Choice, now_ns: u64) -> Option<bool>;

    /// How many desks there are.
    fn contexts(&self) -> usize;

    /// The last conversation is over.
    fn stop(&self);
}

/// A conversation that runs.
pub(crate) trait Task: Send + 'static {
    /// Waits for its end.
    ///
    /// # Errors
    /// It panicked: with what.
    fn join(self) -> Result<(), Box<dyn Any + Send>>;
}

/// How a conversation waits for its peer. An error that passes is tried again, but of an exchange.
pub(crate) trait PeerSocket: Send {
    /// Waits for bytes; 0 is the peer's end.
    fn receive(&self, room: &mut [u8]) -> io::Result<usize>;

    /// Sends from byte `sent` on, `most` bytes at most, what there is room for now.
    fn send_now(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize>;

    /// Sends from byte `sent` on, `most` bytes at most; waits for room.
    fn send_once(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize>;

    /// Whether [`PeerSocket::exchange`] is better than sending and receiving.
    fn has_exchange(&self) -> bool;

    /// Sends all of `bytes`, then receives; any error means that the connection is lost.
    fn exchange(&self, bytes: &[u8], room: &mut [u8]) -> io::Result<usize>;

    /// Lets other conversations have their turn: this one has more to do, or might never wait,
    /// where its peer sends without end and it does not [exchange](Line::exchange).
    fn yield_now(&self);

    /// Waits so long, or until the peer is gone or lost: true.
    fn hangs_up_within(&self, timeout_ns: u64) -> bool;
}

impl<C: TaskRuntime> ConnectionTasks<C> {
    /// Starts the attendant; what it returns gives each connection its task.
    ///
    /// # Errors
    /// No descriptor or thread left.
    pub(crate) fn open(
        running: &mut Running,
        setup: &Arc<Setup>,
        runtime: C,
        most: usize,
    ) -> io::Result<Arc<Self>> {
        let tasks = Arc::new(Self {
            setup: Arc::clone(setup),
            runtime,
            peers: Peers::default(),
            most,
            inbox: Arc::clone(&running.inboxes[0]),
            ending: Arc::clone(&running.ending),
            has_more: AtomicBool::new(false),
            maintained_ns: AtomicU64::new(0),
            buffered: Mutex::default(),
        });
        let supervisor = Supervisor::new(Arc::clone(&tasks))?;
        running.spawn("attendant".to_owned(), move || supervisor.run())?;
        Ok(tasks)
    }

    /// Does a step of the store's maintenance if it is time for one and a desk is free; the
    /// attendant goes on with what is left.
    fn maintain(&self, now_ns: u64) {
        // As often as so many workers of another runtime would, together.
        let every_ns = MAINTAIN_INTERVAL_NS / self.runtime.contexts().max(1) as u64;
        if !self.is_maintenance_due(every_ns, now_ns) {
            return;
        }
        let maintained = self.maintain_at(Choice::MostRecent, now_ns);
        let Some(has_more) = maintained else { return };
        if self.setup.store.wants_tending() {
            self.setup.control.wake_maintenance();
        }
        if has_more && !self.has_more.swap(true, Ordering::Relaxed) {
            self.inbox.waker.wake();
        }
    }

    /// Whether the last step was so long ago.
    fn is_maintenance_due(&self, every_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.maintained_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(last_ns) >= every_ns
    }

    /// A step, if a desk is free; true: there is more to do.
    fn maintain_at(&self, choice: Choice, now_ns: u64) -> Option<bool> {
        let has_more = self.runtime.maintain(choice, now_ns)?;
        self.maintained_ns.store(now_ns, Ordering::Relaxed);
        Some(has_more)
    }

    /// Starts a peer's conversation.
    fn spawn(self: &Arc<Self>, peer: &Arc<Peer>) -> Result<(), Exhausted> {
        let slot = self.peers.insert(Arc::clone(peer), self.most);
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

    /// Everybody has a task of their own: nobody sleeps on a new connection.
    fn flush(&mut self) {}
}

#[cfg(test)]
mod tests;
