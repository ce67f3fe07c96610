//! Threads: one per connection. A thread sleeps in the kernel until its peer sends.
//!
//! ```text
//! acceptor ──▶ a thread: receive → borrow a context → prepare, answer → return it → send → …
//! ```
//!
//! Borrowing and returning a worker context costs two short locks, shared by all connections, and a
//! fence, because the context goes offline in between. A thread that finds no free context sleeps
//! until one is returned. While it wakes up, another thread may borrow that context: this is not
//! fair, but no context stays unused meanwhile.
//!
//! An idle connection costs the touched part of its stack (four pages of
//! [`TASK_STACK_LEN`](crate::limits::TASK_STACK_LEN)), its receive buffer and its output, both at
//! most [`IDLE_BUFFER_LEN`](crate::limits::IDLE_BUFFER_LEN), and a few hundred bytes of state
//! (`cargo xtask bench floor -- idle`), besides the kernel's own stack for the thread. A longer
//! reply is allocated and freed in each burst.
//!
//! Each thread has four memory mappings, and the kernel limits their number per process
//! (`vm.max_map_count`). A thread that gets only some of its mappings would abort the process, so
//! the number of threads is bounded by that limit: about fifteen thousand by default. A connection
//! beyond the bound, or one whose thread cannot be started, is rejected, and accepting pauses.

mod accept;
mod context_pool;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;

use service::{Service, Worker};

use crate::connection_tasks::ConnectionTasks;
use crate::limits::{MAPPINGS_PER_THREAD, OTHER_MAPPINGS};
use crate::running::Running;
use crate::setup::Shared;
use crate::worker_context::WorkerContext;
use context_pool::ContextPool;

/// The threads, and the worker contexts that they share.
pub(crate) struct Threads<S: Worker> {
    contexts: ContextPool<S>,
    /// How long a connection may be silent before it is closed, in nanoseconds.
    idle_ns: Option<u64>,
}

/// Starts the supervisor. The returned value starts a thread for each connection.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub(crate) fn start<S: Service>(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &S,
    idle_ns: Option<u64>,
) -> io::Result<Arc<ConnectionTasks<Threads<S::Worker>>>> {
    let handles = || running.handles(0);
    let contexts =
        (0..setup.workers).map(|_| WorkerContext::new(setup, service.worker(), handles()));
    let threads = Threads {
        contexts: ContextPool::new(contexts),
        idle_ns,
    };
    let max_tasks = thread_connections_max(sys::limits::memory_areas());
    ConnectionTasks::open(running, setup, threads, max_tasks)
}

/// How many connections with threads fit into this many memory mappings
/// ([`sys::limits::memory_areas`]).
#[must_use]
pub fn thread_connections_max(mappings: u64) -> usize {
    let mappings = usize::try_from(mappings).unwrap_or(usize::MAX);
    (mappings.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_PER_THREAD).max(1)
}

/// How many memory mappings this many connections need.
#[must_use]
pub fn thread_mappings_needed(connections: usize) -> u64 {
    (connections.saturating_mul(MAPPINGS_PER_THREAD)).saturating_add(OTHER_MAPPINGS) as u64
}

#[cfg(test)]
mod tests;
