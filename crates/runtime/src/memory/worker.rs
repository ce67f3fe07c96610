//! The worker of `memory`, and the functions with which the caller runs it.

use std::sync::Arc;
use std::task::Waker;

use service::{Service, Worker as _};

use super::pipe::MemoryTransport;
use super::wake::{Flag, Pipes};
use crate::readiness::ReadinessLoop;
use crate::setup::{Setup, Shared, WaitPolicy};
use crate::worker_context::{WorkerContext, WorkerHandles};

/// Creates the context of a server's only worker, and the flag that is set when another thread
/// wakes this worker. The worker has no thread: its caller runs it and passes the time as an
/// argument. Of `setup`, the number of workers and the wait policy are ignored, because there is
/// one worker and it never waits.
pub(crate) fn only_context<S: Service>(
    service: &S,
    setup: Setup,
) -> (WorkerContext<S::Worker>, Arc<Flag>) {
    let setup = Setup {
        workers: 1,
        wait_policy: WaitPolicy::default(),
        ..setup
    };
    let woken = Arc::<Flag>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let handles = WorkerHandles {
        all_wakers: vec![waker.clone()],
        waker,
        stops_workers: Arc::default(),
    };
    let setup = Shared::new(setup, service);
    let mut context = WorkerContext::new(&setup, service.worker(), handles);
    // The worker reads no clock: the caller passes the time.
    context.clock_ns = None;
    (context, woken)
}

/// A server in memory, with one worker.
pub struct Memory<S: Service> {
    pub(super) connections: ReadinessLoop<S::Worker, MemoryTransport, Pipes>,
    /// Set when another thread wakes the worker.
    woken: Arc<Flag>,
}

impl<S: Service> Memory<S> {
    /// Creates a server without connections. Of `setup`, the number of workers and the wait policy
    /// are ignored, because there is one worker and it never waits.
    #[must_use]
    pub fn new(service: &S, setup: Setup) -> Self {
        let (context, woken) = only_context(service, setup);
        Self {
            connections: ReadinessLoop::new(context, Pipes::default()),
            woken,
        }
    }

    /// Serves all connections until no event is pending at time `now_ns`.
    pub fn run(&mut self, now_ns: u64) {
        let mut burst = Vec::new();
        loop {
            // Between `online` and `offline` the worker may hold references to shared memory.
            self.connections.context.service.online();
            let ready = self.connections.registry.ready();
            let was_idle = ready.is_empty();
            self.connections
                .serve_ready(ready.into_iter(), now_ns, &mut burst);
            let was_woken = self.woken.take();
            if was_woken {
                self.connections.on_wake(now_ns);
            }
            self.connections.sweep(now_ns);
            self.connections.context.maintain(now_ns);
            self.connections.context.service.offline();
            let has_work = self.connections.context.has_work();
            if was_idle && burst.is_empty() && !was_woken && !has_work {
                return;
            }
        }
    }

    /// Returns the number of nanoseconds after which the caller has to call [`run`](Self::run)
    /// again, even if no bytes arrive and no ticket is completed. `None` if this is not necessary.
    #[must_use]
    pub fn wait_timeout_ns(&self) -> Option<u64> {
        self.connections.context.wait_timeout_ns()
    }
}
