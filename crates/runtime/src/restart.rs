//! A worker whose loop cannot go on begins anew: its connections are closed and counted, and it
//! serves those that are dealt to it from then on. A thread that merely ended would leave them
//! waiting for ever.
//!
//! What a panic in a session brings about is smaller: `WorkerContext::serve_connection`.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use sys::clock::monotonic_ns;

use crate::acceptor::reject;
use crate::inbox::Inbox;
use crate::limits::RESTART_PAUSE_NS;
use crate::worker_context::WorkerContext;

/// A worker's loop.
pub(crate) trait EventLoop: Sized {
    /// What it has of the kernel's.
    type Kernel;

    /// Has the kernel make that.
    ///
    /// # Errors
    /// No descriptor or memory left.
    fn open(inbox: &Inbox) -> io::Result<Self::Kernel>;

    fn new(context: WorkerContext, kernel: Self::Kernel) -> Self;

    /// Serves until the worker is to end.
    ///
    /// # Errors
    /// The kernel does not let it wait: none in a correct program.
    fn serve_all(&mut self) -> io::Result<()>;

    /// Ends what the kernel has under way, then closes all connections.
    fn close_all(self) -> WorkerContext;
}

/// Runs a worker's loop until the worker is to end, however often it has to begin anew.
pub(crate) fn run<L: EventLoop>(mut event_loop: L) {
    loop {
        // Once for the whole loop. What a panic leaves half done is not looked at again.
        let served = catch_unwind(AssertUnwindSafe(|| event_loop.serve_all()));
        if matches!(served, Ok(Ok(()))) {
            return;
        }
        let context = event_loop.close_all();
        context.setup.counts.count_restart();
        match restart(context) {
            Some(next) => event_loop = next,
            None => return,
        }
    }
}

/// None: the worker is to end. Until the kernel has what a loop needs, newcomers are turned away.
fn restart<L: EventLoop>(mut context: WorkerContext) -> Option<L> {
    loop {
        // What fails at once would otherwise fail without end.
        thread::sleep(Duration::from_nanos(RESTART_PAUSE_NS));
        if let Ok(kernel) = L::open(&context.inbox) {
            // The event that told of newcomers may have been taken already.
            context.inbox.waker.wake();
            return Some(L::new(context, kernel));
        }
        while let Some(stream) = context.inbox.take() {
            reject(&stream, &context.setup.counts);
        }
        if context.is_ending(monotonic_ns()) {
            return None;
        }
    }
}
