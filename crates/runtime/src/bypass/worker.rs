//! The loop of a worker of the runtime `bypass`. The worker waits for frames and passes them to its
//! TCP/IP stack. Then it answers the connections that are ready, and sends the frames of the stack.

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

/// The state of one loop of a worker. The port (the packet socket of the worker, with its epoll
/// instance) outlives the loop.
pub(super) struct Worker<'p, S: service::Worker> {
    pub(super) server: Server<S>,
    pub(super) port: &'p mut Port,
}

/// Runs the loop of a worker until the worker has to stop. If the loop panics or returns an error,
/// starts a new loop with a new stack. (Other runtimes have `crate::restart` for this.) Each time a
/// loop ends, whether by a stop, an error or a panic, resets the connections that are still open.
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
        // `Ok(Ok(()))` if the worker has to stop, an error or a panic otherwise.
        let served = catch_unwind(AssertUnwindSafe(|| worker.serve_all()));
        // If the stack has panicked, resetting its connections may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut stack = worker.server.stack.borrow_mut();
            // Resets the connections.
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
        // Wake the next loop once, because the failed loop may have cleared a wake-up without
        // handling it.
        port.inbox.waker.wake();
    }
}

impl<S: service::Worker> Worker<'_, S> {
    /// Serves connections until the worker has to stop.
    ///
    /// # Errors
    /// The kernel reports an error of the wait or of the packet socket. For example, the device was
    /// removed.
    fn serve_all(&mut self) -> io::Result<()> {
        self.server.connections.context.set_up_thread();
        let mut now_ns = monotonic_ns();
        loop {
            // `offline`: the service refers to no shared memory while this thread sleeps.
            let context = &mut self.server.connections.context;
            context.service.offline();
            // The setup may require a minimum time between two bursts.
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
            // If the worker has stopped, the round still ends as usual: it sends the last frames.
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
