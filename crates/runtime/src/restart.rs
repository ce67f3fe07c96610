//! The restart of a worker's loop after a failure: a panic in the runtime's own code, or an error
//! of the wait for events. The worker's connections are closed and counted. Then a new loop on the
//! same thread serves new connections. If the thread ended instead, connections would wait forever,
//! because the acceptor would still pass them to this worker.
//!
//! A panic in a session does not fail the loop. It closes only the session's connection
//! (`WorkerContext::serve_burst`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sys::clock::monotonic_ns;

use crate::acceptor::reject;
use crate::inbox::Inbox;
use crate::limits::RESTART_PAUSE_NS;
use crate::transport::Transport as _;
use crate::worker_context::WorkerContext;

/// A worker's loop that waits for events and serves connections.
pub(crate) trait EventLoop: Sized {
    /// The service's state in the worker.
    type Service: service::Worker;
    /// The kernel objects with which the loop waits: an epoll instance, or an io_uring.
    type Kernel;

    /// Creates the kernel objects.
    ///
    /// # Errors
    /// The limit of descriptors or memory is reached.
    fn open(inbox: &Inbox) -> io::Result<Self::Kernel>;

    /// Creates the loop, without connections.
    fn new(context: WorkerContext<Self::Service>, inbox: Arc<Inbox>, kernel: Self::Kernel) -> Self;

    /// Serves connections until the worker has to stop.
    ///
    /// # Errors
    /// The wait for events fails. This does not happen in a correct program.
    fn serve_all(&mut self) -> io::Result<()>;

    /// Cancels the operations that are in progress in the kernel, then closes all connections.
    /// Returns the context for the next loop.
    fn close_all(self) -> WorkerContext<Self::Service>;
}

/// Runs the loop of a worker until the worker has to stop. Restarts the loop each time it fails.
pub(crate) fn run<L: EventLoop>(mut event_loop: L, inbox: &Arc<Inbox>) {
    loop {
        // A panic may leave the loop's state inconsistent. So `close_all` drops this state, except
        // for the context, which it resets.
        let served = catch_unwind(AssertUnwindSafe(|| event_loop.serve_all()));
        if matches!(served, Ok(Ok(()))) {
            return;
        }
        let context = event_loop.close_all();
        context.setup.counts.count_restart();
        match restart(context, inbox) {
            Some(next) => event_loop = next,
            None => return,
        }
    }
}

/// Creates the next loop of a worker. Tries again until the kernel objects can be created, and
/// rejects the connections that arrive meanwhile. Returns `None` if the worker has to stop.
fn restart<L: EventLoop>(mut context: WorkerContext<L::Service>, inbox: &Arc<Inbox>) -> Option<L> {
    loop {
        // If each new loop failed immediately, the thread would use all processor time without this
        // pause.
        thread::sleep(Duration::from_nanos(RESTART_PAUSE_NS));
        if let Ok(kernel) = L::open(inbox) {
            // Wake the new loop once, so that it looks into the inbox. The failed loop may have
            // cleared the inbox's event without taking the connections.
            inbox.waker.wake();
            return Some(L::new(context, Arc::clone(inbox), kernel));
        }
        while let Some(transport) = inbox.take() {
            reject(transport.stream(), transport.is_plain(), &context.setup);
        }
        if context.must_stop(monotonic_ns()) {
            return None;
        }
    }
}
