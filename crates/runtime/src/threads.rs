//! The runtime `threads`: one thread per connection. The thread sleeps in a system call until its
//! peer sends.
//!
//! ```text
//! acceptor ──▶ a thread: receive → borrow a context → prepare, answer → return context → send → …
//! ```
//!
//! A *worker context* is the service's state, counters, and a list of requests. A thread borrows a
//! context from a pool for each turn, in which it answers a bounded number of requests. Borrowing
//! and returning each take a short lock that all connections share. A returned context goes offline
//! (holds no references to shared memory), so that it does not delay the reclamation of memory.
//! Going online again costs a memory fence.
//!
//! A thread that finds no free context sleeps until a context is returned. While the sleeping
//! thread wakes up, another thread may borrow the returned context. This is not fair, but no
//! context stays unused during a wake-up.
//!
//! An idle connection occupies this memory (measured by the benchmark in
//! `docs/contributing/floor.md`):
//!
//! - four pages of stack (the rest of [`TASK_STACK_LEN`](crate::limits::TASK_STACK_LEN) is reserved
//!   address space);
//! - a receive buffer and an output buffer of at most
//!   [`IDLE_BUFFER_LEN`](crate::limits::IDLE_BUFFER_LEN) each; a longer output buffer is freed
//!   after it has been sent, and a longer receive buffer after the next short request;
//! - a few hundred bytes of state, and the kernel's stack of the thread.
//!
//! Each thread needs four memory mappings, and the kernel limits the number of mappings per process
//! (`vm.max_map_count`). If the limit were reached while a thread is started, the process would
//! abort. So the number of threads has a bound that is computed from this limit, about fifteen
//! thousand by default. A connection above the bound is rejected, and so is a connection whose
//! thread cannot be started. In both cases the acceptor then pauses.

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

/// The runtime `threads`: the worker contexts that the threads of connections share.
pub(crate) struct Threads<S: Worker> {
    contexts: ContextPool<S>,
}

/// Starts the supervisor (the thread that joins the connections' threads). The acceptor passes
/// connections to the returned value, which starts a thread for each connection.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub(crate) fn start<S: Service>(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &S,
) -> io::Result<Arc<ConnectionTasks<Threads<S::Worker>>>> {
    let handles = || running.handles(0);
    let contexts =
        (0..setup.workers).map(|_| WorkerContext::new(setup, service.worker(), handles()));
    let threads = Threads {
        contexts: ContextPool::new(contexts),
    };
    let max_tasks = thread_connections_max(sys::limits::memory_areas());
    ConnectionTasks::open(running, setup, threads, max_tasks)
}

/// Returns how many connections `threads` can serve if the process may have `mappings` memory
/// mappings ([`sys::limits::memory_areas`]), at least 1.
#[must_use]
pub fn thread_connections_max(mappings: u64) -> usize {
    let mappings = usize::try_from(mappings).unwrap_or(usize::MAX);
    (mappings.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_PER_THREAD).max(1)
}

/// Returns how many memory mappings `threads` needs for this many connections.
#[must_use]
pub fn thread_mappings_needed(connections: usize) -> u64 {
    (connections.saturating_mul(MAPPINGS_PER_THREAD)).saturating_add(OTHER_MAPPINGS) as u64
}

#[cfg(test)]
mod tests;
