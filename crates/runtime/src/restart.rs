//! Restart of a failed worker loop: its connections are closed and counted, and a new loop serves
//! the connections that are dispatched to the worker from then on. If the thread merely ended, the
//! new connections would wait forever.
//!
//! A panic in a session has a smaller effect: see `WorkerContext::serve_burst`.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sys::clock::monotonic_ns;

use crate::acceptor::reject;
use crate::inbox::Inbox;
use crate::limits::RESTART_PAUSE_NS;
use crate::worker_context::WorkerContext;

/// The loop of a worker.
pub(crate) trait EventLoop: Sized {
    /// The service's state of the worker.
    type Service: service::Worker;
    /// The kernel objects of the loop.
    type Kernel;

    /// Creates the kernel objects.
    ///
    /// # Errors
    /// The limit of descriptors or memory is reached.
    fn open(inbox: &Inbox) -> io::Result<Self::Kernel>;

    fn new(context: WorkerContext<Self::Service>, inbox: Arc<Inbox>, kernel: Self::Kernel) -> Self;

    /// Serves connections until the worker has to stop.
    ///
    /// # Errors
    /// Waiting fails. This does not happen in a correct program.
    fn serve_all(&mut self) -> io::Result<()>;

    /// Cancels operations in the kernel, then closes all connections.
    fn close_all(self) -> WorkerContext<Self::Service>;
}

/// Runs the loop of a worker until it has to stop, with any number of restarts.
pub(crate) fn run<L: EventLoop>(mut event_loop: L, inbox: &Arc<Inbox>) {
    loop {
        // One `catch_unwind` for the whole loop. State that a panic left inconsistent is not used
        // again.
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

/// Restarts the loop. `None`: the worker has to stop. New connections are rejected until the kernel
/// provides the objects that the loop needs.
fn restart<L: EventLoop>(mut context: WorkerContext<L::Service>, inbox: &Arc<Inbox>) -> Option<L> {
    loop {
        // Without a pause, a loop that fails at once would spin.
        thread::sleep(Duration::from_nanos(RESTART_PAUSE_NS));
        if let Ok(kernel) = L::open(inbox) {
            // The failed loop may have consumed the event for new connections.
            inbox.waker.wake();
            return Some(L::new(context, Arc::clone(inbox), kernel));
        }
        while let Some(transport) = inbox.take() {
            reject(transport.stream(), &context.setup);
        }
        if context.is_ending(monotonic_ns()) {
            return None;
        }
    }
}
