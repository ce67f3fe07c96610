//! A worker of `bypass`: it waits for frames, passes them to its stack, answers the connections
//! that are ready as one burst, and sends the frames of the stack.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use sys::clock::monotonic_ns;
use tcpip::Config;

use super::port::Port;
use super::server::Server;
use crate::limits::RESTART_PAUSE_NS;
use crate::worker_context::WorkerContext;

/// A worker.
pub(super) struct Worker<'p, S: service::Worker> {
    pub(super) server: Server<S>,
    pub(super) port: &'p mut Port,
}

/// Runs the loop of a worker until the worker has to stop. Each time the loop fails, restarts it
/// with a new stack, as `crate::restart` does for other runtimes. Resets the connections that are
/// still open when a loop ends.
pub(super) fn run<S: service::Worker>(
    mut context: WorkerContext<S>,
    mut port: Port,
    config: &Config,
) {
    loop {
        let mut worker = Worker {
            server: Server::new(context, config.clone(), monotonic_ns()),
            port: &mut port,
        };
        let served = catch_unwind(AssertUnwindSafe(|| worker.serve_all()));
        // If the stack has panicked, resetting its connections may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut stack = worker.server.stack.borrow_mut();
            worker.port.end(&mut stack)
        }));
        if matches!(served, Ok(Ok(()))) {
            return;
        }
        context = worker.server.connections.close_all();
        context.setup.counts.count_restart();
        // If each new loop failed immediately, the thread would use all processor time without this
        // pause.
        thread::sleep(Duration::from_nanos(RESTART_PAUSE_NS));
        if context.must_stop(monotonic_ns()) {
            return;
        }
        // Wake the next loop once, because the failed one may have cleared an event without
        // handling it.
        port.inbox.waker.wake();
    }
}

impl<S: service::Worker> Worker<'_, S> {
    /// Serves connections until the worker has to stop.
    ///
    /// # Errors
    /// The device was removed.
    fn serve_all(&mut self) -> io::Result<()> {
        self.server.connections.context.set_up_thread();
        let mut now_ns = monotonic_ns();
        loop {
            let context = &mut self.server.connections.context;
            context.service.offline();
            if context.must_pause() {
                context.pause();
            }
            let timeout_ns = match self.port.has_frame() {
                true => Some(0),
                false => self.server.wait_timeout_ns(now_ns),
            };
            let was_woken = self.port.wait(timeout_ns)?;
            self.server.connections.context.service.online();
            now_ns = monotonic_ns();
            self.port
                .receive(&mut self.server.stack.borrow_mut(), now_ns);
            self.server.serve_ready(now_ns);
            if was_woken {
                self.on_wake(now_ns);
            }
            let has_stopped = self.has_stopped(now_ns);
            self.server.end_round(now_ns);
            let mut stack = self.server.stack.borrow_mut();
            self.port.send(stack.frames())?;
            let counts = self.port.counts(&stack);
            drop(stack);
            self.server.connections.context.counts.set_frames(counts);
            if has_stopped {
                return Ok(());
            }
        }
    }
}
