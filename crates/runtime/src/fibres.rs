//! Fibres: one per connection, on as many kernel threads as there are workers.
//!
//! ```text
//! acceptor ──▶ a fibre: exchange → with the processor's context: prepare, answer → exchange → …
//! ```
//!
//! Each processor has a worker context. A fibre does not yield while it answers, so it has the
//! context to itself for the duration of a burst. The context's lock is contended only by the
//! supervisor, which continues maintenance while a processor sleeps and only tries the lock. A
//! burst runs on the processor's stack, which is large and cached; a fibre's own stack holds little
//! more than the connection's state, about a page.
//!
//! A fibre answers one connection, and would wait for the cache misses of its bucket and its item.
//! Therefore the processor looks at all input of its ring before it runs the fibres: it prefetches
//! the bucket of each first request, then the items. So the misses overlap, as in a burst of the
//! event loop. With epoll each fibre receives for itself, so the processor sees no input and
//! prefetches nothing.
//!
//! An idle connection costs about a page of stack, its receive buffer and its output, both at most
//! [`IDLE_BUFFER_LEN`](crate::limits::IDLE_BUFFER_LEN), and a few hundred bytes of state.

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

/// A stack and its guard page.
const MAPPINGS_PER_FIBRE: usize = 2;

/// The fibres, and the contexts of their processors.
pub(crate) struct Fibres<S: Worker> {
    /// `None` after the last connection has ended.
    runtime: Mutex<Option<Runtime>>,
    contexts: Arc<ContextPool<S>>,
    /// Number of times the supervisor has looked for a sleeping processor's context.
    searches: AtomicUsize,
}

/// One context per processor, shared by its fibres.
pub(crate) struct ContextPool<S: Worker> {
    all: Box<[Mutex<ProcessorContext<S>>]>,
}

/// The context of a processor.
struct ProcessorContext<S: Worker> {
    context: WorkerContext<S>,
    /// The processor sleeps, so that the supervisor may run maintenance with its context.
    is_sleeping: bool,
}

/// Starts the processors and the supervisor. The returned value starts a fibre for each connection.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub(crate) fn start<S: Service>(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &S,
) -> io::Result<Arc<ConnectionTasks<Fibres<S::Worker>>>> {
    let contexts = (0..setup.workers).map(|_| {
        Mutex::new(ProcessorContext {
            context: WorkerContext::new(setup, service.worker(), running.handles(0)),
            is_sleeping: false,
        })
    });
    let contexts = Arc::new(ContextPool {
        all: contexts.collect(),
    });
    let runtime = Builder::new()
        .processors(setup.workers)
        .scheduler(setup.fibre_scheduler)
        .name("worker")
        .watch(ProcessorHooks::new(&contexts))
        .start()
        .map_err(io::Error::other)?;
    let fibres = Fibres {
        runtime: Mutex::new(Some(runtime)),
        contexts,
        searches: AtomicUsize::new(0),
    };
    let max_tasks = fibre_connections_max(
        sys::limits::memory_areas(),
        fibre::has_lightweight_guard_pages(),
    );
    ConnectionTasks::open(running, setup, fibres, max_tasks.unwrap_or(usize::MAX))
}

/// How many connections with fibres fit into this many memory mappings
/// ([`sys::limits::memory_areas`]). `None`: any number, because the guards of stacks need no
/// mappings ([`fibre::has_lightweight_guard_pages`]).
#[must_use]
pub fn fibre_connections_max(mappings: u64, has_lightweight_guard_pages: bool) -> Option<usize> {
    if has_lightweight_guard_pages {
        return None;
    }
    let mappings = usize::try_from(mappings).unwrap_or(usize::MAX);
    Some((mappings.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_PER_FIBRE).max(1))
}

/// How many memory mappings this many connections need, if guards need mappings.
#[must_use]
pub fn fibre_mappings_needed(connections: usize) -> u64 {
    (connections.saturating_mul(MAPPINGS_PER_FIBRE)).saturating_add(OTHER_MAPPINGS) as u64
}
