//! The runtime `fibres`: one fibre (a thread of user space) per connection. A *processor* is a
//! kernel thread that runs fibres; there is one for each configured worker.
//!
//! ```text
//! acceptor ──▶ a fibre: exchange → with the processor's context: prepare, answer → exchange → …
//! ```
//!
//! An *exchange* sends the replies and receives the next input.
//!
//! Each processor has a worker context: the service's state, counters, and a list of requests. A
//! fibre does not yield during a turn, so no other fibre of its processor uses the context
//! meanwhile. The only other user is the supervisor, a thread that runs the service's maintenance
//! with the contexts of sleeping processors. It skips a context whose lock is taken.
//!
//! A turn runs on the processor's stack, which is large and stays in the CPU's cache. So a fibre's
//! own stack need not be large: it contains the connection's state, about a page.
//!
//! An event loop answers several connections together, and prefetches for all of them at once.
//! A fibre answers only one connection. Therefore the processor prefetches before it runs the
//! fibres that have input: for the first request of each fibre, first the index bucket and then the
//! item. The cache misses of different connections overlap. The processor can do so only with an
//! io_uring, which receives for all its fibres. With epoll each fibre receives for itself, and
//! nothing is prefetched across connections.
//!
//! An idle connection occupies about a page of stack, a receive buffer and an output buffer of at
//! most [`IDLE_BUFFER_LEN`](crate::limits::IDLE_BUFFER_LEN) each, and a few hundred bytes of state.
//! After a long request, the receive buffer is longer until the next short one.

mod accept;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use fibre::{Builder, Runtime};
use service::{Service, Worker};

use crate::connection_tasks::ConnectionTasks;
use crate::limits::OTHER_MAPPINGS;
use crate::running::Running;
use crate::setup::Shared;
use crate::worker_context::WorkerContext;
use wake::ProcessorHooks;

/// Number of memory mappings of a fibre: its stack and the guard page below it.
const MAPPINGS_PER_FIBRE: usize = 2;

/// The runtime `fibres`: the fibre scheduler and the contexts of its processors.
pub(crate) struct Fibres<S: Worker> {
    /// The scheduler and its processors. `None` after it has been stopped.
    runtime: Mutex<Option<Runtime>>,
    contexts: Arc<ContextPool<S>>,
    /// How often the supervisor has selected a context for maintenance. The supervisor selects each
    /// context in turn.
    selections: AtomicUsize,
}

/// The worker contexts, one per processor.
pub(crate) struct ContextPool<S: Worker> {
    /// The index of a context is the number of its processor.
    all: Box<[Mutex<ProcessorContext<S>>]>,
}

/// The context of a processor.
struct ProcessorContext<S: Worker> {
    context: WorkerContext<S>,
    /// The processor sleeps, so the supervisor may run maintenance with its context.
    is_sleeping: bool,
}

/// Starts the processors and the supervisor. The acceptor passes connections to the returned value,
/// which starts a fibre for each.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub(crate) fn start<S: Service>(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &S,
) -> io::Result<Arc<ConnectionTasks<Fibres<S::Worker>>>> {
    let contexts = (0..setup.workers).map(|_| {
        // Inbox 0, the only one, is the supervisor's. Processors have no inboxes.
        let handles = running.handles(0);
        Mutex::new(ProcessorContext {
            context: WorkerContext::new(setup, service.worker(), handles),
            is_sleeping: false,
        })
    });
    let contexts = Arc::new(ContextPool {
        all: contexts.collect(),
    });
    let builder = Builder::new()
        .processors(setup.workers)
        .scheduler(setup.fibre_scheduler)
        .name("worker")
        .watch(ProcessorHooks::new(&contexts));
    #[expect(
        unsafe_code,
        reason = "the one contract that the compiler cannot check here"
    )]
    // SAFETY: a task waits only in its own loop, which uses no `thread_local!`. The service's code
    // runs between two waits.
    let runtime = unsafe { builder.start() }.map_err(io::Error::other)?;
    let fibres = Fibres {
        runtime: Mutex::new(Some(runtime)),
        contexts,
        selections: AtomicUsize::new(0),
    };
    let max_tasks = fibre_connections_max(
        sys::limits::memory_areas(),
        fibre::has_lightweight_guard_pages(),
    );
    ConnectionTasks::open(running, setup, fibres, max_tasks.unwrap_or(usize::MAX))
}

/// Returns the maximum number of connections that `fibres` can serve, at least 1. `mappings` is the
/// maximum number of memory mappings of the process ([`sys::limits::memory_areas`]). Returns `None`
/// if this number does not limit the connections, because guard pages need no mappings of their own
/// ([`fibre::has_lightweight_guard_pages`]).
#[must_use]
pub fn fibre_connections_max(mappings: u64, has_lightweight_guard_pages: bool) -> Option<usize> {
    if has_lightweight_guard_pages {
        return None;
    }
    let mappings = usize::try_from(mappings).unwrap_or(usize::MAX);
    Some((mappings.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_PER_FIBRE).max(1))
}

/// Returns how many memory mappings the process needs to serve `connections` connections by
/// `fibres`, if guard pages need mappings of their own.
#[must_use]
pub fn fibre_mappings_needed(connections: usize) -> u64 {
    (connections.saturating_mul(MAPPINGS_PER_FIBRE)).saturating_add(OTHER_MAPPINGS) as u64
}
